// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Texts that others write, and a network that is slow.
import type { Page } from '@playwright/test';
import { clean, expect, fits, narrow, shot, test } from './browser.ts';
import * as fixtures from './fixtures.ts';

test.use({ viewport: { width: 1100, height: 900 } });

// What users, manifests and programs of others put into what a page shows.
const theirs = new Set(['summary', 'message', 'advice', 'what', 'contact', 'reason', 'user', 'fix', 'why', 'from', 'to', 'userAgent', 'permission', 'images']);

// written puts a text wherever others may write one.
function written(text: string): (answer: unknown) => unknown {
  const change = (value: unknown, key = ''): unknown => {
    if (typeof value === 'string' && theirs.has(key)) return text;
    if (Array.isArray(value)) return value.map(item => change(item, key === 'images' || key === 'cells' ? key : ''));
    if (value === null || typeof value !== 'object') return key === 'cells' && value === null ? text : value;
    return Object.fromEntries(Object.entries(value).map(([k, inner]) => [k, change(inner, k)]));
  };
  return change;
}

async function everywhere(page: Page, at: string, look: () => Promise<void>): Promise<void> {
  await page.goto(at);
  await expect(page.getByRole('listitem')).toHaveCount(3);
  await look();
  for (const name of ['cart', 'web']) {
    await page.goto(`${at}#/shop/${name}`);
    await expect(page.getByRole('heading', { name: 'History' })).toBeVisible();
    for (const summary of await page.locator('.history summary').all()) await summary.click();
    await look();
  }
  await page.getByRole('button', { name: /^Promote step 2/ }).click();
  await expect(page.getByRole('dialog').getByRole('table')).toBeVisible();
  await look();
  await page.goto(`${at}#/shop/web/compare/11/12`);
  await expect(page.getByText('"level-12"')).toBeVisible();
  await look();
}

test('HTML in what others write is text', async ({ page, fake, at }) => {
  const html = '<img src="x" onerror="throw new Error(`run`)"><script>throw new Error("run")</script><b id="theirs">bold</b>';
  fake.change = written(html);
  fake.planHasError = true;
  await everywhere(page, at, async () => {
    await expect(page.locator('#app img, #app script, #theirs')).toHaveCount(0);
  });
  await page.goto(`${at}#/shop/${encodeURIComponent(html)}`);
  await expect(page.locator('#app img, #app script, #theirs')).toHaveCount(0);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('<b id="theirs">');
});

test('an address and words that no server sends', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/%E0%A4%A`);
  await expect(page.getByRole('heading', { name: '%E0%A4%A' })).toBeVisible();
  fake.trees.set('shop/web', fixtures.tree('web', { why: { ...fixtures.why(), state: 'constructor' } }));
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('constructor')).toBeVisible();
});

test('texts of a thousand letters fit on a phone', async ({ page, fake, at }) => {
  fake.change = written('ü'.repeat(1024));
  fake.planHasError = true;
  await everywhere(page, at, async () => {
    await narrow(page);
    await page.setViewportSize({ width: 1100, height: 900 });
    await fits(page);
    for (const dialog of await page.locator('dialog').all())
      expect(await dialog.evaluate(element => element.scrollWidth <= element.clientWidth), 'the dialog has no sideways scrolling').toBe(true);
  });
});

test('letters from right to left turn round nothing beside them', async ({ page, fake, at }) => {
  fake.change = written('fine \u202E\u2067 8v');
  await page.goto(`${at}#/shop/web`);
  const [user, reason] = [page.locator('.decisions b').first(), page.locator('.decisions q').first()];
  await expect(reason).toBeVisible();
  for (const [left, right] of [
    [user, reason],
    [reason, page.locator('.decisions li .small').first()],
    [page.locator('.top h1'), page.locator('.top .images b')],
    [page.locator('.say b'), page.locator('.say span')],
  ])
    expect((await left!.boundingBox())!.x).toBeLessThan((await right!.boundingBox())!.x);
  expect(await page.locator('.images b').evaluate(element => getComputedStyle(element).unicodeBidi)).toBe('isolate');
});

test('twenty thousand decisions', async ({ page, fake, at }) => {
  const all = fixtures.history();
  const [first] = all.releases!;
  const decisions = Array.from({ length: 200 }, (_, i) => ({ ...first!.decisions![0]!, id: i, reason: `reason ${i}` }));
  const releases = Array.from({ length: 100 }, (_, i) => ({ ...first!, number: i === 0 ? 12 : 1000 - i, decisions }));
  fake.change = answer => ((answer as typeof all).releases ? { releases } : answer);
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('reason 199')).toBeVisible();
  await expect(page.getByText('and 150 before these')).toBeVisible();
  await page.locator('.history summary').first().click();
  expect(await page.locator('.decisions li').count()).toBeLessThan(150);
  await clean(page);
});

test('a slow network', async ({ page, at }) => {
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  await network.send('Network.emulateNetworkConditions', { offline: false, latency: 1500, downloadThroughput: 40_000, uploadThroughput: 20_000 });
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('Loading…')).toBeVisible({ timeout: 15_000 });
  await shot(page, 'slow');
  await page.getByRole('button', { name: /^Promote step 2/ }).click({ timeout: 15_000 });
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('Loading the preview…')).toBeVisible();
  await shot(page, 'slow-dialog');
  await expect(dialog.getByRole('table')).toBeVisible({ timeout: 15_000 });
  await expect(dialog.getByText('Loading the preview…')).toHaveCount(0);
  await dialog.getByRole('button', { name: /^Promote/ }).click();
  await expect(dialog.getByRole('button', { name: 'Sending…' })).toBeDisabled();
  await expect(dialog).toHaveCount(0, { timeout: 15_000 });
});
