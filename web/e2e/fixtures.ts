// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Answers of a server that does not run: what its types allow, and a control plane seldom
// has at once.
import type { Action, Node, RolloutPlan, RolloutReleases, RolloutTree, RolloutWhy, Table } from '../src/wire.ts';

export const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const path = (name: string, verb: string) => `namespaces/shop/rollouts/${name}/${verb}`;

export function actions(name: string, allowed: boolean, step = 2): Action[] {
  const body = { kind: 'PromoteOptions', expect: { step, revision: '6f9d5b7c8d', plan: 'c4f1' } };
  const of = (verb: string, title: string, possible: boolean, reason: string, more: Partial<Action> = {}): Action => ({
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
    of('promote', `Promote step ${step}`, true, `Step ${step + 1} starts: +5 −5 pods, 100 % of the requests.`),
    of('promote', 'Promote in full', true, 'Every further step runs without waiting.', { body: { ...body, full: true } }),
    of('abort', 'Abort', true, 'Back to v7: traffic first, then +5 −5 pods.', { needs: ['reason'] }),
    of('rollback', 'Roll back', true, 'Back to v7, and the template of the workload, too.'),
    of('retry', 'Retry', false, 'The release was not aborted.'),
    of('pause', 'Pause', true, 'The release stays where it is.'),
    of('resume', 'Resume', false, 'The release is not paused.'),
    of('jump', 'Jump', true, 'The release goes on at another step.', { needs: ['step'], overrideFrom: 4 }),
  ];
}

export function why(name = 'web', allowed = true): RolloutWhy {
  return {
    state: 'Waiting',
    summary: 'Step 2 of 3 of v8 waits for an approval.',
    release: { number: 12, stable: '5c7d9f6b4c', revision: '6f9d5b7c8d', images: [{ container: 'web', from: 'shop/web:v7', to: 'shop/web:v8' }] },
    waitingFor: { for: 'Approval', what: 'an approval', since: ago(14 * 60) },
    workload: { generation: 41, seen: 41 },
    actions: actions(name, allowed),
    contact: '#shop-release',
  };
}

export function stalled(): RolloutWhy {
  return {
    ...why('cart'),
    state: 'Stalled',
    summary: 'Step 1 of 4 of 2.31.0 stands still: its new pod cannot pull its image.',
    waitingFor: { for: 'Pods', what: 'a new pod', since: ago(11 * 60), deadline: ago(60) },
    causes: [
      {
        about: 'pods',
        message: 'ImagePullBackOff: cart:2.31.0 is not in the registry.',
        advice: 'Push the image, or roll back.',
        objects: [{ apiVersion: 'v1', kind: 'Pod', name: 'cart-7d4b9c-x2v5k' }],
      },
    ],
    release: { number: 31, images: [{ container: 'cart', from: 'shop/cart:2.30.4', to: 'shop/cart:2.31.0' }] },
  };
}

function pods(parent: string, revision: string, ready: number, waiting: number, bad = 0, from = 0): Node[] {
  return Array.from({ length: ready + waiting + bad }, (_, i) => ({
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
    ...(i >= ready + waiting && { message: 'ImagePullBackOff: the image is not in the registry', restarts: 4 }),
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
      { id: 'd', parent: 'r', kind: 'Deployment', name, role: 'workload', health: 'Suspended', desired: 10, ready: 10, message: 'held' },
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
      { id: 's', parent: 'r', kind: 'Service', name, role: 'service', revision: 'stable', health: 'Healthy', message: 'selects 5c7d9f6b4c' },
      { id: 'c', parent: 'r', kind: 'Service', name: `${name}-canary`, role: 'service', revision: 'update', health: 'Healthy', message: 'selects 6f9d5b7c8d' },
      { id: 'i', parent: 'r', kind: 'Ingress', name: `${name}-canary`, role: 'router', health: 'Healthy', traffic, message: 'the weight is in place' },
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
            { start: 1, stop: 0 },
            { start: 0, stop: 1 },
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
            { start: 3, stop: 0 },
            { start: 1, stop: 4 },
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
            { start: 3, stop: 3 },
            { start: 2, stop: 2 },
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
              message: '1500m CPU left, 3 more pods ask for 3000m.',
              fix: 'Raise it, or set maxSurge 1.',
            },
          ]
        : [],
    },
  };
}

export function history(more: Partial<RolloutReleases> = {}): RolloutReleases {
  const decision = (id: number, seconds: number, user: string, verb: string, step: number, reason = '', via = 'verb') => ({
    id,
    verb,
    user,
    time: ago(seconds),
    step,
    reason,
    via,
    outcome: 'applied',
    userAgent: 'kubectl/v1.37.1',
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
        decisions: [decision(30, 259_500, 'bob', 'promote', 2, 'looks good')],
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
        decisions: [decision(29, 499_800, 'analysis', 'abort', 1, 'successRate: 4.1 % of the requests failed, 0.2 % of the stable ones', 'analysis')],
        changes: [],
      },
    ],
    ...more,
  };
}

export const analysis = {
  revision: '6f9d5b7c8d',
  step: 2,
  stepSince: ago(840),
  since: ago(1400),
  checks: [
    { name: 'podsHealthy', result: 'Passed', why: 'No new pod has crashed.' },
    {
      name: 'successRate',
      result: 'Running',
      why: '0.21 % of the requests failed; at most 1 % may.',
      new: { total: 41_210, bad: 87 },
      old: { total: 40_874, bad: 80 },
    },
    {
      name: 'latency',
      result: 'Failed',
      why: '3.4 % of the requests took longer than 250 ms; at most 1 % may, and 0.4 % of the stable ones do.',
      new: { total: 41_210, bad: 1402 },
      old: { total: 40_874, bad: 164 },
    },
  ],
};

const columns = ['Name', 'STATUS', 'CANARY_STEP', 'CANARY_STATE', 'MESSAGE', 'WAITING-FOR', 'SINCE', 'STEP', 'NEW', 'TRAFFIC', 'BY'].map(name => ({
  name,
  type: 'string',
}));

export function table(from: number, to: number, total: number): Table {
  const rows = [];
  for (let i = from; i < to; i++) {
    const name = ['web', 'cart', 'pay'][i] ?? `service-${String(i).padStart(5, '0')}`;
    const cells = [
      [name, 'Progressing', 2, 'StepPaused', 'step 2 of 3', 'approval of step 2', '14m', '2/3', '5/5', '50%', 'alice'],
      [name, 'Progressing', 1, 'StepUpgrade', 'step 1 of 4', 'pods of step 1: ImagePullBackOff', '11m', '1/4', '0/1', '0%', null],
      [name, 'Progressing', 1, 'StepUpgrade', 'step 1 of 4', 'pods of step 1', '20s', '1/4', '2/4', '0%', null],
    ][i] ?? [name, 'Healthy', null, null, 'completed', 'nothing', null, null, null, null, null];
    rows.push({ cells, object: { metadata: { name, namespace: i === 2 ? 'finance' : 'shop', uid: `uid-${name}`, resourceVersion: '1' } } });
  }
  return {
    metadata: { resourceVersion: '100', ...(to < total && { continue: String(to), remainingItemCount: total - to }) },
    columnDefinitions: columns,
    rows,
  };
}
