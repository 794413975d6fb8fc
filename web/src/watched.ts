// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { Refused, get, isAborted, rollout, say } from './api';
import { readyOf } from './pods';
import { seriesOf } from './chart';
import { events, type Followed } from './stream';
import type { AnalysisStatus, PastRelease, RolloutPlan, RolloutReleases, RolloutTree } from './wire';

// What belongs to a release beside its tree is read again this long after it has changed.
const settle = 300;
const atMostEvery = 2_000;

// Release is all that the page of a Rollout shows: its tree as it changes, and what is read
// again when the Rollout has.
export class Release implements Followed {
  tree?: RolloutTree;
  plan?: RolloutPlan;
  // planless says why there is no plan.
  planless = '';
  releases?: PastRelease[];
  analysis?: AnalysisStatus;
  private seen = '';
  private read = 0;
  private timer: number | undefined;
  private readonly ends = new AbortController();
  private readonly path: string;

  constructor(
    private readonly namespace: string,
    private readonly name: string,
    private readonly changed: () => void,
    private readonly uid?: string,
  ) {
    this.path = rollout(namespace, name);
  }

  end(): void {
    this.ends.abort();
    clearTimeout(this.timer);
  }

  watch(signal: AbortSignal, live: () => void): Promise<void> {
    return events<RolloutTree>(`watch/${this.path}/tree`, { signal }, live, (_, tree) => this.take(tree));
  }

  async poll(signal: AbortSignal): Promise<void> {
    this.take(await get<RolloutTree>(`${this.path}/tree`, { signal }));
  }

  private take(tree: RolloutTree): void {
    if (this.uid && this.uid !== tree.metadata?.uid) throw new Refused(409, 'This is a Rollout of another cluster than the one that weir-dashboard serves.');
    this.tree = tree;
    const [update, stable] = readyOf(tree);
    seriesOf(`${this.namespace}/${this.name}`).add(Date.now(), [update, stable]);
    this.changed();
    const version = `${tree.metadata?.uid}/${tree.metadata?.resourceVersion}`;
    if (version === this.seen || this.timer !== undefined) return;
    this.timer = setTimeout(() => void this.readAgain(), Math.max(settle, this.read + atMostEvery - Date.now()));
  }

  private async readAgain(): Promise<void> {
    const { tree } = this;
    this.seen = `${tree?.metadata?.uid}/${tree?.metadata?.resourceVersion}`;
    this.read = Date.now();
    const one = async <T>(what: string, set: (answer: T) => void) => {
      try {
        set(await get<T>(`${this.path}${what}`, { signal: this.ends.signal }));
        this.changed();
      } catch (err) {
        // What may not be read is left out; the tree says what it costs.
        if (what === '/plan' && !isAborted(err)) this.planless = say(err);
      }
    };
    await Promise.all([
      one<RolloutPlan>('/plan', plan => {
        this.plan = plan;
        this.planless = '';
      }),
      one<RolloutReleases>('/history', history => {
        this.releases = history.releases ?? [];
      }),
      one<{ status?: { analysis?: AnalysisStatus } }>('', it => {
        this.analysis = it.status?.analysis;
        for (const check of this.analysis?.checks ?? []) {
          const rate = (c?: { total: number; bad: number }) => (c && c.total > 0 ? (100 * c.bad) / c.total : undefined);
          if (check.new || check.old) seriesOf(`${this.namespace}/${this.name}/${check.name}`).add(Date.now(), [rate(check.new), rate(check.old)]);
        }
      }),
    ]);
    this.timer = undefined;
    if (this.tree && `${this.tree.metadata?.uid}/${this.tree.metadata?.resourceVersion}` !== this.seen) this.take(this.tree);
  }
}
