// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// The pages with answers of fixtures: what a control plane seldom has, or never at once.
import { clean, expect, narrow, shot, test } from './browser.ts';
import * as fixtures from './fixtures.ts';

test.use({ viewport: { width: 1100, height: 900 } });

test('list: active releases, what waits, what one may do', async ({ page, fake, at }) => {
  await page.goto(at);
  await expect(page.getByRole('listitem')).toHaveCount(3);
  await expect(page.getByRole('button', { name: 'Promote step 2 of web…' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'waiting for me 1' })).toBeVisible();
  await shot(page, 'list');
  await clean(page);
  await narrow(page);
  await shot(page, 'list-phone');
  await page.getByRole('link', { name: 'waiting for me' }).click();
  await expect(page.getByRole('listitem')).toHaveCount(1);
  fake.total = 0;
  await page.reload();
  await expect(page.getByText('Nothing waits for you.')).toBeVisible();
});

test('list: ten thousand Rollouts', async ({ page, fake, at }) => {
  fake.total = 10_000;
  await page.goto(`${at}#/?show=all`);
  await expect(page.getByRole('contentinfo')).toContainText('10,000 Rollouts', { timeout: 20_000 });
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await expect(page.getByRole('link', { name: 'service-09999' })).toBeVisible();
  expect(await page.getByRole('listitem').count()).toBeLessThan(60);
  await page.getByRole('searchbox').fill('09998');
  await expect(page.getByRole('listitem')).toHaveCount(1);
});

test('list: a namespace is typed where the cluster may not be listed', async ({ page, fake, at }) => {
  fake.forbidsList = true;
  await page.goto(at);
  await expect(page.getByText('You may not list the Rollouts of the whole cluster.')).toBeVisible();
  await page.getByRole('combobox', { name: 'Namespace' }).fill('shop');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('link', { name: 'web' })).toBeVisible();
});

test('release: all parts, by eye and by ear', async ({ page, at }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('status')).toHaveText(/waits for an approval/);
  for (const part of ['Steps', 'Pods', 'Workload and network', 'Checks', 'Decisions', 'History']) {
    await expect(page.getByRole('heading', { name: part })).toBeVisible();
  }
  await expect(page.getByText('error rate is fine').first()).toBeVisible();
  await expect(page.getByText('3.4 % of the requests took longer than 250 ms')).toBeVisible();
  await page.getByText('5 pods').first().click();
  await page
    .getByRole('button', { name: /^Log of/ })
    .first()
    .click();
  await expect(page.getByText('listening on :8080')).toBeVisible();
  await clean(page);
  await page.keyboard.press('Escape');
  await shot(page, 'release');
  await clean(page);
  await narrow(page);
  await shot(page, 'phone');
  await page.getByRole('button', { name: 'More' }).click();
  await clean(page);
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot(page, 'phone-dark');
});

test('release: five hundred pods', async ({ page, fake, at }) => {
  const tree = fixtures.tree('web', { update: [150, 50, 0], stable: 0 });
  tree.nodes!.push(
    { id: 'many', parent: 'stable', kind: 'Pod', role: 'pods', revision: 'stable', health: 'Healthy', pods: 290, ready: 290 },
    { id: 'bad', parent: 'stable', kind: 'Pod', role: 'pods', revision: 'stable', health: 'Degraded', pods: 10, message: 'CrashLoopBackOff' },
  );
  fake.trees.set('shop/web', tree);
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('10 pods: CrashLoopBackOff')).toBeVisible();
  await page.getByText('200 pods').click();
  await expect(page.getByRole('row')).toHaveCount(201);
});

test('release: what stalls is said, and where to look', async ({ page, at }) => {
  await page.goto(`${at}#/shop/cart`);
  await expect(page.getByText('Push the image, or roll back.')).toBeVisible();
  await expect(page.getByText('1 pod: ImagePullBackOff')).toBeVisible();
  await shot(page, 'stalled');
  await clean(page);
});

