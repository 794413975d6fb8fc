// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// The pages with answers of fixtures, for states that a control plane seldom has at once.
import { readFileSync } from 'node:fs';
import { clean, expect, narrow, shot, shots, test } from './browser.ts';
import * as fixtures from './fixtures.ts';

test.use({ viewport: { width: 1100, height: 900 } });

test('list: active releases, what waits, what one may do', async ({ page, fake, at }) => {
  await page.goto(at);
  await expect(page.getByRole('listitem')).toHaveCount(3);
  await expect(page.getByRole('button', { name: 'Promote step 2 of web…' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Waiting for me 1' })).toBeVisible();
  await clean(page);
  await shots(page, 'list');
  await narrow(page);
  await page.getByRole('link', { name: 'Waiting for me' }).click();
  await expect(page.getByRole('listitem')).toHaveCount(1);
  await expect(page.getByRole('listitem')).toContainText('waiting for approval');
  fake.trees.set('finance/pay', fixtures.tree('pay', { why: fixtures.why('pay') }));
  await page.reload();
  await expect(page.getByRole('link', { name: 'Waiting for me 2' })).toBeVisible();
  await expect(page.getByRole('listitem')).toHaveCount(2);
  fake.total = 0;
  await page.reload();
  await expect(page.getByText('Nothing needs your approval.')).toBeVisible();
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

test('list: what fails comes first, with its cause and the fix', async ({ page, fake, at }) => {
  fake.total = 4;
  await page.goto(at);
  const rows = page.getByRole('listitem');
  await expect(rows.getByRole('link')).toHaveText(['cart', 'ghost', 'web', 'pay']);
  await expect(rows.nth(0)).toContainText('Failing');
  await expect(rows.nth(0)).toContainText('1 of 1 new pods: container cart: ImagePullBackOff (not found). Fix: Check the name of the image');
  await expect(rows.nth(0).getByRole('button')).toHaveText('Abort…');
  await expect(rows.nth(0)).toHaveCSS('border-left-color', 'rgb(179, 38, 30)');
  await expect(rows.nth(3).getByRole('button')).toHaveCount(0);
});

for (const isOlder of [false, true]) {
  test(`list: a Rollout without its workload is not healthy, and rows at rest have their version${isOlder ? ', with an older server' : ''}`, async ({ page, fake, at }) => {
    fake.total = 5;
    fake.isOlder = isOlder;
    fake.trees.set('shop/service-00004', fixtures.tree('service-00004', { why: fixtures.atRest('service-00004') }));
    fake.histories.set('service-00004', fixtures.endedHistory());
    await page.goto(`${at}#/?show=all`);
    const row = (name: string) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name }) });
    await expect(row('ghost')).toContainText('Not ready');
    await expect(row('ghost')).toContainText('Waiting for Deployment shop/ghost, which does not exist.');
    await expect(row('ghost').locator('.good')).toHaveCount(0);
    await expect(row('service-00004')).toContainText('Healthy');
    await expect(row('service-00004')).toContainText('v8');
    await expect(row('service-00004')).toContainText('No release in progress.');
    await expect(row('service-00004')).not.toContainText('nothing');
    // The table says all about a row at rest, so that the page asks nothing more about it.
    expect(fake.asked.some(path => path.includes('service-00004'))).toBe(isOlder);
  });
}

test('a Rollout without its workload has a page that says so', async ({ page, at }) => {
  await page.goto(`${at}#/shop/ghost`);
  await expect(page.getByText('Not ready')).toBeVisible();
  await expect(page.locator('.summary .good')).toHaveCount(0);
});

test('list: a user without cluster rights types a namespace, and it stays', async ({ page, fake, at }) => {
  fake.forbidsList = true;
  await page.goto(at);
  await expect(page.getByText("You can't list Rollouts in all namespaces. Enter a namespace:")).toBeVisible();
  await shots(page, 'no-namespaces');
  const input = page.getByRole('combobox', { name: 'Namespace' });
  // The page asks again meanwhile, and must not take the letters away.
  await input.pressSequentially('shop', { delay: 600 });
  await expect(input).toHaveValue('shop');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('link', { name: 'web' })).toBeVisible();
  await expect(page.getByRole('contentinfo')).not.toContainText('reading');
});

