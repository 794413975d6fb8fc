// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { AxeBuilder } from '@axe-core/playwright';
import { expect, test as base } from '@playwright/test';
import type { Page } from '@playwright/test';
import { Fake } from './serve.ts';

// Every test fails if a page reports an error or a violation of its policy.
export const test = base.extend<{ faults: string[]; fake: Fake; at: string }>({
  faults: [
    async ({ context }, use) => {
      const faults: string[] = [];
      context.on('console', message => {
        // An answer that refuses is the server's to give, and the page's to say.
        if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
      });
      context.on('weberror', error => faults.push(error.error().message));
      await context.addInitScript(() => {
        addEventListener('securitypolicyviolation', event => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
      });
      await use(faults);
      expect(faults).toEqual([]);
    },
    { auto: true },
  ],
  fake: async ({}, use) => {
    const fake = new Fake();
    await use(fake);
    await fake.stop();
  },
  at: async ({ fake }, use) => use(await fake.start()),
});

export { expect };

// clean checks a page against the rules of WCAG 2.2 AA, in both themes.
export async function clean(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze();
    expect(violations.map(v => `${colorScheme}: ${v.id}: ${v.nodes.map(n => n.html.slice(0, 120)).join(' ')}`)).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: null });
}

// shot keeps what a state looks like, for those who look.
export async function shot(page: Page, name: string): Promise<void> {
  const to = process.env['WEIR_WEB_SHOTS'];
  if (to) await page.screenshot({ path: `${to}/${name}.png` });
}

// shots keeps what a state looks like on a phone, a tablet and a desktop, in both themes.
export async function shots(page: Page, name: string): Promise<void> {
  if (!process.env['WEIR_WEB_SHOTS']) return;
  const before = page.viewportSize()!;
  for (const width of [360, 768, 1280]) {
    await page.setViewportSize({ width, height: width < 500 ? 740 : 900 });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await shot(page, `${name}-${width}-${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: null });
  await page.setViewportSize(before);
}

// fits finds what would need scrolling sideways.
export async function fits(page: Page): Promise<void> {
  const wide = await page.evaluate(() => {
    const most = document.scrollingElement!.clientWidth;
    if (document.scrollingElement!.scrollWidth <= most) return [];
    return [...document.querySelectorAll('#app *')].filter(e => e.getBoundingClientRect().right > most + 1).map(e => e.outerHTML.slice(0, 80));
  });
  expect(wide).toEqual([]);
}

export async function narrow(page: Page): Promise<void> {
  await page.setViewportSize({ width: 320, height: 640 });
  await fits(page);
}