test('a viewer sees no buttons', async ({ page, fake, at }) => {
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.why('web', false) }));
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('waits for an approval').first()).toBeVisible();
  await expect(page.getByRole('group', { name: 'What you can do' })).toHaveCount(0);
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('a dialog says what will happen, and sends what was on the screen', async ({ page, fake, at }) => {
  fake.planHasError = true;
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: /^Promote step 2/ }).press('Enter');
  await expect(page.getByText('1500m CPU left, 3 more pods ask for 3000m.')).toBeVisible();
  await shot(page, 'dialog');
  await clean(page);
  await narrow(page);
  await shot(page, 'dialog-phone');
  await page.getByLabel('Reason').fill('looks good');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  const { path, body } = fake.posted[0]!;
  expect([path, body['expect'], body['reason']]).toEqual([
    'namespaces/shop/rollouts/web/promote',
    { step: 2, revision: '6f9d5b7c8d', plan: 'c4f1' },
    'looks good',
  ]);
  expect(body['requestID']).toMatch(/\S{10,}/);
});

test('an action that needs a reason or a step asks for it', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: /^Abort/ }).click();
  const send = page.getByRole('dialog').getByRole('button', { name: 'Abort' });
  await expect(send).toBeDisabled();
  await page.getByLabel('Reason').fill('too slow');
  await send.click();
  await page.getByRole('button', { name: /^Jump/ }).click();
  await page.getByRole('spinbutton').fill('3');
  await page.getByRole('dialog').getByRole('button', { name: 'Jump' }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(fake.posted.map(p => [p.body['reason'], p.body['step']])).toEqual([
    ['too slow', undefined],
    [undefined, 3],
  ]);
});

test('a jump past checks asks for an override and its reason', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: /^Jump/ }).click();
  const dialog = page.getByRole('dialog');
  await page.getByRole('spinbutton').fill('1');
  await expect(dialog.getByLabel('Override the checks')).toHaveCount(0);
  await page.getByRole('spinbutton').fill('4');
  await expect(dialog.getByRole('button', { name: 'Jump' })).toBeDisabled();
  await dialog.getByLabel('Override the checks').check();
  await page.getByLabel('Reason').fill('known');
  await dialog.getByRole('button', { name: 'Jump' }).click();
  await expect(dialog).toHaveCount(0);
  expect(fake.posted.map(p => [p.body['step'], p.body['override'], p.body['reason']])).toEqual([[4, true, 'known']]);
});

test('a release that moves closes the dialog, and says who did it', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('button', { name: /^Promote step 2/ })).toBeVisible();
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toBeVisible();
  fake.send('shop/web', fixtures.tree('web', { why: { ...fixtures.why(), actions: fixtures.actions('web', true, 3) }, version: 2 }));
  await expect(page.getByText('alice used promote at step 1')).toBeVisible();
  await expect(page.getByRole('dialog').getByRole('button', { name: /Promote/ })).toBeDisabled();
});

test('a conflict is said in the words of the server', async ({ page, fake, at }) => {
  fake.conflict = 'the step is 3 and not 2';
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('button', { name: /^Promote step 2/ })).toBeVisible();
  await page.keyboard.press('p');
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /Promote/ })
    .click();
  await expect(page.getByText('the step is 3 and not 2')).toBeVisible();
  await expect(page.getByText('alice used promote at step 1')).toBeVisible();
});

