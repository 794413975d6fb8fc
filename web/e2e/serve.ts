// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Serves the pages with answers of fixtures, as a browser gets them from kubectl proxy.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AnalysisStatus, Rollout, RolloutPlan, RolloutReleases, RolloutTree, RolloutWhy } from '../src/wire.ts';
import * as fixtures from './fixtures.ts';

export const base = '/apis/rollouts.kruise.io/v1beta1/';
const assets = new URL('../../pkg/dashboard/assets/', import.meta.url);
const types: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
const policy =
  readFileSync(new URL('../../pkg/dashboard/pages.go', import.meta.url), 'utf8')
    .match(/contentSecurityPolicy = "([^]*?)"\n/)![1]!
    .replace(/" \+\s*"/g, '');

export class Fake {
  trees = new Map<string, RolloutTree>([
    ['shop/web', fixtures.tree()],
    [
      'finance/pay',
      fixtures.tree('pay', { why: { ...fixtures.why('pay', false), state: 'Moving', summary: '5.0.3, step 1 of 4: waiting for pods: 2 of 4 ready.', waitingFor: { for: 'pods', what: 'pods of step 1/4', since: fixtures.ago(20) } } }),
    ],
    ['shop/cart', fixtures.tree('cart', { why: fixtures.failing(), update: [0, 0, 1], stable: 9, traffic: 0 })],
    ['shop/ghost', { ...fixtures.tree('ghost', { why: fixtures.orphan() }), nodes: [] }],
  ]);
  // rollouts, plans and histories are by name; others are those of the fixtures.
  rollouts = new Map<string, Rollout>();
  plans = new Map<string, RolloutPlan>();
  histories = new Map<string, RolloutReleases>();
  // about is what the program that serves the pages says about itself; undefined if it says nothing.
  about: object | undefined = { version: 'v0.9.0', cluster: 'prod-eu' };
  // allows are the namespaces that may be listed, where the cluster may not.
  allows = ['shop', 'finance'];
  // forbidsWorkload is the answer to a patch of a workload; empty if the user may.
  forbidsWorkload = '';
  total = 3;
  forbidsList = false;
  forbidsRecords = false;
  forbidsWatch = false;
  conflict = '';
  planHasError = false;
  // isOlder is true for a server whose table has no states and no versions.
  isOlder = false;
  // asked are the paths of all requests.
  readonly asked: string[] = [];
  analysis: AnalysisStatus | undefined = fixtures.analysis;
  // change has every answer pass through it.
  change: (answer: unknown) => unknown = answer => answer;
  readonly posted: { path: string; body: Record<string, unknown> }[] = [];
  readonly patched: { path: string; dryRun: boolean; type: string | undefined; body: unknown }[] = [];
  readonly open = new Set<ServerResponse>();
  private readonly server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://fake');
    let body = '';
    request.on('data', part => {
      body += part;
    });
    request.on('end', () => this.answer(request.method!, url, body, response));
  });

  async start(): Promise<string> {
    await new Promise<void>(done => this.server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${base}ui/`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise(done => this.server.close(done));
  }

  // send has all who watch a tree see another one.
  send(key: string, tree: RolloutTree): void {
    this.trees.set(key, tree);
    for (const response of this.open)
      if (response.req.url!.includes(`${key.replace('/', '/rollouts/')}/tree`)) response.write(`${JSON.stringify({ type: 'MODIFIED', object: tree })}\n`);
  }

  cut(): void {
    for (const response of this.open) response.destroy();
  }

  private json(response: ServerResponse, code: number, body: unknown): void {
    response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify(this.change(body)));
  }

  private refuse(response: ServerResponse, code: number, message: string): void {
    this.json(response, code, { kind: 'Status', code, message });
  }

  private stream(response: ServerResponse, ...events: unknown[]): void {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.flushHeaders();
    for (const event of events) response.write(`${JSON.stringify(this.change(event))}\n`);
    this.open.add(response);
    response.on('close', () => this.open.delete(response));
  }

  private answer(method: string, url: URL, body: string, response: ServerResponse): void {
    if (url.pathname.startsWith('/argo/')) return this.argo(method, url, body, response);
    if (url.pathname.startsWith('/headlamp/')) return this.headlamp(method, url, body, response);
    const path = url.pathname.startsWith(base) ? url.pathname.slice(base.length) : url.pathname;
    this.asked.push(path);
    if (path === 'ui/about.json' && this.about) return this.json(response, 200, this.about);
    if (path.startsWith('ui/')) return this.page(path.slice(3) || 'index.html', response);
    if (path.startsWith('/apis/apps/v1/')) return this.workload(method, url, body, response);
    if (path.startsWith('/api/v1/')) return void response.writeHead(200, { 'Content-Type': 'text/plain' }).end('starting\nlistening on :8080\n');
    if (/\/rollouthistories$/.test(path)) return this.records(path, url, response);
    const watched = /^watch\/namespaces\/([^/]+)\/rollouts\/([^/]+)\/tree$/.exec(path);
    if (watched) {
      if (this.forbidsWatch) return this.refuse(response, 403, 'rollouts.rollouts.kruise.io "web" is forbidden: cannot watch resource "rollouts/tree"');
      return this.stream(response, { type: 'ADDED', object: this.trees.get(`${watched[1]}/${watched[2]}`) });
    }
    const one = /^namespaces\/([^/]+)\/rollouts(?:\/([^/]+)(?:\/([^/]+))?)?$/.exec(path);
    if (path === 'rollouts' || (one && !one[2])) return this.list(url, one?.[1], response);
    const tree = one && this.trees.get(`${one[1]}/${one[2]}`);
    if (!one || !tree) return this.refuse(response, 404, `${path} is not there`);
    if (method === 'POST' && one[3] !== 'plan') return this.decide(path, body, response);
    const answers: Record<string, () => unknown> = {
      tree: () => tree,
      why: () => tree.why as RolloutWhy,
      plan: () => this.plans.get(one[2]!) ?? fixtures.plan(this.planHasError && method === 'POST'),
      history: () => this.past(one[2]!, url.searchParams.get('release')),
      '': () => this.rollouts.get(one[2]!) ?? fixtures.rollout(one[2], this.analysis),
    };
    const answer = answers[one[3] ?? ''];
    if (!answer) return this.refuse(response, 404, 'no such verb');
    this.json(response, 200, answer());
  }

  // argo is Argo CD: its page, the scripts of all extensions as one, and what it passes on.
  private argo(method: string, url: URL, body: string, response: ServerResponse): void {
    const path = url.pathname.slice('/argo/'.length);
    const passed = /^extensions\/weir(\/.*)$/.exec(path);
    const { headers } = response.req;
    if (path === 'extensions.js') {
      const script = readFileSync(new URL('app.js', assets), 'utf8');
      response.writeHead(200, { 'Content-Type': 'application/javascript' }).end(`const e = 1, t = 2, n = 3;\n${script}\nconst r = 4, i = 5;`);
    } else if (!passed) response.writeHead(200, { 'Content-Type': 'text/html' }).end(readFileSync(new URL('argocd.html', import.meta.url)));
    else if (headers['argocd-application-name'] !== 'argocd:shop' || headers['argocd-project-name'] !== 'default' || headers.cookie !== 'argocd.token=t')
      response.writeHead(401).end('Unauthorized extension request');
    else this.answer(method, new URL(passed[1]! + url.search, url), body, response);
  }

  // headlamp is Headlamp: its page, the folder of a plug-in, and what it passes on to its
  // cluster with the user's token.
  private headlamp(method: string, url: URL, body: string, response: ServerResponse): void {
    const path = url.pathname.slice('/headlamp/'.length);
    const passed = /^clusters\/(main|other)(\/apis\/.*)$/.exec(path);
    if (path === 'plugins/weir/main.js') this.page('app.js', response);
    else if (!passed) response.writeHead(200, { 'Content-Type': 'text/html' }).end(readFileSync(new URL('headlamp.html', import.meta.url)));
    else if (response.req.headers.cookie !== 'headlamp-auth=t') this.refuse(response, 401, 'Unauthorized');
    else if (passed[2] !== `${base}namespaces/shop/rollouts`) this.answer(method, new URL(passed[2]! + url.search, url), body, response);
    else {
      const named = url.searchParams.get('fieldSelector') === 'spec.workloadRef.kind=Deployment,spec.workloadRef.name=front';
      const item = { metadata: { namespace: 'shop', name: 'web', uid: 'uid-web' }, spec: { workloadRef: { apiVersion: 'apps/v1' } } };
      this.json(response, 200, { items: named ? [item] : [] });
    }
  }

  // workload is the Deployment of a Rollout, which a user with permission may patch.
  private workload(method: string, url: URL, body: string, response: ServerResponse): void {
    if (method === 'GET') return this.json(response, 200, { kind: 'Deployment', spec: { replicas: 10, template: { spec: { containers: [{ name: 'web', image: 'shop/web:v8' }] } } } });
    if (this.forbidsWorkload) return this.refuse(response, 403, this.forbidsWorkload);
    this.patched.push({ path: url.pathname, dryRun: url.searchParams.get('dryRun') === 'All', type: response.req.headers['content-type'], body: JSON.parse(body) });
    this.json(response, 200, {});
  }

  private past(name: string, release: string | null): unknown {
    const all = this.histories.get(name) ?? fixtures.history();
    if (!release) return all;
    const releases = all
      .releases!.filter(r => String(r.number) === release)
      .map(r => ({
        ...r,
        restore: {
          spec: { template: { spec: { containers: [{ name: 'web', image: r.images?.[0]?.to, env: [{ name: 'LOG', value: `level-${r.number}` }] }] } } },
        },
        restoreStable: { spec: { template: { spec: { containers: [{ name: 'web', image: r.images?.[0]?.from }] } } } },
      }));
    return { releases };
  }

  // records are the RolloutHistories, one per page.
  private records(path: string, url: URL, response: ServerResponse): void {
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    if ((this.forbidsList && !(namespace && this.allows.includes(namespace))) || this.forbidsRecords)
      return this.refuse(response, 403, 'rollouthistories.rollouts.kruise.io is forbidden: User "victor" cannot list resource "rollouthistories"');
    const from = Number(url.searchParams.get('continue') ?? 0);
    const all = fixtures.records().filter(r => !namespace || r.metadata.namespace === namespace);
    this.json(response, 200, { metadata: from + 1 < all.length ? { continue: String(from + 1) } : {}, items: all.slice(from, from + 1) });
  }

  private list(url: URL, namespace: string | undefined, response: ServerResponse): void {
    if (this.forbidsList && !(namespace && this.allows.includes(namespace)))
      return this.refuse(response, 403, 'rollouts.rollouts.kruise.io is forbidden: User "victor" cannot list resource "rollouts" at the cluster scope');
    if (url.searchParams.get('watch')) return this.stream(response, { type: 'BOOKMARK', object: { rows: [] } });
    if (!response.req.headers.accept?.includes('as=Table'))
      return this.json(response, 200, { metadata: {}, items: fixtures.currentReleases().filter(r => !namespace || r.metadata.namespace === namespace) });
    const total = url.searchParams.get('fieldSelector') ? Math.min(4, this.total) : this.total;
    const from = Number(url.searchParams.get('continue') ?? 0);
    const latest = fixtures.table(from, Math.min(from + Number(url.searchParams.get('limit')), total), total);
    const table = this.isOlder ? fixtures.withoutStates(latest) : latest;
    this.json(response, 200, namespace ? { ...table, rows: table.rows!.filter(row => row.object.metadata.namespace === namespace) } : table);
  }

  private decide(path: string, body: string, response: ServerResponse): void {
    this.posted.push({ path, body: JSON.parse(body) as Record<string, unknown> });
    if (this.conflict) return this.refuse(response, 409, this.conflict);
    this.json(response, 201, {});
  }

  private page(name: string, response: ServerResponse): void {
    try {
      const content = readFileSync(new URL(name, assets));
      response.writeHead(200, { 'Content-Type': types[name.split('.').at(-1)!] ?? 'text/plain', 'Content-Security-Policy': policy }).end(content);
    } catch {
      this.refuse(response, 404, name);
    }
  }
}
