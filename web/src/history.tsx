// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { get, rollout } from './api';
import { overridden } from './audit';
import type { About } from './about';
import { Banner, Version } from './frame';
import { Icon, Mark } from './icons';
import { page, to, useAsked } from './state';
import { deed } from './severity';
import { Source } from './source';
import { between, change, count, initials, moment } from './text';
import { restorable, type Earlier } from './undo';
import type { Change, Decision, PastRelease, RolloutReleases, RolloutWhy } from './wire';

// shown is how many decisions of a release are shown.
const shown = 50;

// Decided lists the decisions of a release, newest first.
function Decided({ decisions, now }: { decisions: Decision[]; now: number }): JSX.Element | null {
  if (decisions.length === 0) return null;
  return (
    <ul class="decisions">
      {decisions.slice(-shown).reverse().map(d => (
        <li key={d.id}>
          <span class="avatar" aria-hidden="true">
            {d.via === 'analysis' ? '✓' : initials(d.user)}
          </span>
          <time dateTime={d.time}>{moment(d.time, now)}</time>
          <b>{d.via === 'analysis' ? 'Checks' : d.user}</b> <span>{deed(d)}</span>
          {d.reason && <q>{d.reason}</q>}
          {d.overrode?.length ? <span class="tag bad">overrode {overridden(d)}</span> : null}
          {d.outcome && d.outcome !== 'applied' ? <span class="tag">{d.outcome}</span> : null}
          <span class="dim small">{[d.via !== 'verb' && d.via !== 'analysis' && `by ${d.via}`, d.userAgent?.split(/[ /]/)[0]?.replace('Mozilla', 'browser')].filter(Boolean).join(', ')}</span>
        </li>
      ))}
      {decisions.length > shown && <li class="dim small">and {decisions.length - shown} before these</li>}
    </ul>
  );
}

interface Past {
  releases: PastRelease[];
  why: RolloutWhy | undefined;
  namespace: string;
  name: string;
  now: number;
  // undo opens the dialog that rolls back to a release; undefined if the user may not.
  undo: ((to: Earlier) => void) | undefined;
}

// History is one timeline of the releases and of the decisions about them, newest first.
export function History({ releases, why, namespace, name, now, undo }: Past): JSX.Element {
  const [from, setFrom] = useState('');
  const numbers = releases.map(r => r.number).filter(n => n !== undefined);
  const [newest, before] = numbers;
  const earlier = undo ? restorable(releases, why) : [];
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      {releases.length === 0 && <p class="dim">No release yet.</p>}
      <ol class="history">
        {releases.map((r, i) => {
          const back = earlier.filter(e => e.number === r.number);
          return (
            <li key={r.number}>
              <Entry release={r} latest={i === 0} now={now} />
              {back.map(to => (
                <button
                  key={to.revision}
                  type="button"
                  class="danger"
                  aria-label={`Roll back to ${to.version}, ${to.before ? 'before ' : ''}release ${to.number}…`}
                  onClick={() => undo!(to)}
                >
                  Roll back to {to.version}…
                </button>
              ))}
            </li>
          );
        })}
      </ol>
      {newest !== undefined && before !== undefined && !page.within && (
        <p class="compare">
          <label>
            Compare release{' '}
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

// Entry is one release. The decisions about the latest one are always shown, its changes only on demand.
function Entry({ release: r, latest, now }: { release: PastRelease; latest: boolean; now: number }): JSX.Element {
  const [from, next] = change(r);
  const [open, toggle] = useState(false);
  const decisions = <Decided decisions={r.decisions ?? []} now={now} />;
  const lasted = r.startTime && between(r.startTime, r.endTime ?? now);
  return (
    <div class="entry">
      <details onToggle={event => toggle(event.currentTarget.open)}>
        <summary>
          <Mark of={r.outcome ?? (r.endTime ? '' : 'Current')} /> <b>{r.number}</b> {from} → {next} <span>{r.outcome ?? (r.endTime ? '' : 'in progress')}</span>
          <span class="dim">
            {r.startTime && moment(r.startTime, now)} {lasted && (r.endTime ? `took ${lasted}` : `running for ${lasted}`)}
          </span>
        </summary>
        {open && <Source of={r} />}
        {open && <Changes changes={r.changes ?? []} more={r.moreChanges ?? 0} />}
        {open && (r.steps ?? []).length > 0 && (
          <p class="dim small">{r.steps!.map(s => `step ${s.step}${s.leftTime && s.enteredTime ? ` ${between(s.enteredTime, s.leftTime)}` : ''}`).join(' · ')}</p>
        )}
        {open && !latest && decisions}
      </details>
      {latest && decisions}
    </div>
  );
}

export function Changes({ changes, more = 0 }: { changes: Change[]; more?: number }): JSX.Element {
  if (changes.length === 0) return <p class="dim small">No change of the pod template on record.</p>;
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

// Compare shows how the templates of two releases differ. The templates are those of the patches that restore them.
export function Compare({ namespace, name, from, next, about }: { namespace: string; name: string; from: string; next: string; about: About }): JSX.Element {
  const [changes, set] = useState<Change[]>();
  const [error, fail] = useState('');
  const template = async (release: string, signal: AbortSignal) => {
    const all = await get<RolloutReleases>(`${rollout(namespace, name)}/history`, { query: { release }, signal });
    const found = all.releases?.find(r => String(r.number) === release)?.restore;
    if (!found) throw new Error(`The template of release ${release} is no longer on record.`);
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
          compare release {from} with {next}
        </h1>
      </header>
      <main>
        {error && <Banner live={{ state: 'refused', error }} />}
        {!error && !changes && <p class="empty">Loading…</p>}
        {changes && (changes.length === 0 ? <p class="empty">Both releases have the same pod template.</p> : <Changes changes={changes} />)}
      </main>
      <footer class="end">
        <Version about={about} />
      </footer>
    </>
  );
}

// flat returns each value of an object by its path. Items of lists are identified by their names.
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