test('offline, and back', async ({ page, fake, at, context }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  await context.setOffline(true);
  fake.cut();
  await expect(page.getByRole('alert')).toContainText('what was last known');
  await shot(page, 'offline');
  await context.setOffline(false);
  await expect(page.getByText('live', { exact: true })).toBeVisible({ timeout: 30_000 });
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('one stream per tab, and none for a tab that is hidden', async ({ page, fake, at }) => {
  await page.clock.install();
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  expect(fake.open.size).toBe(1);
  const hide = (hidden: boolean) =>
    page.evaluate(hidden => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  await hide(true);
  await page.clock.fastForward(31_000);
  await expect.poll(() => fake.open.size).toBe(0);
  await hide(false);
  await expect.poll(() => fake.open.size).toBe(1);
});

test('where nothing may be watched, it is read again; where nothing may be read, that is said', async ({ page, fake, at }) => {
  fake.forbidsWatch = true;
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('every 5 s')).toBeVisible();
  await expect(page.getByRole('group', { name: 'What you can do' })).toBeVisible();
  fake.trees.delete('shop/web');
  await expect(page.getByRole('alert')).toBeVisible({ timeout: 15_000 });
  await expect(page.getByRole('group', { name: 'What you can do' })).toHaveCount(0);
});

test('two releases are compared, and keys can be switched off', async ({ page, at }) => {
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('link', { name: 'with 12' }).click();
  await expect(page.getByText('"level-12"')).toBeVisible();
  await shot(page, 'compare');
  await clean(page);
  await page.getByRole('link', { name: 'Back to web' }).click();
  await page.keyboard.press('?');
  await clean(page);
  await page.getByLabel('Use keys in this browser').uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('a tab of Argo CD', async ({ page, fake, at }) => {
  await page.context().addCookies([{ name: 'argocd.token', value: 't', url: new URL('/', at).href }]);
  await page.goto(new URL('/argo/applications/argocd/shop', at).href);
  const open = (uid: string) => page.evaluate(`openTab({ metadata: { namespace: 'shop', name: 'web', uid: '${uid}' } })`);
  await open('uid-web');
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  await expect(page.getByRole('status')).toHaveText(/waits for an approval/);
  const colours = (selector: string) => page.locator(selector).first().evaluate(element => getComputedStyle(element).color);
  expect(await colours('section')).not.toBe('rgb(200, 0, 0)');
  expect(await colours('main > h1')).toBe('rgb(200, 0, 0)');
  await shot(page, 'argocd');
  await clean(page);
  await narrow(page);
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(page.locator('#panel a')).toHaveCount(0);
  await page.getByRole('button', { name: /^Promote step 2/ }).click();
  await page.getByLabel('Reason').fill('seen in Argo CD');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(fake.posted.map(p => [p.path, p.body['reason']])).toEqual([['namespaces/shop/rollouts/web/promote', 'seen in Argo CD']]);
  await page.evaluate('closeTab()');
  await expect.poll(() => fake.open.size).toBe(0);
  await open('uid-of-another-cluster');
  await expect(page.getByRole('alert')).toContainText('another cluster');
  await expect(page.getByRole('group', { name: 'What you can do' })).toHaveCount(0);
});

test('a section of Headlamp', async ({ page, fake, at }) => {
  await page.context().addCookies([{ name: 'headlamp-auth', value: 't', url: new URL('/', at).href }]);
  await page.goto(new URL('/headlamp/', at).href);
  await page.evaluate('loaded');
  const open = (kind: string, apiVersion: string, name: string, more = {}) =>
    page.evaluate(
      resource => (globalThis as unknown as { openDetails(resource: unknown): void }).openDetails(resource),
      { kind, jsonData: { apiVersion }, metadata: { namespace: 'shop', name, uid: `uid-${name}` }, ...more },
    );
  const [live, buttons] = [page.getByText('live', { exact: true }), page.getByRole('group', { name: 'What you can do' })];
  await page.evaluate('openDetails(null)');
  await open('Pod', 'v1', 'front');
  await open('Rollout', 'argoproj.io/v1alpha1', 'web');
  await expect(page.locator('#panel > *')).toHaveCount(0);
  const asked = page.waitForResponse(/fieldSelector/);
  await open('Deployment', 'apps/v1', 'alone');
  await asked;
  await open('Deployment', 'apps/v1', 'front');
  await expect(live).toHaveCount(1);
  await expect(page.getByRole('status')).toHaveText(/waits for an approval/);
  await expect(page.locator('[data-theme=dark]')).toHaveCount(1);
  const colours = (selector: string) => page.locator(selector).first().evaluate(element => getComputedStyle(element).color);
  await expect.poll(() => colours('section')).not.toBe('rgb(200, 0, 0)');
  await shot(page, 'headlamp');
  await clean(page);
  await narrow(page);
  await expect(page.locator('#panel a')).toHaveCount(0);
  const promote = page.getByRole('button', { name: /^Promote step 2/ });
  await promote.click();
  fake.conflict = 'It has moved on.';
  await page.getByLabel('Reason').fill('seen in Headlamp');
  await page.keyboard.press('Enter');
  await expect(page.getByText('It has moved on.')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(promote).toBeFocused();
  expect(fake.posted.map(p => [p.path, p.body['reason']])).toEqual([['namespaces/shop/rollouts/web/promote', 'seen in Headlamp']]);
  await open('Rollout', 'rollouts.kruise.io/v1beta1', 'web', { cluster: 'other' });
  await expect.poll(() => [...fake.open].map(stream => stream.req.url!.split('/')[3])).toEqual(['other']);
  await expect(live).toHaveCount(1);
  await page.evaluate('closeDetails()');
  await expect.poll(() => fake.open.size).toBe(0);
  await expect(buttons).toHaveCount(0);
});
