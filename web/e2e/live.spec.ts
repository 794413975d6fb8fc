// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Releases on a real control plane, through kubectl proxy. test/web starts both.
import { execFileSync } from 'node:child_process';
import type { Page } from '@playwright/test';
import { clean, expect, shot, test } from './browser.ts';

test.describe.configure({ mode: 'serial', timeout: 240_000 });
test.use({ viewport: { width: 1100, height: 900 } });
// What waits for pods waits as long as a slow machine takes.
expect.configure({ timeout: 60_000 });
const slow = expect.configure({ timeout: 90_000 });

const root = '/apis/rollouts.kruise.io/v1beta1';
const rollout = `${root}/namespaces/default/rollouts/rollouts-demo`;
const page = '/ui/#/default/rollouts-demo';

function proxyOf(person: string): string {
  const at = process.env[`WEIR_${person}`];
  if (!at) throw new Error('make e2e-web starts what this needs');
  return at;
}

function kubectl(...args: string[]): string {
  return execFileSync(process.env['KUBECTL']!, args, { encoding: 'utf8' });
}

interface Decided {
  decisions: { user: string; revision: string }[];
  canaryStatus: { canaryRevision: string };
}

let version = 1;
function release(): void {
  kubectl('set', 'image', 'deployment/echoserver', `echoserver=example.com/echoserver:v${++version}`);
}

async function waiting(page: Page, step: number): Promise<void> {
  await slow(page.locator('.summary')).toContainText(new RegExp(`step ${step} of \\d.*(waits for an approval|waiting for approval)`, 'i'));
}

test('a release to its end, by keyboard alone', async ({ page: tab }) => {
  await tab.goto(`${proxyOf('alice')}${root}/ui/`);
  await expect(tab.getByText('No release in progress.')).toBeVisible();
  release();
  await slow(tab.getByRole('link', { name: 'rollouts-demo' })).toBeVisible();
  await shot(tab, 'live-list');
  await tab.keyboard.press('j');
  await tab.keyboard.press('Enter');
  await waiting(tab, 1);
  await shot(tab, 'live-release');
  await clean(tab);
  await expect(tab.locator('.timeline li')).toHaveCount(3);
  // The last step is all pods, and waits for nobody.
  for (const step of [1, 2]) {
    await waiting(tab, step);
    await tab.keyboard.press('p');
    await expect(tab.getByRole('dialog').getByRole('table')).toBeVisible();
    if (step === 1) await shot(tab, 'live-dialog');
    await tab.getByLabel('Reason').focus();
    await tab.keyboard.type(`step ${step} is fine`);
    await tab.keyboard.press('Enter');
    await expect(tab.getByRole('dialog')).toHaveCount(0);
  }
  await slow(tab.locator('.summary')).toContainText(/No release (is under way|in progress)/);
  await slow(tab.getByText('step 1 is fine').first()).toBeAttached();
  await shot(tab, 'live-end');
  await clean(tab);
});

test('back to an earlier version in one click', async ({ page: tab }) => {
  await tab.goto(`${proxyOf('alice')}${root}${page}`);
  await expect(tab.locator('.summary')).toContainText('Healthy');
  release();
  await waiting(tab, 1);
  await tab.keyboard.press('f');
  await tab.getByLabel('Reason').focus();
  await tab.keyboard.press('Enter');
  await expect(tab.getByRole('dialog')).toHaveCount(0);
  await slow(tab.locator('.decisions').first()).toContainText('approved');
  const back = tab.getByRole('group', { name: 'What you can do' }).getByRole('button', { name: `Roll back to v${version - 1}…` });
  await slow(back).toBeVisible();
  await back.click();
  const dialog = tab.getByRole('dialog');
  await expect(dialog.getByRole('table')).toBeVisible();
  await shot(tab, 'live-undo');
  await dialog.getByRole('button', { name: `Roll back to v${version - 1}` }).click();
  await expect(dialog).toHaveCount(0);
  await waiting(tab, 1);
  expect(kubectl('get', 'deployment', 'echoserver', '-o', 'jsonpath={.spec.template.spec.containers[0].image}')).toBe(`example.com/echoserver:v${version - 1}`);
});