test('list: the remembered namespaces are one list, with an inbox', async ({ page, fake, at }) => {
  fake.forbidsList = true;
  await page.goto(at);
  const input = page.getByRole('combobox', { name: 'Namespace' });
  for (const namespace of ['shop', 'finance', 'secret']) {
    await input.fill(namespace);
    await page.keyboard.press('Enter');
  }
  await expect(page.getByRole('listitem').filter({ hasText: 'secret (no access)' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'pay' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'cart' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Waiting for me 1' })).toBeVisible();
  await clean(page);
  await page.reload();
  await page.getByRole('link', { name: 'Waiting for me 1' }).click();
  await expect(page.getByRole('list', { name: 'Rollouts' }).getByRole('listitem')).toHaveCount(1);
  await shots(page, 'namespaces');
  await page.getByRole('button', { name: 'Forget namespace secret' }).click();
  await expect(page.getByText('no access')).toHaveCount(0);
});

test('release: all parts, by eye and by ear', async ({ page, at }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('status')).toHaveText(/waiting for approval/);
  for (const part of ['Steps', 'Pods', 'Workload and network', 'Checks', 'History']) {
    await expect(page.getByRole('heading', { name: part })).toBeVisible();
  }
  await expect(page.getByText('error rate is fine').first()).toBeVisible();
  await expect(page.getByText('3.4% of requests took longer than 250 ms')).toBeVisible();
  await page.getByText('5 pods').first().click();
  await page
    .getByRole('button', { name: /^Log of/ })
    .first()
    .click();
  await expect(page.getByText('listening on :8080')).toBeVisible();
  await clean(page);
  await page.keyboard.press('Escape');
  await clean(page);
  await shots(page, 'release');
  await narrow(page);
  await page.getByRole('button', { name: 'More' }).click();
  await clean(page);
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot(page, 'phone-more-dark');
});

test('release: the bar has the traffic of both versions, with the steps as ticks', async ({ page, at }) => {
  await page.goto(`${at}#/shop/web`);
  const steps = page.getByRole('region', { name: 'Steps' });
  await expect(steps.locator('.versions')).toContainText(/v8 50%\s*v7 50%\s*of traffic/);
  await expect(steps.locator('.ticks i')).toHaveText(['1', '2', '3']);
  await expect(steps.locator('.ticks .current')).toHaveText('2');
  const share = await steps.locator('.stack').evaluate(bar => bar.firstElementChild!.getBoundingClientRect().width / bar.getBoundingClientRect().width);
  expect(share).toBeCloseTo(0.5, 1);
  // All is well, so the objects are behind one line.
  await expect(page.getByText('4 objects, no problems')).toBeVisible();
  await expect(page.getByText('Selects stable pods (v7)')).toBeHidden();
  await shot(page, 'dashboard');
});

test('release: matched requests stand where a percentage would', async ({ page, fake, at }) => {
  fake.plans.set('web', fixtures.matchPlan());
  fake.rollouts.set('web', fixtures.matched());
  const tree = fixtures.tree();
  for (const node of tree.nodes!) delete node.traffic;
  fake.trees.set('shop/web', tree);
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('v8 gets requests with x-canary: yes')).toBeVisible();
  await expect(page.locator('.timeline li').first()).toContainText('Step 1 donex-canary: yes');
  await shots(page, 'matches');
  fake.plans.set('web', fixtures.backPlan());
  fake.histories.set('web', fixtures.abortedHistory());
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.aborted() }));
  await page.reload();
  await expect(page.locator('.timeline .stopped')).toContainText('x-canary: yes');
});

test('release: the end and the way back are no step 0, and an abort shows its step', async ({ page, fake, at }) => {
  fake.plans.set('web', fixtures.endPlan());
  await page.goto(`${at}#/shop/web`);
  const steps = page.locator('.timeline li');
  await expect(steps).toHaveCount(4);
  await expect(steps.nth(3)).toContainText('End');
  await expect(steps.nth(3)).toContainText('all 10 pods run v8');
  await expect(steps.locator('b').getByText('0', { exact: true })).toHaveCount(0);
  await page.getByRole('button', { name: /^Promote step 2/ }).click();
  await expect(page.getByRole('dialog').getByRole('row').last()).toContainText('End');
  await page.keyboard.press('Escape');
  fake.plans.set('web', fixtures.backPlan());
  fake.histories.set('web', fixtures.abortedHistory());
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.aborted(), update: [0, 0, 0], stable: 10, traffic: 0 }));
  await page.reload();
  await expect(steps.nth(1)).toContainText('aborted here');
  await expect(steps.nth(1)).toContainText('alice aborted the release at step 2 · “error rate doubled”');
  await expect(steps.nth(0)).toContainText('done');
  await expect(steps.nth(2)).toContainText('not reached');
  await expect(steps.nth(3)).toContainText('Back to v7');
  await expect(steps.nth(3)).not.toContainText('approval');
  await expect(steps.locator('b').getByText('0', { exact: true })).toHaveCount(0);
  // The release that was aborted has no icon of one in progress.
  await expect(page.locator('.history summary').first().locator('.icon.bad')).toBeVisible();
  await expect(page.getByRole('group', { name: 'What you can do' }).getByRole('button').first()).toHaveText('Roll back…');
  await clean(page);
  await shots(page, 'aborted');
});

