// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { Refused, isAborted, say } from './api';
import { overridden, readAudit, toCSV, type Audit, type Decided } from './audit';
import type { About } from './about';
import { Banner, Version } from './frame';
import { Icon } from './icons';
import { Namespace, OwnNamespaces, forget, remember, sortedNamespaces } from './namespaces';
import { announce, decisionsAt, listAt, to, type Place } from './state';
import { count } from './text';

// periods are the choices of the page, in hours. The last one has no limit.
const periods: [key: string, name: string, hours: number][] = [
  ['1h', 'Last hour', 1],
  ['24h', 'Last 24 hours', 24],
  ['7d', 'Last 7 days', 7 * 24],
  ['30d', 'Last 30 days', 30 * 24],
  ['all', 'All on record', Infinity],
];

const preset = '24h';

// shownRows is how many decisions the page shows. The file has all.
const shownRows = 500;

const moments = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

// Decisions lists who decided what about the Rollouts of a cluster, newest first, as kubectl weir history -A does.
export function Decisions({ place, about }: { place: Place; about: About }): JSX.Element {
  const namespace = place.query.get('ns') ?? '';
  const [since, , hours] = periods.find(([key]) => key === place.query.get('since')) ?? periods.find(([key]) => key === preset)!;
  // own are the remembered namespaces, once the server has refused to list all.
  const [own, setOwn] = useState<string[]>();
  const [audit, set] = useState<Audit>();
  const [readAt, setReadAt] = useState(0);
  const [objects, progress] = useState(0);
  const [failed, fail] = useState<unknown>();
  const [round, again] = useState(0);
  const scope = namespace ? [namespace] : (own ?? []);
  const waitsForNamespace = !namespace && own?.length === 0;
  useEffect(() => {
    const reading = new AbortController();
    set(undefined);
    fail(undefined);
    progress(0);
    if (!waitsForNamespace)
      readAudit(scope, reading.signal, progress).then(
        found => {
          set(found);
          setReadAt(Date.now());
          remember(namespace);
        },
        (err: unknown) => {
          if (isAborted(err)) return;
          if (err instanceof Refused && err.code === 403 && !namespace && !own) setOwn(sortedNamespaces());
          else fail(err);
        },
      );
    return () => reading.abort();
  }, [scope.join(' '), waitsForNamespace, round]);

  const go = (query: Record<string, string>) => {
    location.hash = decisionsAt({ ns: namespace, since: since === preset ? '' : since, ...query });
  };
  const found = audit?.decisions.filter(d => Date.parse(d.time) >= readAt - hours * 3_600_000) ?? [];
  const words = audit ? count(found.length, 'decision') : waitsForNamespace || failed ? '' : `reading, ${count(objects, 'object')} so far`;
  useEffect(() => {
    if (audit) announce(words);
  }, [words, audit]);
  return (
    <>
      <header class="top list">
        <a class="back" href={listAt({ ns: namespace })} aria-label="Back to the Rollouts">
          <Icon name="back" />
        </a>
        <h1 tabIndex={-1}>Decisions</h1>
        {!(own && !namespace) && <Namespace label="Namespace" hint="all namespaces" value={namespace} set={ns => go({ ns })} />}
        <label>
          <span class="unseen">Period</span>
          <select value={since} onChange={event => go({ since: event.currentTarget.value })}>
            {periods.map(([key, name]) => (
              <option key={key} value={key}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => again(round + 1)}>
          Read again
        </button>
        <Download decisions={found} since={since} namespace={namespace} />
      </header>
      <main>
        {own && !namespace && (
          <OwnNamespaces
            own={own}
            at={ns => decisionsAt({ ns, since: since === preset ? '' : since })}
            unreadable={audit?.unreadable ?? (failed ? own : [])}
            add={added => {
              remember(added);
              setOwn(sortedNamespaces());
            }}
            remove={gone => {
              forget(gone);
              setOwn(sortedNamespaces());
            }}
          />
        )}
        {failed !== undefined && <Banner live={{ state: 'refused', error: say(failed) }} />}
        {audit && audit.partial.length > 0 && (
          <p class="note wait">
            Decisions of completed releases in {audit.partial.join(', ')} are missing: you need permission to list rollouthistories.
          </p>
        )}
        {found.length > 0 && <DecisionTable decisions={found} showsNamespace={!namespace} />}
        {audit && found.length === 0 && (
          <p class="empty">
            No decisions found. {since !== 'all' && <a href={decisionsAt({ ns: namespace, since: 'all' })}>See all on record</a>}
          </p>
        )}
      </main>
      <footer class="foot">
        <span>{words}</span>
        <Version about={about} />
      </footer>
    </>
  );
}

// Download saves decisions as a file, in the format and the order of kubectl weir history -o csv.
function Download({ decisions, since, namespace }: { decisions: Decided[]; since: string; namespace: string }): JSX.Element {
  const save = () => {
    const address = URL.createObjectURL(new Blob([toCSV(decisions)], { type: 'text/csv' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = ['decisions', namespace, since].filter(Boolean).join('-') + '.csv';
    link.click();
    URL.revokeObjectURL(address);
  };
  return (
    <button type="button" disabled={decisions.length === 0} onClick={save}>
      Download CSV
    </button>
  );
}

// DecisionTable is a table with one row for each decision. On a phone each row is a card; the roles keep its meaning there.
function DecisionTable({ decisions, showsNamespace }: { decisions: Decided[]; showsNamespace: boolean }): JSX.Element {
  const rows = decisions.slice(-shownRows).reverse();
  const heads = ['Time', ...(showsNamespace ? ['Namespace'] : []), 'Rollout', 'Release', 'User', 'Decision', 'Step', 'Full', 'Overrode', 'Reason', 'Outcome'];
  return (
    <>
      <table class="audit" role="table" aria-label="Decisions">
        <thead role="rowgroup">
          <tr role="row">
            {heads.map(head => (
              <th key={head} role="columnheader">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map(d => (
            <tr key={`${d.namespace}/${d.rollout}/${d.id}/${d.time}`} role="row">
              <td role="cell" class="time">
                <time dateTime={d.time} title={d.time}>
                  {moments.format(new Date(d.time))}
                </time>
              </td>
              {showsNamespace && (
                <td role="cell" class="dim">
                  {d.namespace}
                </td>
              )}
              <td role="cell">
                <a href={to(d.namespace, d.rollout)}>{d.rollout}</a>
              </td>
              <td role="cell" class="dim" data-label="release" title={d.version}>
                {d.release || ''}
              </td>
              <td role="cell">{d.via === 'analysis' ? 'Checks' : <b>{d.user}</b>}</td>
              <td role="cell">{d.verb}</td>
              <td role="cell" data-label="step">{[d.step, d.toStep].filter(Boolean).join(' → ')}</td>
              <td role="cell">{d.full ? <span class="tag">full</span> : ''}</td>
              <td role="cell" data-label="overrode">{overridden(d) && <span class="tag bad">{overridden(d)}</span>}</td>
              <td role="cell" class="reason">
                {d.reason ?? ''}
              </td>
              <td role="cell" class="dim">
                {d.outcome ?? ''}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {decisions.length > rows.length && (
        <p class="dim small">
          These are the latest {count(rows.length, 'decision')} of {decisions.length.toLocaleString()}. The file has all.
        </p>
      )}
    </>
  );
}
