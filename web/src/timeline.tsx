// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import { ending } from './dialog';
import { Mark } from './icons';
import { deed } from './severity';
import { between, change, matchText, shortDuration } from './text';
import type { Node, PastRelease, PlannedStep, RolloutWhy, Step } from './wire';

// Drawn is a step of the timeline. Stopped is the step at which a release was aborted; Unreached are those after it.
type Drawn = Omit<PlannedStep, 'state'> & { state: PlannedStep['state'] | 'Stopped' | 'Unreached' };

// abortOf returns the decision that ended a release.
function abortOf(release?: PastRelease) {
  return (release?.decisions ?? []).findLast(d => (d.verb === 'abort' || d.verb === 'rollback') && d.outcome !== 'rejected');
}

// drawnSteps returns the steps to draw. After an abort the plan has only the way back, so the steps before it come from
// the plan of the Rollout and from the record of the release.
export function drawnSteps(planned: PlannedStep[], spec: Step[], release?: PastRelease): Drawn[] {
  if (!planned.some(s => s.state === 'Back')) return planned;
  const stopped = abortOf(release)?.step ?? release?.steps?.at(-1)?.step ?? 0;
  const count = Math.max(spec.length, stopped, ...(release?.steps ?? []).map(s => s.step));
  const before = Array.from({ length: count }, (_, i): Drawn => {
    const step = i + 1;
    const traffic = parseInt(spec[i]?.traffic ?? '', 10);
    return {
      step,
      state: step < stopped ? 'Done' : step === stopped ? 'Stopped' : 'Unreached',
      update: -1,
      stable: -1,
      peak: 0,
      minReady: 0,
      ...(Number.isFinite(traffic) && { traffic }),
      match: matchText(spec[i]?.matches ?? []),
    };
  });
  return [...before, ...planned];
}

interface Shown {
  release: PastRelease | undefined;
  why: RolloutWhy | undefined;
  now: number;
  planned: PlannedStep[];
  // spec are the steps of the Rollout, if it could be read.
  spec: Step[];
  revisions: Node[];
}