test('release: units, times and advice', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.locator('.history summary').first()).toContainText('in progress');
  await expect(page.locator('.history summary').first()).toContainText(/running for 25m/);
  await page.locator('.history summary').first().click();
  const [removed, added] = [page.locator('.changes del').first(), page.locator('.changes ins').first()];
  await expect(added).toHaveText('"shop/web:v8"');
  expect((await added.boundingBox())!.y).toBeGreaterThan((await removed.boundingBox())!.y);
  fake.send('shop/cart', fixtures.tree('cart', { why: fixtures.stalled() }));
  await page.goto(`${at}#/shop/cart`);
  const summary = page.getByRole('region', { name: 'State' });
  await expect(summary).toContainText(/for longer than 10 minutes: 1 of 1 new pods: container cart: ImagePullBackOff \(not found\)\. *Fix: Push the image, or roll back\./);
  await expect(summary).not.toContainText('2026-01-05T');
});

test('release: who decided what, with its range', async ({ page, at }) => {
  await page.goto(`${at}#/shop/web`);
  await page.locator('.history summary').nth(1).click();
  await expect(page.getByText('approved all remaining steps at step 2')).toBeVisible();
  await expect(page.getByText('jumped to step 1')).toBeVisible();
});

test('a phone has the versions beside the name, and only safe buttons', async ({ page, fake, at }) => {
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(`${at}#/shop/web`);
  const images = page.locator('.top .images');
  await expect(images).toHaveText('v7 → v8');
  const hit = await images.evaluate(element => {
    const box = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(box.right - 2, box.top + box.height / 2));
  });
  expect(hit, 'no button covers the versions').toBe(true);
  const bar = page.getByRole('group', { name: 'What you can do' });
  await expect(bar.getByRole('button')).toHaveText(['Promote step 2…', 'More']);
  await page.goto(`${at}#/shop/cart`);
  await expect(bar.getByRole('button')).toHaveText(['Abort…', 'More']);
  await expect(bar.getByRole('button').first()).toHaveCSS('background-color', 'rgb(179, 38, 30)');
  // The bar of a phone never shows only an action that skips approvals or checks.
  const why = fixtures.failing();
  const full = fixtures.actions('cart', true).find(a => a.title === 'Promote in full')!;
  const override = { ...fixtures.actions('cart', true)[0]!, needs: ['reason' as const, 'override' as const] };
  why.actions = [full, override, ...why.actions!.filter(a => a.title !== full.title)];
  fake.send('shop/cart', fixtures.tree('cart', { why, version: 2 }));
  await expect(bar.getByRole('button')).toHaveText(['Abort…', 'More']);
  await page.getByRole('button', { name: 'More' }).click();
  await expect(bar.getByRole('button', { name: 'Approve all remaining steps…' })).toBeVisible();
  await page.goto(at);
  await expect(page.getByRole('button', { name: 'Promote step 2 of web…' })).toHaveText('Promote step 2…');
  const promote = page.getByRole('button', { name: 'Promote step 2 of web…' });
  expect(await promote.evaluate(element => element.scrollWidth <= element.clientWidth), 'the button names its step').toBe(true);
});

