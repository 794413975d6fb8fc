// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Answers of a server that does not run, for states that a control plane seldom has at once. The types come from the
// Go types of the API and their constants (hack/webwire), so the compiler refuses a word that the server never sends.
import type { Table } from '../src/kube.ts';
import type { Action, AnalysisStatus, Decision, Node, RevisionRole, Rollout, RolloutPlan, RolloutReleases, RolloutTree, RolloutWhy, Verb } from '../src/wire.ts';

export const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const path = (name: string, verb: string) => `namespaces/shop/rollouts/${name}/${verb}`;

export function actions(name: string, allowed: boolean, step = 2): Action[] {
  const body = { kind: 'PromoteOptions', expect: { step, revision: '6f9d5b7c8d', plan: 'c4f1' } };
  const of = (verb: Verb, title: string, possible: boolean, reason: string, more: Partial<Action> = {}): Action => ({
    verb,
    title,
    possible,
    allowed,
    reason,
    path: path(name, verb),
    body,
    ...more,
  });
  return [
    of('promote', `Promote step ${step}`, true, `Starts step ${step + 1}: 10 of 10 pods, 100% of traffic`),
    of('abort', 'Abort', true, 'Moves traffic and pods back to v7', { needs: ['reason'] }),
    of('rollback', 'Roll back', true, 'Moves traffic and pods back to v7, and sets its template'),
    of('pause', 'Pause', true, 'Stops the release where it is; resume continues it'),
    of('jump', 'Jump', true, 'Continues from any of steps 1–3', { needs: ['step'], overrideFrom: 3 }),
    of('promote', 'Promote in full', true, 'Starts step 3 and skips all later approvals', { body: { ...body, full: true } }),
    of('retry', 'Retry', false, 'Only an aborted release can be retried'),
    of('resume', 'Resume', false, 'The release is not paused'),
  ];
}

// onlyPossible makes these actions possible, in this order, and puts all others behind them.
export function onlyPossible(all: Action[], ...titles: string[]): Action[] {
  const first = titles.map(title => ({ ...all.find(a => a.title === title)!, possible: true }));
  return [...first, ...all.filter(a => !titles.includes(a.title)).map(a => ({ ...a, possible: false, reason: 'Not possible in this state' }))];
}

export function why(name = 'web', allowed = true): RolloutWhy {
  return {
    state: 'Waiting',
    summary: 'v8, step 2 of 3: waiting for approval for 14 minutes.',
    release: { number: 12, stable: '5c7d9f6b4c', revision: '6f9d5b7c8d', images: [{ container: 'web', from: 'shop/web:v7', to: 'shop/web:v8' }] },
    waitingFor: { for: 'approval', what: 'approval of step 2', since: ago(14 * 60) },
    workload: { generation: 41, seen: 41 },
    actions: actions(name, allowed),
    contact: '#shop-release',
  };
}

const badImage = 'container cart: ImagePullBackOff (not found)';

// failing is a release whose image does not exist.
export function failing(): RolloutWhy {
  return {
    ...why('cart'),
    state: 'Failing',
    summary: `2.31.0, step 1 of 4: waiting for pods for 2 minutes: 1 of 1 new pods: ${badImage}`,
    waitingFor: { for: 'pods', what: 'pods of step 1/4', since: ago(2 * 60), deadline: new Date(Date.now() + 8 * 60_000).toISOString() },
    causes: [
      {
        about: 'failing',
        message: `1 of 1 new pods: ${badImage}`,
        advice: 'check the name of the image, its tag and the pull secrets, or abort',
        objects: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'cart' }],
      },
      { about: 'pods', message: `1 of 1 new pods: ${badImage}` },
    ],
    release: { number: 31, stable: '7c9f', revision: '7d4b', images: [{ container: 'cart', from: 'shop/cart:2.30.4', to: 'shop/cart:2.31.0' }] },
    actions: onlyPossible(actions('cart', true, 1), 'Abort', 'Roll back', 'Pause', 'Promote in full'),
  };
}

export function stalled(): RolloutWhy {
  return {
    ...failing(),
    state: 'Stalled',
    summary: '2.31.0, step 1 of 4: stalled for 11 minutes.',
    causes: [
      {
        about: 'deadline',
        message: `no progress at deployment/cart since 2026-01-05T10:00:00Z, for longer than 600 seconds: 1 of 1 new pods: ${badImage}`,
        advice: 'Push the image, or roll back',
      },
    ],
  };
}