// Timeline shows the traffic of both versions in one bar, with the steps of the plan as ticks, and below it each step.
export function Timeline({ planned, spec, revisions, release, why, now }: Shown): JSX.Element {
  const steps = drawnSteps(planned, spec, release);
  const [from, to] = change(why?.release ?? {});
  return (
    <section aria-labelledby="steps">
      <h2 id="steps">{why?.release ? 'Steps' : 'Steps of the next release'}</h2>
      {why?.release && <Shares steps={steps} revisions={revisions} from={from} to={to} />}
      <ol class="timeline">
        {steps.map((step, i) => (
          <li key={`${step.state === 'Back' || step.state === 'End' ? step.state : step.step} ${i}`} class={step.state.toLowerCase()} aria-current={step.state === 'Current' ? 'step' : undefined}>
            <Mark of={step.state} />
            <div>
              <b>{nameOf(step, from)}</b> <span class="unseen">{stateText[step.state]}</span>
              {step.match ? <span class="share">{step.match}</span> : step.traffic !== undefined && <span class="share">{step.traffic}%</span>}
              {step.update >= 0 && <p>{podsOf(step, from, to)}</p>}
              <p class="dim small">
                <Course step={step} release={release} now={now} />
              </p>
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

const stateText: Record<Drawn['state'], string> = {
  Done: 'done',
  Current: 'in progress',
  Next: 'to come',
  Back: 'after the abort',
  End: 'to come',
  Stopped: 'aborted here',
  Unreached: 'not reached',
};

function nameOf(step: Drawn, from: string): string {
  if (step.state === 'Back') return from ? `Back to ${from}` : 'Back';
  return step.state === 'End' || step.step === 0 ? 'End' : `Step ${step.step}`;
}

function podsOf({ state, update, stable }: Drawn, from: string, to: string): string {
  if (state === 'End') return `all ${update} pods run ${to || 'the new version'}`;
  if (state === 'Back') return `${stable} of ${update + stable} pods run ${from || 'the stable version'}`;
  return `${update} of ${update + stable} pods`;
}

function Course({ step, release, now }: { step: Drawn; release: PastRelease | undefined; now: number }): JSX.Element {
  const visit = release?.steps?.findLast(s => s.step === step.step);
  const took = visit?.upgradedTime ? between(visit.enteredTime, visit.upgradedTime) : '';
  const by = (release?.decisions ?? []).filter(d => d.step === step.step && d.outcome !== 'rejected').at(-1);
  const load = parseFloat(step.perPod ?? '') > 1 && step.perPod!.replace('x', '×');
  const stop = step.state === 'Stopped' ? abortOf(release) : undefined;
  const texts: Record<Drawn['state'], (string | false | undefined)[]> = {
    Current: [took ? `pods took ${took}` : visit?.enteredTime && `for ${between(visit.enteredTime, now)}`],
    Done: [took, by?.user],
    Next: [step.usual && `usually ${shortDuration(step.usual)}`, ending(step) && `then ${ending(step)}`, load && `each new pod gets ${load} the average load`],
    Stopped: [stop && `${stop.user} ${deed(stop)}`, stop?.reason && `“${stop.reason}”`],
    Unreached: ['not reached'],
    Back: [],
    End: [],
  };
  return <>{texts[step.state]?.filter(Boolean).join(' · ')}</>;
}

// Shares is the bar of traffic. Without a share of traffic it shows the pods of each version.
function Shares({ steps, revisions, from, to }: { steps: Drawn[]; revisions: Node[]; from: string; to: string }): JSX.Element | null {
  const at = steps.find(s => s.state === 'Current');
  if (at?.match) {
    return (
      <div class="shares">
        <p class="versions">
          <span class="update">
            <i aria-hidden="true" /> <b>{to || 'new'}</b> gets requests with {at.match}
          </span>
          <span class="stable">
            <i aria-hidden="true" /> <b>{from || 'stable'}</b> gets all other requests
          </span>
        </p>
      </div>
    );
  }
  const of = (revision: string) => revisions.filter(r => r.revision === revision);
  const share = of('update').find(r => r.traffic !== undefined)?.traffic;
  const pods = (revision: string) => of(revision).reduce((sum, r) => sum + (r.pods ?? r.ready ?? 0), 0);
  const all = revisions.reduce((sum, r) => sum + (r.pods ?? r.ready ?? 0), 0);
  const byTraffic = share !== undefined || steps.some(s => s.traffic !== undefined);
  if (!byTraffic && all === 0) return null;
  const part = byTraffic ? (share ?? 0) : Math.round((100 * pods('update')) / all);
  const unit = (n: number, revision: string) => (byTraffic ? `${n}%` : `${pods(revision)} of ${all} pods`);
  const ticks = steps.filter(s => s.step > 0 && s.state !== 'Back' && s.state !== 'End').map(s => ({ ...s, at: byTraffic ? s.traffic : podShare(s) }));
  return (
    <div class="shares">
      <p class="versions">
        <span class="update">
          <i aria-hidden="true" /> <b>{to || 'new'}</b> {unit(part, 'update')}
        </span>
        <span class="stable">
          <i aria-hidden="true" /> <b>{from || 'stable'}</b> {unit(100 - part, 'stable')}
        </span>
        <span class="dim small">{byTraffic ? 'of traffic' : ''}</span>
      </p>
      <div class="stack" style={{ '--part': `${part}%` }} aria-hidden="true">
        <i class="update" />
        <i class="stable" />
      </div>
      <div class="ticks" aria-hidden="true">
        {ticks
          .filter(t => t.at !== undefined)
          .map(t => (
            <i key={t.step} class={t.state.toLowerCase()} style={{ '--at': `${t.at}%` }}>
              {t.step}
            </i>
          ))}
      </div>
    </div>
  );
}

function podShare({ update, stable }: Drawn): number | undefined {
  return update >= 0 && update + stable > 0 ? Math.round((100 * update) / (update + stable)) : undefined;
}
