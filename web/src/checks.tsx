// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import { Chart, seriesOf } from './chart';
import { Mark, Note } from './icons';
import { between, share } from './text';
import type { AnalysisStatus, CheckStatus, RequestCount } from './wire';

type Judged = { analysis: AnalysisStatus | undefined; namespace: string; name: string; now: number };

// Checks shows the results of the checks so far.
export function Checks({ analysis, namespace, name, now }: Judged): JSX.Element | null {
  if (!analysis?.checks?.length) return null;
  return (
    <section aria-labelledby="checks">
      <h2 id="checks">
        Checks{' '}
        {analysis.step ? (
          <span class="dim">
            of step {analysis.step}, for {between(analysis.stepSince, now)}
          </span>
        ) : null}
      </h2>
      {analysis.overridden && <Note of="Warning">A user has overridden the checks. Failed checks no longer stop this release.</Note>}
      <ul class="checks">
        {analysis.checks.map(check => (
          <Check
            key={check.name}
            check={check}
            chart={<Chart series={seriesOf(`${namespace}/${name}/${check.name}`)} names={['new', 'stable']} label="Bad requests" unit="%" now={now} />}
          />
        ))}
      </ul>
    </section>
  );
}

function Check({ check, chart }: { check: CheckStatus; chart: JSX.Element }): JSX.Element {
  return (
    <li class={`check-${check.result}`}>
      <p>
        <Mark of={check.result} /> <b>{check.name}</b> {check.result.toLowerCase()}
      </p>
      {check.why && <p>{check.why}</p>}
      {(check.new ?? check.old) && (
        <>
          <dl>
            {numbers('new', check.new)}
            {numbers('stable', check.old)}
          </dl>
          {chart}
        </>
      )}
    </li>
  );
}

function numbers(of: string, n?: RequestCount): JSX.Element | null {
  return n ? (
    <div>
      <dt>{of}</dt>
      <dd>
        <b>{share(n.bad, n.total)}</b> bad: {n.bad.toLocaleString()} of {n.total.toLocaleString()}
      </dd>
    </div>
  ) : null;
}
