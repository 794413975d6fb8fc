// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { Action, Cause, Decision, RolloutWhy, State } from './wire';

// Shown is a state as the pages show it. NotReady is a Rollout at rest that cannot release, for example because
// its workload does not exist.
export type Shown = State | 'NotReady' | 'Disabled';

// words has a word for each state, and its order is that of severity: what needs a person most comes first.
const words: Record<Shown, string> = {
  Failing: 'Failing',
  Stalled: 'Stalled',
  Aborting: 'Aborting',
  Aborted: 'Aborted',
  NotReady: 'Not ready',
  Waiting: 'Waiting',
  Paused: 'Paused',
  Moving: 'In progress',
  Ending: 'Finishing',
  AtRest: 'Healthy',
  Disabled: 'Disabled',
};

const order = Object.keys(words);

// shownState returns the state to show. It returns a state that these pages do not know as it is.
export function shownState(why: RolloutWhy, phase?: string): Shown {
  if (why.state !== 'AtRest') return why.state;
  if (phase === 'Disabled') return 'Disabled';
  return why.waitingFor?.for && why.waitingFor.for !== 'nothing' ? 'NotReady' : 'AtRest';
}

// fromTable returns the state in a row of the server's table. An older server has only the phase.
export function fromTable(cells: Record<string, string>): Shown {
  const phase = cells['STATUS'];
  const found = order.find(state => words[state as Shown] === cells['STATE']);
  if (found) return found as Shown;
  if (phase === 'Healthy') return 'AtRest';
  return phase === 'Disabled' ? 'Disabled' : 'Moving';
}

export function stateWord(state: string): string {
  return Object.hasOwn(words, state) ? words[state as Shown] : state;
}

export function severity(state: string): number {
  const at = order.indexOf(state);
  return at < 0 ? order.indexOf('Moving') : at;
}

// isBad reports whether the causes matter more than the summary.
export function isBad(state: string): boolean {
  return severity(state) <= severity('NotReady');
}

// leadingCause returns the cause to show first.
export function leadingCause(why?: RolloutWhy): Cause | undefined {
  return why && isBad(shownState(why)) ? why.causes?.[0] : undefined;
}

// isFull reports whether an action approves all remaining steps.
export function isFull(action: Action): boolean {
  return action.body?.['full'] === true;
}

// isDestructive reports whether an action takes the new version away.
export function isDestructive(action: Action): boolean {
  return action.verb === 'abort' || action.verb === 'rollback';
}

// isPrimary reports whether an action may be the first button, and the only one on a phone. An action that approves
// steps that no user has seen yet, or that overrides checks, may not.
export function isPrimary(action: Action): boolean {
  return action.possible && !isFull(action) && !action.needs?.includes('override');
}

// titleOf returns the title of an action. It names an override, because the title of the server does not.
export function titleOf(action: Action): string {
  if (isFull(action)) return action.needs?.includes('override') ? 'Override the checks and approve all remaining steps' : 'Approve all remaining steps';
  return action.needs?.includes('override') && !/overrid/i.test(action.title) ? `${action.title}, overriding its checks` : action.title;
}

// deed describes a decision: alice "approved step 2".
export function deed(decision: Decision): string {
  const { verb, step, full, toStep } = decision;
  const at = step ? ` at step ${step}` : '';
  switch (verb) {
    case 'promote':
      return full ? `approved all remaining steps${at}` : `approved ${step ? `step ${step}` : 'the step'}`;
    case 'abort':
      return `aborted the release${at}`;
    case 'rollback':
      return `rolled back${at}`;
    case 'retry':
      return 'restarted the release from step 1';
    case 'pause':
      return `paused the release${at}`;
    case 'resume':
      return `resumed the release${at}`;
    case 'jump':
      return toStep ? `jumped to step ${toStep}` : `jumped${at}`;
    default:
      return `used ${String(verb)}${at}`;
  }
}
