// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { ActionDialog } from './dialog';
import { Icon, Mark, mark } from './icons';
import { Rows, type Line } from './rows';
import { announce, kept, listAt, to, useDraw, useKeys, useNow, type Place } from './state';
import { useLive } from './stream';
import { between, change, count, plainly } from './text';
import type { Action } from './wire';
import { Banner, LiveState } from './frame';

// How many reasons are asked for besides those of the rows that are seen.
const explained = 200;

const filters = [
  ['', 'active', 'status.phase=Progressing', 'No release is under way.'],
  ['mine', 'waiting for me', 'status.phase=Progressing', 'Nothing waits for you.'],
  ['all', 'all', '', 'There is no Rollout yet.'],
] as const;

export function waitsForMe(line: Line): boolean {
  const { waitingFor, actions } = line.why ?? {};
  return waitingFor?.for === 'Approval' && offered(actions) !== undefined;
}

// offered is what a button of the row would do: the first thing that is possible, and that
// the one who looks may do.
function offered(actions?: Action[]): Action | undefined {
  return actions?.find(a => a.possible && a.allowed && a.approvals?.you !== false);
}

function remembered(): string[] {
  return kept.get('namespaces').split(' ').filter(Boolean);
}

function remember(namespace: string): void {
  if (namespace) kept.set('namespaces', [namespace, ...remembered().filter(n => n !== namespace)].slice(0, 20).join(' '));
}

export function List({ place }: { place: Place }): JSX.Element {
  const namespace = place.query.get('ns') ?? '';
  const shown = place.query.get('show') ?? '';
  const typed = place.query.get('q') ?? '';
  const [, , selector, nothing] = filters.find(([key]) => key === shown) ?? filters[0];
  const draw = useDraw();
  const rows = useMemo(() => new Rows(namespace, selector, draw), [namespace, selector]);
  const live = useLive(rows);
  useEffect(() => {
    if (live.state === 'live') remember(namespace);
  }, [live.state, namespace]);

  const go = (query: Record<string, string>) => {
    location.hash = listAt({ ns: namespace, show: shown, q: typed, ...query });
  };
  const needle = typed.toLowerCase();
  const found = rows.all.filter(
    line => (!needle || `${line.key} ${Object.values(line.cells).join(' ')}`.toLowerCase().includes(needle)) && (shown !== 'mine' || waitsForMe(line)),
  );
  if (shown !== 'all') rows.all.slice(0, explained).forEach(line => rows.explain(line));
  const mine = shown === 'all' ? undefined : rows.all.filter(waitsForMe).length;
  const words = `${count(found.length, 'Rollout')}${rows.complete ? '' : `, still reading: ${rows.lines.size} of ${rows.total || '…'}`}`;
  useEffect(() => {
    if (rows.complete) announce(words);
  }, [words, rows.complete]);

  return (
    <>
      <header class="top list">
        <h1 tabIndex={-1}>Weir</h1>
        <Namespace value={namespace} set={ns => go({ ns })} />
        <input
          class="filter"
          type="search"
          aria-label="Filter by name or text"
          placeholder="/ filter"
          value={typed}
          onInput={event => go({ q: event.currentTarget.value })}
        />
        <nav aria-label="Which Rollouts">
          {filters.map(([key, name]) => (
            <a key={key} href={listAt({ ns: namespace, show: key, q: typed })} aria-current={key === shown ? 'page' : undefined}>
              {`${name} `}
              {key === 'mine' && mine ? <b class="badge">{mine}</b> : key === shown && key !== 'mine' ? <b class="badge">{rows.total}</b> : null}
            </a>
          ))}
        </nav>
      </header>
      <main>
        <Banner live={live} />
        {live.state === 'refused' && !namespace ? (
          <p class="empty">
            You may not list the Rollouts of the whole cluster. Type a namespace above:{' '}
            {remembered().map(n => (
              <a key={n} href={listAt({ ns: n })}>
                {n}{' '}
              </a>
            ))}
          </p>
        ) : (
          <Window rows={rows} lines={found} />
        )}
        {rows.complete && found.length === 0 && (
          <p class="empty">
            <Icon name="check" tone="good" /> {typed ? `Nothing here has “${typed}” in it.` : nothing}{' '}
            {shown !== 'all' && <a href={listAt({ ns: namespace, show: 'all' })}>See all Rollouts</a>}
          </p>
        )}
      </main>
      <footer class="foot">
        <span>{words}</span>
        <LiveState live={live} />
      </footer>
    </>
  );
}