// aborted is a release that a user aborted in step 2.
export function aborted(): RolloutWhy {
  return {
    ...why(),
    state: 'Aborted',
    summary: 'Aborted by alice ("error rate doubled"). All pods run v7. Retry from step 1, roll back, or release another version.',
    waitingFor: { for: 'decision', what: 'a decision: retry, roll back, or release another version', since: ago(120) },
    causes: [],
    actions: onlyPossible(actions('web', true), 'Roll back', 'Retry'),
  };
}

// atRest is a Rollout without a release in progress.
export function atRest(name = 'web', allowed = true): RolloutWhy {
  const { release: _, waitingFor: __, ...rest } = why(name, allowed);
  return { ...rest, state: 'AtRest', summary: 'No release in progress.', actions: onlyPossible(actions(name, allowed)) };
}

// orphan is a Rollout whose workload does not exist.
export function orphan(): RolloutWhy {
  return { ...atRest('ghost'), summary: 'Waiting for Deployment shop/ghost, which does not exist.', waitingFor: { for: 'workload', what: 'workload', since: ago(300) } };
}

function pods(parent: string, revision: RevisionRole, ready: number, waiting: number, bad = 0, from = 0): Node[] {
  return Array.from({ length: ready + waiting + bad }, (_, i): Node => ({
    id: `${parent}/${i}`,
    parent,
    apiVersion: 'v1',
    kind: 'Pod',
    role: 'pod',
    revision,
    name: `${parent}-${(0xb3c5 + 7919 * (i + from)).toString(36)}`,
    health: i < ready ? 'Healthy' : i < ready + waiting ? 'Progressing' : 'Degraded',
    since: ago(900 - i),
    node: `node-${i % 3}`,
    batch: i < 1 ? 1 : 2,
    ...(i >= ready + waiting && { message: badImage, restarts: 4 }),
    ...(i >= ready && i < ready + waiting && { message: 'ContainerCreating' }),
  }));
}

export function tree(
  name = 'web',
  of: Partial<{ why: RolloutWhy; update: [number, number, number]; stable: number; traffic: number; version: number }> = {},
): RolloutTree {
  const [ready, waiting, bad] = of.update ?? [5, 0, 0];
  const stable = of.stable ?? 5;
  const traffic = of.traffic ?? 50;
  return {
    metadata: { name, namespace: 'shop', uid: `uid-${name}`, resourceVersion: String(of.version ?? 1) },
    why: of.why ?? why(name),
    hidden: [{ kind: 'HorizontalPodAutoscaler', permission: 'list horizontalpodautoscalers' }],
    nodes: [
      { id: 'r', kind: 'Rollout', name, role: 'rollout', health: 'Suspended' },
      { id: 'd', parent: 'r', kind: 'Deployment', name, role: 'workload', health: 'Suspended', desired: 10, ready: 10, message: `Managed by Rollout ${name}` },
      {
        id: 'update',
        parent: 'd',
        kind: 'ReplicaSet',
        name: `${name}-6f9d5b7c8d`,
        role: 'revision',
        revision: 'update',
        health: bad ? 'Degraded' : 'Healthy',
        images: [`shop/${name}:v8`],
        desired: ready + waiting + bad,
        pods: ready + waiting + bad,
        ready,
        traffic,
      },
      {
        id: 'stable',
        parent: 'd',
        kind: 'ReplicaSet',
        name: `${name}-5c7d9f6b4c`,
        role: 'revision',
        revision: 'stable',
        health: 'Healthy',
        images: [`shop/${name}:v7`],
        desired: stable,
        pods: stable,
        ready: stable,
        traffic: 100 - traffic,
      },
      ...pods('update', 'update', ready, waiting, bad),
      ...pods('stable', 'stable', stable, 0, 0, 1000),
      { id: 's', parent: 'r', kind: 'Service', name, role: 'service', revision: 'stable', health: 'Healthy', message: 'Selects stable pods (v7)' },
      { id: 'c', parent: 'r', kind: 'Service', name: `${name}-canary`, role: 'service', revision: 'update', health: 'Healthy', message: 'Selects new pods (v8)' },
      { id: 'i', parent: 'r', kind: 'Ingress', name: `${name}-canary`, role: 'router', health: 'Healthy', traffic, message: 'The weight is in place' },
    ],
  };
}

