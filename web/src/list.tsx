// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import type { About } from './about';
import { ActionDialog } from './dialog';
import { Banner, LiveState, Version } from './frame';
import { Icon, Mark, mark } from './icons';
import { Namespace, OwnNamespaces, forget, remember, sortedNamespaces } from './namespaces';
import { Rows, saysAll, stateOf, type Line } from './rows';
import { isDestructive, isPrimary, leadingCause, stateWord, titleOf } from './severity';
import { announce, listAt, to, useDraw, useKeys, useNow, type Place } from './state';
import { useLive } from './stream';
import { between, change, count, plainly, sentence } from './text';
import type { Action, RolloutWhy } from './wire';

// explained is how many Rollouts are explained besides the rows on the screen.
const explained = 200;

// atWork selects the Rollouts that are not at rest, and those that cannot release.
const atWork = 'status.phase!=Healthy,status.phase!=Disabled';

const filters: [key: string, name: string, selector: string, nothing: ComponentChildren][] = [
  ['', 'Active', atWork, 'No release in progress.'],
  ['mine', 'Waiting for me', atWork, 'Nothing needs your approval.'],
  [
    'all',
    'All',
    '',
    <>
      No Rollouts yet. Create one: <code>kubectl weir init deployment/NAME</code>
    </>,
  ],
];

export function waitsForMe(line: Line): boolean {
  const { waitingFor, actions } = line.why ?? {};
  return waitingFor?.for === 'approval' && (actions ?? []).some(a => a.verb === 'promote' && canUse(a));
}

function canUse(action: Action): boolean {
  return action.possible && action.allowed && action.approvals?.you !== false;
}

// offered returns the action of the button of a row: the first one that is safe as a button of its own.
function offered(why?: RolloutWhy): Action | undefined {
  if (!why || !['Failing', 'Stalled', 'Aborted', 'Waiting'].includes(why.state)) return undefined;
  return why.actions?.find(a => canUse(a) && isPrimary(a));
}