function Namespace({ value, set }: { value: string; set: (namespace: string) => void }): JSX.Element {
  return (
    <label class="namespace">
      <span class="unseen">Namespace</span>
      <input
        list="namespaces"
        placeholder="all namespaces"
        value={value}
        autocomplete="off"
        spellcheck={false}
        onChange={event => set(event.currentTarget.value.trim())}
      />
      <datalist id="namespaces">
        {remembered().map(n => (
          <option key={n} value={n} />
        ))}
      </datalist>
    </label>
  );
}

// Window draws the rows that are seen, and some around them.
function Window({ rows, lines }: { rows: Rows; lines: Line[] }): JSX.Element {
  const list = useRef<HTMLUListElement>(null);
  const [at, setAt] = useState({ top: 0, height: 72, screen: innerHeight });
  const [selected, select] = useState(-1);
  const [acting, act] = useState<{ line: Line; action: Action }>();
  const now = useNow();
  useLayoutEffect(() => {
    const measure = () => {
      const height = parseFloat(getComputedStyle(list.current!).getPropertyValue('--row')) || 72;
      setAt({ top: scrollY - list.current!.offsetTop, height, screen: innerHeight });
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure);
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, []);
  const move = (by: number) => {
    const next = Math.min(Math.max(selected + by, 0), lines.length - 1);
    if (next < 0) return;
    select(next);
    const top = list.current!.offsetTop + next * at.height;
    if (top < scrollY + 80 || top + at.height > scrollY + innerHeight - 60) scrollTo({ top: top - innerHeight / 3 });
  };
  useEffect(() => {
    list.current?.querySelector<HTMLElement>(`[data-at="${selected}"] a`)?.focus({ preventScroll: true });
  }, [selected, at.top]);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      const line = lines[Math.max(selected, 0)];
      if (line) location.hash = to(line.meta.namespace!, line.meta.name!);
    },
    '/': () => document.querySelector<HTMLElement>('.filter')?.focus(),
  });
  const first = Math.max(0, Math.floor(at.top / at.height) - 5);
  const last = Math.min(lines.length, first + Math.ceil(at.screen / at.height) + 10);
  const seen = lines.slice(first, last);
  useEffect(() =>
    seen.forEach(line => {
      if (mark(line.cells['STATUS'])[1] !== 'good') rows.explain(line);
    }),
  );
  return (
    <>
      <ul class="rows" ref={list} style={{ height: `${lines.length * at.height}px` }} aria-label="Rollouts">
        {seen.map((line, i) => (
          <li
            key={line.key}
            data-at={first + i}
            aria-setsize={lines.length}
            aria-posinset={first + i + 1}
            class={first + i === selected ? 'selected' : ''}
            style={{ transform: `translateY(${(first + i) * at.height}px)` }}
          >
            <RowOf line={line} now={now} act={action => act({ line, action })} />
          </li>
        ))}
      </ul>
      {acting && (
        <ActionDialog
          namespace={acting.line.meta.namespace!}
          name={acting.line.meta.name!}
          action={acting.action}
          current={rows.lines.get(acting.line.key)?.why}
          close={() => act(undefined)}
        />
      )}
    </>
  );
}

// The columns that the server's table has for wide screens, beside what is said in words.
const measured = ['STEP', 'NEW', 'TRAFFIC', 'BY'];

function RowOf({ line, now, act }: { line: Line; now: number; act: (action: Action) => void }): JSX.Element {
  const { cells, why, meta } = line;
  const [from, next] = change(why?.release ?? {});
  const action = why?.state === 'Waiting' ? offered(why.actions) : undefined;
  const text = (why && plainly(why.summary, now)) ?? cells['WAITING-FOR'] ?? cells['MESSAGE'] ?? '';
  const since = why?.waitingFor?.since ? between(why.waitingFor.since, now) : cells['SINCE'];
  return (
    <>
      <Mark of={why?.state ?? cells['STATUS'] ?? ''} />
      <div class="what">
        <a href={to(meta.namespace!, meta.name!)}>{meta.name}</a> <span class="dim">{meta.namespace}</span>
        {next && (
          <span class="images">
            {from} → <b>{next}</b>
          </span>
        )}
        <p>{text || cells['STATUS']}</p>
      </div>
      <dl>
        {measured
          .filter(name => cells[name])
          .map(name => (
            <div key={name} class={name.toLowerCase()}>
              <dt>{name.toLowerCase()}</dt>
              <dd>{cells[name]}</dd>
            </div>
          ))}
        {since && (
          <div class="since">
            <dt>since</dt>
            <dd>{since}</dd>
          </div>
        )}
      </dl>
      {action ? (
        <button type="button" class="main" onClick={() => act(action)} aria-label={`${action.title} of ${meta.name}…`}>
          {action.title}…
        </button>
      ) : (
        <span />
      )}
    </>
  );
}