export function plan(error = false): RolloutPlan {
  return {
    status: {
      floor: 10,
      peak: { pods: 13, cpu: '13', memory: '26Gi' },
      steps: [
        {
          step: 1,
          state: 'Done',
          update: 1,
          stable: 9,
          peak: 11,
          minReady: 10,
          traffic: 20,
          waves: [
            { start: 1, stop: 0, times: 1 },
            { start: 0, stop: 1, times: 1 },
          ],
          then: { for: 'approval', you: true },
          usual: '20s',
          perPod: '2.0x',
        },
        {
          step: 2,
          state: 'Current',
          update: 5,
          stable: 5,
          peak: 13,
          minReady: 10,
          traffic: 50,
          waves: [
            { start: 3, stop: 0, times: 1 },
            { start: 1, stop: 4, times: 1 },
          ],
          then: { for: 'approval', you: true },
          usual: '40s',
          perPod: '1.0x',
        },
        {
          step: 3,
          state: 'Next',
          update: 10,
          stable: 0,
          peak: 13,
          minReady: 10,
          traffic: 100,
          waves: [
            { start: 3, stop: 3, times: 1 },
            { start: 2, stop: 2, times: 1 },
          ],
          then: { for: 'none' },
          usual: '1m0s',
          perPod: '1.0x',
        },
      ],
      findings: error
        ? [
            {
              severity: 'Error',
              step: 3,
              code: 'quota',
              object: { apiVersion: 'v1', kind: 'ResourceQuota', name: 'compute' },
              message: 'Quota "compute" has 1500m CPU left; this step needs 3000m and will get stuck',
              fix: 'raise the quota, or lower maxSurge',
            },
          ]
        : [],
    },
  };
}

// nextPlan is the plan of the next release, while none is in progress.
export function nextPlan(): RolloutPlan {
  const { status } = plan();
  return { status: { ...status!, steps: status!.steps!.map(step => ({ ...step, state: 'Next' })) } };
}

// backPlan is the plan of a release that goes back to the stable version.
export function backPlan(): RolloutPlan {
  return { status: { floor: 10, peak: { pods: 10 }, steps: [{ step: 0, state: 'Back', update: 0, stable: 10, peak: 10, minReady: 10, then: { for: 'approval' } }] } };
}

// endPlan is the plan of a release with a canary Deployment, which has an end of its own.
export function endPlan(): RolloutPlan {
  const { status } = plan();
  return { status: { ...status!, steps: [...status!.steps!, { step: 0, state: 'End', update: 10, stable: 0, peak: 20, minReady: 10, then: { for: 'none' } }] } };
}

// rollout is the stored object.
export function rollout(name = 'web', analysis?: AnalysisStatus, phase: NonNullable<Rollout['status']>['phase'] = 'Progressing'): Rollout {
  return {
    metadata: { name, namespace: 'shop', uid: `uid-${name}` },
    spec: {
      workloadRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
      strategy: { canary: { steps: [{ traffic: '20%', replicas: '10%' }, { traffic: '50%', replicas: '50%' }, { traffic: '100%', replicas: '100%' }] } },
      disabled: false,
    },
    status: { phase, ...(analysis && { analysis }) } as NonNullable<Rollout['status']>,
  };
}

// matched is a Rollout whose first two steps select requests by a header.
export function matched(name = 'web'): Rollout {
  const it = rollout(name);
  const matches = [{ headers: [{ name: 'x-canary', value: 'yes' }] }];
  it.spec!.strategy.canary!.steps = [{ matches, replicas: '10%' }, { matches, replicas: '50%' }, { replicas: '100%' }];
  return it;
}

// matchPlan is a plan whose first two steps select requests by a header.
export function matchPlan(): RolloutPlan {
  const all = plan();
  for (const step of all.status!.steps!) {
    delete step.traffic;
    if (step.step < 3) step.match = 'x-canary: yes';
  }
  return all;
}

