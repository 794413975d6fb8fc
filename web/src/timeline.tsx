// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import { ending } from './dialog';
import { Mark } from './icons';
import { between, go } from './text';
import type { PastRelease, PlannedStep, RolloutWhy } from './wire';

type Course = { release: PastRelease | undefined; why: RolloutWhy | undefined; now: number };

// Timeline is the plan of a release, and how far it has come.
export function Timeline({ steps, release, why, now }: Course & { steps: PlannedStep[] }): JSX.Element {
  return (
    <section aria-labelledby="steps">
      <h2 id="steps">Steps</h2>
      <ol class="timeline">
        {steps.map(step => (
          <li key={step.step} class={step.state.toLowerCase()} aria-current={step.state === 'Current' ? 'step' : undefined}>
            <Mark of={step.state} />
            <div>
              <b>{step.step}</b> <span class="unseen">{step.state}</span>
              {step.traffic !== undefined && <span class="share">{step.traffic} %</span>}
              <p>
                {step.update} of {step.update + step.stable} pods
              </p>
              <p class="dim small">
                <Told step={step} release={release} why={why} now={now} />
              </p>
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Told({ step, release, why, now }: Course & { step: PlannedStep }): JSX.Element {
  const visit = release?.steps?.findLast(s => s.step === step.step);
  const took = visit?.upgradedTime ? between(visit.enteredTime, visit.upgradedTime) : '';
  const by = (release?.decisions ?? []).filter(d => d.step === step.step && d.outcome !== 'rejected').at(-1);
  const { what, since } = why?.waitingFor ?? {};
  const load = step.perPod !== '1.0x' && step.perPod?.replace('x', '×');
  const told: Record<string, (string | false | undefined)[]> = {
    Current: [took && `pods in ${took}`, what && `waits for ${what}`, since && `for ${between(since, now)}`],
    Done: [took, by?.user],
    Next: [step.usual && `usually ${go(step.usual)}`, ending(step) && `then ${ending(step)}`, load && `${load} load per new pod`],
  };
  return <>{(told[step.state] ?? told['Next']!).filter(Boolean).join(' · ')}</>;
}
