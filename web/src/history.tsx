// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { get, rollout } from './api';
import { Banner } from './frame';
import { Icon, Mark } from './icons';
import { page, to, useAsked } from './state';
import { between, change, count, moment } from './text';
import type { Change, Decision, PastRelease, RolloutReleases } from './wire';

export function Decisions({ decisions, now }: { decisions: Decision[]; now: number }): JSX.Element | null {
  if (decisions.length === 0) return null;
  return (
    <section aria-labelledby="decisions">
      <h2 id="decisions">Decisions</h2>
      <Decided decisions={decisions} now={now} />
    </section>
  );
}

// How many decisions of a release are shown.
const shown = 50;

function Decided({ decisions, now }: { decisions: Decision[]; now: number }): JSX.Element {
  return (
    <ul class="decisions">
      {decisions.slice(-shown).reverse().map(d => (
        <li key={d.id}>
          <time dateTime={d.time}>{moment(d.time, now)}</time>
          <b>{d.user}</b>{' '}
          <span>
            {d.verb}
            {d.step ? ` ${d.step}` : ''}
          </span>
          {d.reason && <q>{d.reason}</q>}
          {d.overrode?.length ? <span class="tag bad">overrode {overridden(d)}</span> : null}
          {d.outcome && d.outcome !== 'applied' ? <span class="tag">{d.outcome}</span> : null}
          <span class="dim small">{[d.via !== 'verb' && `by ${d.via}`, d.userAgent?.split(/[ /]/)[0]].filter(Boolean).join(', ')}</span>
        </li>
      ))}
      {decisions.length > shown && <li class="dim small">and {decisions.length - shown} before these</li>}
    </ul>
  );
}

// overridden names the checks that a decision overrode, with their results.
function overridden({ overrode, overriddenChecks }: Decision): string {
  const names = overriddenChecks?.map(c => `${c.name} (${c.result?.toLowerCase() ?? 'not measured'}, step ${c.step})`);
  return (names?.length ? names : (overrode ?? [])).join(', ');
}

export function History({ releases, namespace, name, now }: { releases: PastRelease[]; namespace: string; name: string; now: number }): JSX.Element {
  const [from, setFrom] = useState('');
  const numbers = releases.map(r => r.number).filter(n => n !== undefined);
  const [newest, before] = numbers;
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      {releases.length === 0 && <p class="dim">There was no release yet.</p>}
      <ul class="history">
        {releases.map(r => (
          <li key={r.number}>
            <Past release={r} now={now} />
          </li>
        ))}
      </ul>
      {newest !== undefined && before !== undefined && !page.within && (
        <p class="compare">
          <label>
            Compare{' '}
            <select value={from || String(before)} onChange={event => setFrom(event.currentTarget.value)}>
              {numbers.slice(1).map(n => (
                <option key={n} value={n}>
                  {n}
                </option>
              ))}
            </select>
          </label>
          <a href={to(namespace, name, 'compare', from || before, newest)}>with {newest}</a>
        </p>
      )}
    </section>
  );
}

function Past({ release: r, now }: { release: PastRelease; now: number }): JSX.Element {
  const [from, next] = change(r);
  const [open, toggle] = useState(false);
  return (
    <details onToggle={event => toggle(event.currentTarget.open)}>
      <summary>
        <Mark of={r.endTime ? (r.outcome ?? '') : 'Current'} /> <b>{r.number}</b> {from} → {next} <span>{r.outcome ?? (r.endTime ? '' : 'under way')}</span>
        <span class="dim">
          {r.startTime && moment(r.startTime, now)} {r.startTime && `took ${between(r.startTime, r.endTime ?? now)}`}
        </span>
      </summary>
      {open && <Changes changes={r.changes ?? []} more={r.moreChanges ?? 0} />}
      {open && (r.steps ?? []).length > 0 && (
        <p class="dim small">{r.steps!.map(s => `step ${s.step}${s.leftTime && s.enteredTime ? ` ${between(s.enteredTime, s.leftTime)}` : ''}`).join(' · ')}</p>
      )}
      {open && <Decided decisions={r.decisions ?? []} now={now} />}
    </details>
  );
}

export function Changes({ changes, more = 0 }: { changes: Change[]; more?: number }): JSX.Element {
  if (changes.length === 0) return <p class="dim small">No change of the template is on record.</p>;
  return (
    <dl class="changes">
      {changes.map(c => (
        <div key={c.path}>
          <dt>{c.path.replace(/^spec\./, '')}</dt>
          <dd>
            {c.from !== undefined && <del>{c.from}</del>} {c.to !== undefined && <ins>{c.to}</ins>}
          </dd>
        </div>
      ))}
      {more > 0 && (
        <div>
          <dt>and</dt>
          <dd>{count(more, 'more change')}</dd>
        </div>
      )}
    </dl>
  );
}

// Compare shows how the templates of two releases differ, as the server gives them to
// restore each.
export function Compare({ namespace, name, from, next }: { namespace: string; name: string; from: string; next: string }): JSX.Element {
  const [changes, set] = useState<Change[]>();
  const [error, fail] = useState('');
  const template = async (release: string, signal: AbortSignal) => {
    const all = await get<RolloutReleases>(`${rollout(namespace, name)}/history`, { query: { release }, signal });
    const found = all.releases?.find(r => String(r.number) === release)?.restore;
    if (!found) throw new Error(`The template of release ${release} is no longer there.`);
    return flat(found);
  };
  useAsked(
    async signal => {
      const [a, b] = await Promise.all([template(from, signal), template(next, signal)]);
      set(differ(a, b));
    },
    fail,
    [namespace, name, from, next],
  );
  return (
    <>
      <header class="top">
        <a class="back" href={to(namespace, name)} aria-label={`Back to ${name}`}>
          <Icon name="back" />
        </a>
        <h1 tabIndex={-1}>
          <span class="dim">
            {namespace} / {name}:{' '}
          </span>
          release {from} and {next}
        </h1>
      </header>
      <main>
        {error && <Banner live={{ state: 'refused', error }} />}
        {!error && !changes && <p class="empty">Reading…</p>}
        {changes && (changes.length === 0 ? <p class="empty">Both have the same template.</p> : <Changes changes={changes} />)}
      </main>
    </>
  );
}

// flat gives each value of an object a path; items of lists go by their names.
function flat(value: unknown, path = '', into = new Map<string, string>()): Map<string, string> {
  if (Array.isArray(value)) {
    value.forEach((item, i) => flat(item, `${path}[${(item as { name?: string } | null)?.name ?? i}]`, into));
  } else if (value !== null && typeof value === 'object') {
    for (const [key, inner] of Object.entries(value)) flat(inner, path ? `${path}.${key}` : key, into);
  } else {
    into.set(path, JSON.stringify(value));
  }
  return into;
}

function differ(a: Map<string, string>, b: Map<string, string>): Change[] {
  const paths = [...new Set([...a.keys(), ...b.keys()])].sort();
  return paths.filter(path => a.get(path) !== b.get(path)).map(path => ({ path: path.replace(/^spec\.template\./, ''), from: a.get(path), to: b.get(path) }));
}