test('a failing release says why and offers abort first', async ({ page, at }) => {
  await page.goto(`${at}#/shop/cart`);
  await expect(page.getByRole('status')).toHaveText(/1 of 1 new pods: container cart: ImagePullBackOff \(not found\)/);
  const state = page.getByRole('region', { name: 'State' });
  await expect(state).toContainText('Failing 1 of 1 new pods: container cart: ImagePullBackOff (not found).');
  await expect(state).toContainText('Fix: Check the name of the image, its tag and the pull secrets, or abort.');
  await expect(state).toHaveCSS('border-left-color', 'rgb(179, 38, 30)');
  // One page says the cause once.
  await expect(page.getByRole('main').getByText('ImagePullBackOff').filter({ visible: true })).toHaveCount(1);
  await expect(state.getByRole('button').first()).toHaveText('Abort…');
  await expect(state.getByRole('button', { name: 'Retry' })).toHaveCount(0);
  await state.getByRole('button', { name: 'More' }).click();
  await expect(state.getByRole('button', { name: 'Retry' })).toBeVisible();
  await shots(page, 'failing');
  await clean(page);
  await page.getByRole('button', { name: 'Abort…' }).click();
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Abort' })).toHaveClass(/danger/);
});

test('at rest: back to an earlier version in one click, after its plan', async ({ page, fake, at }) => {
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.atRest(), update: [0, 0, 0], stable: 10, traffic: 0 }));
  fake.histories.set('web', fixtures.endedHistory());
  fake.plans.set('web', fixtures.nextPlan());
  fake.analysis = undefined;
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('heading', { name: 'Steps of the next release' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Roll back to v7, release 11…' })).toBeVisible();
  await expect(page.getByRole('button', { name: /release 1[02]/ })).toHaveCount(0);
  await shots(page, 'rest');
  await clean(page);
  await page.getByRole('button', { name: 'Roll back to v7…', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('table')).toBeVisible();
  await shots(page, 'undo');
  await clean(page);
  await dialog.getByRole('button', { name: 'Roll back to v7' }).click();
  await expect(dialog).toHaveCount(0);
  const template = { spec: { template: { spec: { containers: [{ name: 'web', image: 'shop/web:v7', env: [{ name: 'LOG', value: 'level-11' }] }] } } } };
  const path = '/apis/apps/v1/namespaces/shop/deployments/web';
  expect(fake.patched).toEqual([
    { path, dryRun: true, type: 'application/merge-patch+json', body: template },
    { path, dryRun: false, type: 'application/merge-patch+json', body: template },
  ]);
});

test('at rest: a version whose image has another name is called by its tag', async ({ page, fake, at }) => {
  const all = fixtures.endedHistory();
  all.releases![1]!.images = [{ container: 'web', from: 'demo:1.10.2', to: 'shop/web:v7' }];
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.atRest() }));
  fake.histories.set('web', all);
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('button', { name: 'Roll back to v7…', exact: true })).toBeVisible();
});

test('at rest: the version from before the first release can be set again', async ({ page, fake, at }) => {
  const first = fixtures.endedHistory();
  first.releases = first.releases!.slice(0, 1).map(r => ({ ...r, number: 1, stableOnRecord: true }));
  first.releases[0]!.decisions![0]!.userAgent = 'Mozilla/5.0 (X11; Linux x86_64)';
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.atRest() }));
  fake.histories.set('web', first);
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('button', { name: 'Roll back to v7, before release 1…' })).toBeVisible();
  await expect(page.locator('.decisions')).toContainText('browser');
  await page.getByRole('button', { name: 'Roll back to v7…', exact: true }).click();
  await expect(page.getByRole('dialog')).toContainText('Sets the pod template from before release 1 (v7) again.');
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back to v7' }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(JSON.stringify(fake.patched.at(-1)!.body)).toContain('shop/web:v7');
});

test('release: who built what, with a link', async ({ page, fake, at }) => {
  const why = fixtures.why();
  why.release!.source = { commit: '3fa2b1c9d8e7f6a5b4c3', author: 'ada', link: 'https://git.example/shop/commit/3fa2b1c9' };
  fake.trees.set('shop/web', fixtures.tree('web', { why }));
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('link', { name: '3fa2b1c9' })).toHaveAttribute('href', 'https://git.example/shop/commit/3fa2b1c9');
  await expect(page.locator('.source')).toHaveText('3fa2b1c9 by ada');
  await shots(page, 'source');
  // An address that is no web page is no link.
  why.release!.source = { commit: '3fa2b1c9', link: 'javascript:alert(1)' };
  fake.send('shop/web', fixtures.tree('web', { why, version: 2 }));
  await expect(page.locator('.source')).toHaveText('3fa2b1c9');
  await expect(page.locator('.source a')).toHaveCount(0);
});