// List is the list of Rollouts. A user who may not list all namespaces sees the remembered namespaces together.
export function List({ place, about }: { place: Place; about: About }): JSX.Element {
  const namespace = place.query.get('ns') ?? '';
  const shown = place.query.get('show') ?? '';
  const typed = place.query.get('q') ?? '';
  // own are the remembered namespaces, once the server has refused to list all.
  const [own, setOwn] = useState<string[]>();
  const [, , selector, nothing] = filters.find(([key]) => key === shown) ?? filters[0]!;
  const draw = useDraw();
  const scope = namespace ? [namespace] : (own ?? []);
  const rows = useMemo(() => new Rows(scope, selector, draw), [scope.join(' '), selector]);
  const live = useLive(rows);
  const refused = live.state === 'refused' && live.code === 403;
  useEffect(() => {
    if (refused && !namespace && !own) setOwn(sortedNamespaces());
  }, [refused, namespace]);
  useEffect(() => {
    if (live.state === 'live' || live.state === 'polling') remember(namespace);
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
  const words = `${count(found.length, 'Rollout')}${rows.complete ? '' : `, reading ${rows.lines.size} of ${rows.total || '…'}`}`;
  useEffect(() => {
    if (rows.complete) announce(words);
  }, [words, rows.complete]);
  const add = (added: string) => {
    remember(added);
    setOwn(sortedNamespaces());
  };

  return (
    <>
      <header class="top list">
        <h1 tabIndex={-1}>Rollouts</h1>
        {!(own && !namespace) && <Namespace label="Namespace" hint="all namespaces" value={namespace} set={ns => go({ ns })} />}
        <input
          class="filter"
          type="search"
          aria-label="Filter by name or text"
          placeholder="Filter"
          title="Key: /"
          value={typed}
          onInput={event => go({ q: event.currentTarget.value })}
        />
        <nav aria-label="Filters">
          {filters.map(([key, name]) => (
            <a key={key} href={listAt({ ns: namespace, show: key, q: typed })} aria-current={key === shown ? 'page' : undefined}>
              {`${name} `}
              {key === 'mine' && mine ? <b class="badge">{mine}</b> : key === shown && key !== 'mine' && !refused ? <b class="badge">{rows.total}</b> : null}
            </a>
          ))}
        </nav>
      </header>
      <main>
        {own && !namespace ? (
          <OwnNamespaces own={own} at={ns => listAt({ ns })} unreadable={refused ? own : rows.unreadable} add={add} remove={gone => { forget(gone); setOwn(sortedNamespaces()); }} />
        ) : null}
        {!(own && !namespace && refused) && <Banner live={live} />}
        {!(refused || (own && own.length === 0 && !namespace)) && <Window rows={rows} lines={found} />}
        {rows.complete && found.length === 0 && (
          <p class="empty">
            <Icon name="check" tone="good" /> {typed ? `No Rollout contains “${typed}”.` : nothing}{' '}
            {shown !== 'all' && <a href={listAt({ ns: namespace, show: 'all' })}>See all Rollouts</a>}
          </p>
        )}
      </main>
      <footer class="foot">
        {/* A refused list has no number, and nothing is being read. */}
        <span>{refused ? '' : words}</span>
        <Version about={about} />
        {!(own && !namespace && refused) && <LiveState live={live} />}
      </footer>
    </>
  );
}

// Window draws the rows on the screen, and some around them.
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
  useEffect(() => seen.forEach(line => rows.explain(line)));
  return (
    <>
      {lines.length > 0 && (
        <div class="heads" aria-hidden="true">
          <span />
          <span>Rollout</span>
          <div class="measures">
            {measured.map(([name, title]) => (
              <div key={name} class={name.toLowerCase()}>
                {title}
              </div>
            ))}
            <div class="since">Since</div>
          </div>
          <span />
        </div>
      )}
      <ul class="rows" ref={list} style={{ height: `${lines.length * at.height}px` }} aria-label="Rollouts">
        {seen.map((line, i) => (
          <li
            key={line.key}
            data-at={first + i}
            aria-setsize={lines.length}
            aria-posinset={first + i + 1}
            class={`edge-${mark(stateOf(line))[1]} ${first + i === selected ? 'selected' : ''}`}
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

// measured are the columns of the server's table that a row shows, with their headings.
const measured = [
  ['STEP', 'Step'],
  ['NEW', 'New pods'],
  ['TRAFFIC', 'Traffic'],
  ['BY', 'By'],
] as const;

// textOf returns what a row says: the cause of a problem, or else what the release waits for.
function textOf(line: Line, now: number): { text: string; fix: string } {
  const { why, cells } = line;
  if (saysAll(line)) return { text: stateOf(line) === 'AtRest' ? 'No release in progress.' : (cells['MESSAGE'] ?? ''), fix: '' };
  const cause = leadingCause(why);
  if (cause) return { text: sentence(plainly(cause.message, now)), fix: cause.advice ?? '' };
  const waits = cells['WAITING-FOR'] === 'nothing' ? '' : cells['WAITING-FOR'];
  return { text: why ? plainly(why.summary, now) : (waits ?? cells['MESSAGE'] ?? ''), fix: '' };
}

function RowOf({ line, now, act }: { line: Line; now: number; act: (action: Action) => void }): JSX.Element {
  const { cells, why, meta } = line;
  const [from, next] = change(why?.release ?? {});
  const state = stateOf(line);
  const action = offered(why);
  const { text, fix } = textOf(line, now);
  const since = why?.waitingFor?.since ? between(why.waitingFor.since, now) : cells['SINCE'];
  return (
    <>
      <span class={`state ${mark(state)[1]}`}>
        <Mark of={state} /> {stateWord(state)}
      </span>
      <div class="what">
        <p class="title">
          <a href={to(meta.namespace!, meta.name!)}>{meta.name}</a> <span class="dim">{meta.namespace}</span>
          {next ? (
            <span class="images">
              {from} → <b>{next}</b>
            </span>
          ) : (
            (cells['VERSIONS'] ?? line.version) && <span class="images">{cells['VERSIONS'] ?? line.version}</span>
          )}
        </p>
        <p class="cause">
          {text}
          {fix && (
            <span class="advice">
              {' '}
              <b>Fix:</b> {sentence(fix)}
            </span>
          )}
        </p>
      </div>
      <dl class="measures">
        {measured
          .filter(([name]) => cells[name])
          .map(([name, title]) => (
            <div key={name} class={name.toLowerCase()}>
              <dt class="unseen">{title}</dt>
              <dd>{cells[name]}</dd>
            </div>
          ))}
        {since && (
          <div class="since">
            <dt class="unseen">Since</dt>
            <dd>{since}</dd>
          </div>
        )}
      </dl>
      {action ? (
        <button
          type="button"
          class={isDestructive(action) ? 'danger' : 'quiet'}
          onClick={() => act(action)}
          aria-label={`${titleOf(action)} of ${meta.name}…`}
        >
          {titleOf(action)}…
        </button>
      ) : (
        <span />
      )}
    </>
  );
}