test('what arrives through the aggregator', async ({ request }) => {
  const first = await request.get(`${proxyOf('victor')}${root}/ui/`);
  expect(first.headers()['content-security-policy']).toContain("default-src 'none'; script-src 'self'");
  expect(first.headers()['x-frame-options']).toBe('DENY');
  const script = await request.get(`${proxyOf('victor')}${root}/ui/app.js`);
  expect(script.headers()['x-content-type-options']).toBe('nosniff');
  const again = await request.get(`${proxyOf('victor')}${root}/ui/app.js`, { headers: { 'If-None-Match': script.headers()['etag']! } });
  expect(again.status()).toBe(304);
});

test('a viewer sees no buttons; two windows approve and one wins', async ({ browser, page: viewer }) => {
  release();
  await viewer.goto(`${proxyOf('victor')}${root}${page}`);
  await waiting(viewer, 1);
  await expect(viewer.getByRole('group', { name: 'What you can do' })).toHaveCount(0);
  const windows: [string, Page][] = [];
  for (const person of ['alice', 'bob']) {
    const tab = await (await browser.newContext()).newPage();
    await tab.goto(`${proxyOf(person)}${root}${page}`);
    await waiting(tab, 1);
    await tab.getByRole('button', { name: /^Promote step 1/i }).click();
    windows.push([person, tab]);
  }
  const send = (tab: Page) => tab.getByRole('dialog').getByRole('button', { name: /^Promote/ });
  await send(windows[0]![1]).click();
  const other = windows[1]![1].getByRole('dialog');
  await slow(other).toContainText('alice approved step 1');
  await expect(send(windows[1]![1])).toBeDisabled();
  await shot(windows[1]![1], 'live-lost');
  const { status } = (await (await viewer.request.get(proxyOf('alice') + rollout)).json()) as { status: Decided };
  expect(status.decisions.filter(d => d.revision === status.canaryStatus.canaryRevision).map(d => d.user)).toEqual(['alice']);
});

test('a page of another origin can not approve', async ({ page: evil, at, faults }) => {
  // Another port of this machine: the browser itself keeps pages of other machines away.
  await evil.route(at, route => route.fulfill({ contentType: 'text/html', body: '<h1>Win</h1>' }));
  await evil.goto(at);
  const before = kubectl('get', 'rollout', 'rollouts-demo', '-o', 'jsonpath={.status.decisions}');
  await evil.evaluate(
    async url => {
      for (const type of ['text/plain', 'application/x-www-form-urlencoded']) {
        await fetch(url, { method: 'POST', mode: 'no-cors', headers: { 'Content-Type': type }, body: '{"full":true}' }).catch(() => undefined);
      }
      await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"full":true}' }).catch(() => undefined);
    },
    `${proxyOf('alice')}${rollout}/promote`,
  );
  expect(kubectl('get', 'rollout', 'rollouts-demo', '-o', 'jsonpath={.status.decisions}')).toBe(before);
  faults.length = 0; // the browser says that it may not read the answers
});

test('a check fails, and the page says why', async ({ page: tab }) => {
  kubectl('set', 'image', 'deployment/judged', 'judged=example.com/judged:v2');
  await tab.goto(`${proxyOf('alice')}${root}/ui/#/default/judged`);
  await slow(tab.locator('.check-Failed')).toContainText(/smoke failed.*job smoke-\w+ failed: DeadlineExceeded/s);
  await slow(tab.locator('.summary')).toContainText(/Aborted.*aborted by its checks: smoke: job/);
  await shot(tab, 'live-failed');
  await clean(tab);
});

test('rights that are taken away while the page is open', async ({ browser, page: tab }) => {
  const viewer = await (await browser.newContext()).newPage();
  await viewer.goto(`${proxyOf('victor')}${root}${page}`);
  await waiting(viewer, 2);
  kubectl('delete', 'clusterrolebinding', 'victor', 'victor-views');
  await tab.goto(`${proxyOf('bob')}${root}${page}`);
  await waiting(tab, 2);
  await tab.getByRole('button', { name: /^Promote step 2/i }).click();
  kubectl('delete', 'clusterrolebinding', 'bob');
  const dialog = tab.getByRole('dialog');
  await slow(async () => {
    await dialog.getByRole('button', { name: /^Promote/ }).click({ timeout: 5_000 });
    await expect(dialog).toContainText('cannot create', { timeout: 2_000 });
  }).toPass();
  // A stream asks for its rights each half a minute.
  await slow(viewer.getByRole('alert')).toContainText('forbidden');
});