// abortedHistory is the history of a release that a user aborted in step 2.
export function abortedHistory(): RolloutReleases {
  const all = history();
  const decisions = all.releases![0]!.decisions!;
  decisions.push({ ...decisions[0]!, id: 32, verb: 'abort', step: 2, time: ago(180), reason: 'error rate doubled' });
  all.releases![0]!.outcome = 'aborted';
  return all;
}

// endedHistory is the history of a Rollout whose latest release succeeded.
export function endedHistory(): RolloutReleases {
  const all = history();
  Object.assign(all.releases![0]!, { outcome: 'succeeded', endTime: ago(60) });
  return all;
}

export function history(more: Partial<RolloutReleases> = {}): RolloutReleases {
  const decision = (id: number, seconds: number, user: string, verb: Verb, step: number, reason = '', more: Partial<Decision> = {}): Decision => ({
    id,
    verb,
    user,
    time: ago(seconds),
    step,
    reason,
    via: 'verb',
    outcome: 'applied',
    userAgent: 'kubectl/v1.37.1',
    ...more,
  });
  return {
    releases: [
      {
        number: 12,
        stable: '5c7d9f6b4c',
        revision: '6f9d5b7c8d',
        images: why().release!.images!,
        startTime: ago(1500),
        steps: [
          { step: 1, enteredTime: ago(1500), upgradedTime: ago(1480), leftTime: ago(900) },
          { step: 2, enteredTime: ago(900), upgradedTime: ago(862), pausedTime: ago(840) },
        ],
        decisions: [decision(31, 900, 'alice', 'promote', 1, 'error rate is fine')],
        changes: [
          { path: 'spec.containers[web].image', from: '"shop/web:v7"', to: '"shop/web:v8"' },
          { path: 'spec.containers[web].env[LOG].value', to: '"info"' },
        ],
      },
      {
        number: 11,
        outcome: 'succeeded',
        stable: '47c9',
        revision: '5c7d9f6b4c',
        images: [{ container: 'web', from: 'shop/web:v6', to: 'shop/web:v7' }],
        startTime: ago(260_000),
        endTime: ago(259_160),
        decisions: [
          decision(28, 259_700, 'carol', 'jump', 2, 'measure again', { toStep: 1 }),
          decision(30, 259_500, 'bob', 'promote', 2, 'hotfix', { full: true }),
        ],
        changes: [{ path: 'spec.containers[web].image', from: '"shop/web:v6"', to: '"shop/web:v7"' }],
      },
      {
        number: 10,
        outcome: 'aborted',
        stable: '47c9',
        revision: '88fe',
        images: [{ container: 'web', from: 'shop/web:v6', to: 'shop/web:v6.1' }],
        startTime: ago(500_000),
        endTime: ago(499_400),
        decisions: [decision(29, 499_800, 'analysis', 'abort', 1, 'successRate: 4.1% of requests failed, 0.2% of the stable ones', { via: 'analysis' })],
        changes: [],
      },
    ],
    ...more,
  };
}

export const analysis: AnalysisStatus = {
  revision: '6f9d5b7c8d',
  step: 2,
  stepSince: ago(840),
  since: ago(1400),
  checks: [
    { name: 'podsHealthy', result: 'Passed', why: 'No new pod has crashed' },
    {
      name: 'successRate',
      result: 'Running',
      why: '0.21% of requests failed (limit 1%)',
      new: { total: 41_210, bad: 87 },
      old: { total: 40_874, bad: 80 },
    },
    {
      name: 'latency',
      result: 'Failed',
      why: '3.4% of requests took longer than 250 ms (limit 1%, stable 0.4%)',
      new: { total: 41_210, bad: 1402 },
      old: { total: 40_874, bad: 164 },
    },
  ],
};

const minutes = 60;
const hours = 60 * minutes;

// A decision has one time, however often its objects are read.
const now = Date.now();
const decidedAt = (seconds: number) => new Date(now - seconds * 1000).toISOString().replace(/\.\d+/, '');

