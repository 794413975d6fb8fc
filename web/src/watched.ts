// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { Refused, get, isAborted, rollout, say } from './api';
import { readyOf } from './pods';
import { seriesOf } from './chart';
import { events, type Followed } from './stream';
import type { AnalysisStatus, PastRelease, Rollout, RolloutPlan, RolloutReleases, RolloutTree, Step } from './wire';

// After a change of the tree, the other answers are read again after this time.
const settle = 300;
const atMostEvery = 2_000;

// Release has everything that the page of a Rollout shows: its tree, which is watched, and the answers that are read
// again when the Rollout changes.
export class Release implements Followed {
  tree?: RolloutTree;
  plan?: RolloutPlan;
  // planless is why there is no plan.
  planless = '';
  releases?: PastRelease[];
  analysis?: AnalysisStatus;
  // steps are those of the stored plan, and phase is that of the Rollout.
  steps: Step[] = [];
  phase = '';
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
    if (this.uid && this.uid !== tree.metadata?.uid) throw new Refused(409, 'This Rollout is in another cluster than the one that weir-dashboard serves.');
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
        // The page leaves out what the user may not read. The tree names the permissions.
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
      one<Rollout>('', it => {
        const { canary, blueGreen } = it.spec?.strategy ?? {};
        this.steps = (canary ?? blueGreen)?.steps ?? [];
        this.phase = it.status?.phase ?? '';
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
