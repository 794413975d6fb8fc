// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: '.',
  outputDir: process.env['WEIR_WEB_OUT'] ?? 'results',
  workers: 1,
  timeout: 90_000, // a slow machine also takes pictures in this time
  forbidOnly: true,
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    trace: 'retain-on-failure',
    launchOptions: {
      executablePath: process.env['CHROMIUM'] || undefined, // or Playwright's own
      // A browser of a test asks nobody outside, and a container has no sandbox of its own.
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
});