// records are RolloutHistories: a release of this day with an approval of everything, and one of last week. The user may
// not see the template of the second one.
export function records() {
  const decision = (id: number, verb: Verb, user: string, seconds: number, more: Partial<Decision> = {}): Decision => ({
    id, verb, user, time: decidedAt(seconds), via: 'verb', outcome: 'applied', ...more,
  });
  const record = (namespace: string, name: string, number: number, image: string, decisions: Decision[]) => ({
    metadata: { namespace, name: `${name}-${number}`, labels: { 'rollouts.kruise.io/release-number': String(number) } },
    spec: { rollout: { name }, workload: image ? { data: { template: { spec: { containers: [{ image }] } } } } : {} },
    status: { canaryRevision: '77aa', decisions },
  });
  return [
    record('shop', 'web', 11, 'shop/web:v7', [
      decision(21, 'promote', 'alice', 5 * hours, { step: 1, full: true, reason: '=hotfix, "all" at once' }),
      decision(22, 'abort', 'weir-controller', 4 * hours, { step: 2, via: 'analysis', reason: 'latency: 3.4% of requests took longer than 250 ms (limit 1%)' }),
    ]),
    record('finance', 'ledger', 3, '', [
      decision(4, 'jump', 'bob', 3 * hours, {
        step: 1, toStep: 3, reason: 'the check measures the wrong Service, see ticket 4711', overrode: ['analysis'],
        overriddenChecks: [{ name: 'successRate', step: 1, result: 'Failed' }],
      }),
    ]),
    record('shop', 'cart', 30, 'shop/cart:2.30.4', [decision(9, 'pause', 'carol', 6 * 24 * hours, { step: 1 })]),
  ];
}

// currentReleases are Rollouts with the decisions of their current releases. One is in a RolloutHistory, too.
export function currentReleases() {
  const again = records()[0]!.status.decisions[1]!;
  return [
    {
      metadata: { namespace: 'shop', name: 'web' },
      status: {
        releases: [{ number: 11, firstDecision: 21 }, { number: 12, firstDecision: 23 }],
        decisions: [again, { id: 23, verb: 'promote', user: 'alice', time: decidedAt(20 * minutes), via: 'verb', step: 1, revision: '6f9d5b7c8d' }],
      },
    },
  ];
}

const columns = ['Name', 'STATUS', 'CANARY_STEP', 'CANARY_STATE', 'MESSAGE', 'STATE', 'VERSIONS', 'WAITING-FOR', 'SINCE', 'STEP', 'NEW', 'TRAFFIC', 'BY'];

// withoutStates is the table of a server of version 0.4 or older.
export function withoutStates({ columnDefinitions, rows, ...table }: Table): Table {
  const kept = (_: unknown, i: number) => !['STATE', 'VERSIONS'].includes(columns[i]!);
  return { ...table, columnDefinitions: columnDefinitions!.filter(kept), rows: rows!.map(row => ({ ...row, cells: row.cells.filter(kept) })) };
}

export function table(from: number, to: number, total: number): Table {
  const rows: Table['rows'] = [];
  for (let i = from; i < to; i++) {
    const name = ['web', 'cart', 'pay', 'ghost'][i] ?? `service-${String(i).padStart(5, '0')}`;
    const cells = [
      [name, 'Progressing', 2, 'StepPaused', 'step 2 of 3', 'Waiting', 'v7 → v8', 'approval of step 2', '14m', '2/3', '5/5', '50%', 'alice'],
      [name, 'Progressing', 1, 'StepUpgrade', 'step 1 of 4', 'Failing', '2.30.4 → 2.31.0', 'pods of step 1', '11m', '1/4', '0/1', '0%', null],
      [name, 'Progressing', 1, 'StepUpgrade', 'step 1 of 4', 'In progress', 'v7 → v8', 'pods of step 1', '20s', '1/4', '2/4', '0%', null],
      [name, 'Initial', null, null, 'Workload Not Found', 'Not ready', null, 'workload', '5m', null, null, null, null],
    ][i] ?? [name, 'Healthy', null, null, 'completed', 'Healthy', 'v8', 'nothing', null, null, null, null, null];
    rows.push({ cells, object: { metadata: { name, namespace: i === 2 ? 'finance' : 'shop', uid: `uid-${name}`, resourceVersion: '1' } } });
  }
  return {
    metadata: { resourceVersion: '100', ...(to < total && { continue: String(to), remainingItemCount: total - to }) },
    columnDefinitions: columns.map(name => ({ name, type: 'string' })),
    rows,
  };
}