test('at rest: a user who may not write the workload is told, and a viewer sees no button', async ({ page, fake, at }) => {
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.atRest(), version: 1 }));
  fake.histories.set('web', fixtures.endedHistory());
  fake.forbidsWorkload = 'deployments.apps "web" is forbidden: User "bob" cannot patch resource "deployments"';
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: 'Roll back to v7, release 11…' }).click();
  await expect(page.getByRole('dialog')).toContainText('cannot patch resource "deployments"');
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Roll back to v7' })).toBeDisabled();
  await page.keyboard.press('Escape');
  fake.send('shop/web', fixtures.tree('web', { why: fixtures.atRest('web', false), version: 2 }));
  await expect(page.getByRole('button', { name: /Roll back/ })).toHaveCount(0);
});

test('decisions: who decided what in the cluster, with a file of it', async ({ page, fake, at }) => {
  await page.goto(at);
  await page.getByRole('link', { name: 'Decisions' }).click();
  await expect(page).toHaveURL(/#\/decisions$/);
  const rows = page.getByRole('table', { name: 'Decisions' }).getByRole('row');
  // The newest comes first, and a decision that two objects have comes once.
  await expect(rows).toHaveCount(5);
  await expect(page.getByRole('contentinfo')).toContainText('4 decisions');
  await expect(rows.nth(1)).toContainText(/shop\s*web\s*12\s*alice\s*promote\s*1/);
  await expect(rows.nth(2)).toContainText(/finance\s*ledger\s*3\s*bob\s*jump\s*1 → 3\s*successRate \(failed, step 1\)\s*the check measures the wrong Service, see ticket 4711/);
  await expect(rows.nth(3)).toContainText(/Checks\s*abort/);
  await expect(rows.nth(4)).toContainText(/alice\s*promote\s*1\s*full\s*=hotfix/);
  await expect(rows.nth(4).getByRole('link', { name: 'web' })).toHaveAttribute('href', '#/shop/web');
  await clean(page);
  await shots(page, 'decisions');
  const downloaded = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download CSV' }).click();
  const file = await downloaded;
  expect(file.suggestedFilename()).toBe('decisions-24h.csv');
  // The file is that of kubectl weir history -o csv.
  const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
  expect(readFileSync(await file.path(), 'utf8').replaceAll(time, 'TIME')).toBe(
    `time_utc,namespace,rollout,release,version,verb,user,step,toStep,full,overrode,reason,outcome,via
TIME,shop,web,11,shop/web:v7,promote,alice,1,,true,,"'=hotfix, ""all"" at once",applied,verb
TIME,shop,web,11,shop/web:v7,abort,weir-controller,2,,false,,latency: 3.4% of requests took longer than 250 ms (limit 1%),applied,analysis
TIME,finance,ledger,3,77aa,jump,bob,1,3,false,"successRate (failed, step 1)","the check measures the wrong Service, see ticket 4711",applied,verb
TIME,shop,web,12,6f9d5b7c8d,promote,alice,1,,false,,,,verb
`,
  );
  await page.getByLabel('Period').selectOption('7d');
  await expect(page).toHaveURL(/#\/decisions\?since=7d$/);
  await expect(rows).toHaveCount(6);
  await page.getByLabel('Namespace').fill('finance');
  await page.keyboard.press('Enter');
  await expect(rows).toHaveCount(2);
  await expect(rows.nth(0)).not.toContainText('Namespace');
  await page.getByLabel('Period').selectOption('1h');
  await expect(page.getByText('No decisions found.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Download CSV' })).toBeDisabled();
  await page.getByRole('link', { name: 'See all on record' }).click();
  await expect(rows).toHaveCount(2);
  fake.forbidsRecords = true;
  await page.getByRole('button', { name: 'Read again' }).click();
  await expect(page.getByText('Decisions of completed releases in finance are missing')).toBeVisible();
  await narrow(page);
});

test('decisions: a user who may read some namespaces sees those', async ({ page, fake, at }) => {
  fake.forbidsList = true;
  fake.allows = ['shop'];
  await page.goto(`${at}#/decisions?since=7d`);
  const rows = page.getByRole('table', { name: 'Decisions' }).getByRole('row');
  await expect(page.getByText("You can't list Rollouts in all namespaces. Enter a namespace:")).toBeVisible();
  for (const namespace of ['shop', 'finance']) {
    await page.getByRole('combobox', { name: 'Namespace' }).fill(namespace);
    await page.keyboard.press('Enter');
    await expect(page.getByRole('link', { name: namespace, exact: true })).toBeVisible();
  }
  await expect(page.getByText('finance (no access)')).toBeVisible();
  await expect(rows).toHaveCount(5);
  await expect(rows.nth(1)).toContainText('shop');
  await clean(page);
  await shots(page, 'decisions-own');
  // A namespace alone that may not be read is refused.
  await page.goto(`${at}#/decisions?ns=finance`);
  await expect(page.getByRole('alert')).toContainText('cannot list');
});

test('the cluster and the version stand on each page', async ({ page, fake, at }) => {
  for (const place of ['', '#/shop/web', '#/shop/web/compare/11/12', '#/decisions']) {
    await page.goto(at + place);
    await expect(page.getByRole('navigation', { name: 'Weir' })).toContainText('prod-eu');
    await expect(page.getByRole('contentinfo')).toContainText('Weir v0.9.0');
  }
  await page.goto(`${at}#/shop/web`);
  await expect(page).toHaveTitle('shop/web · prod-eu · Weir');
  fake.about = undefined;
  await page.reload();
  await expect(page.getByRole('button', { name: /^Promote step 2/ })).toBeVisible();
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

test('a viewer sees no buttons', async ({ page, fake, at }) => {
  fake.trees.set('shop/web', fixtures.tree('web', { why: fixtures.why('web', false) }));
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('waiting for approval').first()).toBeVisible();
  await expect(page.getByRole('group', { name: 'What you can do' })).toHaveCount(0);
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('a dialog says what will happen, and sends what was on the screen', async ({ page, fake, at }) => {
  fake.planHasError = true;
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: /^Promote step 2/ }).press('Enter');
  await expect(page.getByText('this step needs 3000m and will get stuck.')).toBeVisible();
  await expect(page.getByText('Fix: Raise the quota, or lower maxSurge.')).toBeVisible();
  await clean(page);
  await shots(page, 'dialog');
  await narrow(page);
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
  await page.getByRole('spinbutton').fill('2');
  await page.getByRole('dialog').getByRole('button', { name: 'Jump' }).click();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(fake.posted.map(p => [p.body['reason'], p.body['step']])).toEqual([
    ['too slow', undefined],
    [undefined, 2],
  ]);
});

test('a jump past checks asks for an override and its reason', async ({ page, fake, at }) => {
  // The end of the plan has no number, and must not limit the steps.
  fake.plans.set('web', fixtures.endPlan());
  await page.goto(`${at}#/shop/web`);
  await page.getByRole('button', { name: /^Jump/ }).click();
  const dialog = page.getByRole('dialog');
  await page.getByRole('spinbutton').fill('1');
  await expect(dialog.getByLabel('Override the checks')).toHaveCount(0);
  await page.getByRole('spinbutton').fill('3');
  await expect(dialog.getByRole('button', { name: 'Jump' })).toBeDisabled();
  await dialog.getByLabel('Override the checks').check();
  await page.getByLabel('Reason').fill('known');
  await dialog.getByRole('button', { name: 'Jump' }).click();
  await expect(dialog).toHaveCount(0);
  expect(fake.posted.map(p => [p.body['step'], p.body['override'], p.body['reason']])).toEqual([[3, true, 'known']]);
});

test('a release that moves closes the dialog, and says who did it', async ({ page, fake, at }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByRole('button', { name: /^Promote step 2/ })).toBeVisible();
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toBeVisible();
  fake.send('shop/web', fixtures.tree('web', { why: { ...fixtures.why(), actions: fixtures.actions('web', true, 3) }, version: 2 }));
  await expect(page.getByRole('dialog').getByText('alice approved step 1')).toBeVisible();
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
  await expect(page.getByText('The step is 3 and not 2.')).toBeVisible();
  await expect(page.getByRole('dialog').getByText('alice approved step 1')).toBeVisible();
});

test('offline, and back', async ({ page, fake, at, context }) => {
  await page.goto(`${at}#/shop/web`);
  await expect(page.getByText('live', { exact: true })).toBeVisible();
  await context.setOffline(true);
  fake.cut();
  await expect(page.getByRole('alert')).toContainText('Connection lost. Showing the last known state; reconnecting…');
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
  await expect(page.getByText('every 5s')).toBeVisible();
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
  await expect(page.getByRole('button', { name: /^Promote step 2/ })).toBeVisible();
  await page.keyboard.press('?');
  await expect(page.getByText('Promote step 2 (asks first)')).toBeVisible();
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
  await expect(page.getByRole('status')).toHaveText(/waiting for approval/);
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
  await expect(page.getByRole('status')).toHaveText(/waiting for approval/);
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
