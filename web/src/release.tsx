// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { Actions, lettered } from './actions';
import { Checks } from './checks';
import { Decisions, History } from './history';
import { ActionDialog, Found } from './dialog';
import { Banner, LiveState } from './frame';
import { Icon, Mark } from './icons';
import { Chart, seriesOf } from './chart';
import { Network, Revisions, readyOf } from './pods';
import { announce, page, useKeys, useNow, type Keys } from './state';
import { useLive } from './stream';
import { Timeline } from './timeline';
import { between, change, moment, plainly, words } from './text';
import { Release } from './watched';
import type { Action, Cause, RolloutWhy } from './wire';

export function ReleasePage({ namespace, name, uid }: { namespace: string; name: string; uid?: string }): JSX.Element {
  const [, draw] = useState(0);
  const [acting, act] = useState<Action>();
  const now = useNow();
  const release = useMemo(() => new Release(namespace, name, () => draw(n => n + 1), uid), [namespace, name]);
  const live = useLive(release);

  const { tree, plan, releases, analysis } = release;
  const why = tree?.why;
  const current = why?.release?.number ? releases?.find(r => r.number === why.release!.number) : releases?.[0];
  const refused = live.state === 'refused';
  const drawn = refused ? [] : (why?.actions ?? []).filter(a => a.allowed);
  const keys = lettered(why?.actions ?? []);
  const bound: Keys = {
    Escape: () => location.assign('#/'),
  };
  for (const action of drawn) if (action.possible) bound[keys.get(action)!] = () => act(action);
  useKeys(bound);
  const at = why && `${why.state} ${why.release?.number} ${why.waitingFor?.for} ${plan?.status?.steps?.find(s => s.state === 'Current')?.step}`;
  useEffect(() => {
    if (why) announce(plainly(why.summary, now));
  }, [at]);
  const [from, next] = change(why?.release ?? {});
  const Main = page.within ? 'div' : 'main';
  return (
    <>
      <header class="top">
        {!page.within && (
          <a class="back" href="#/" aria-label="Back to the list">
            <Icon name="back" />
          </a>
        )}
        <h1 tabIndex={-1}>
          <span class="dim">{namespace} / </span>
          {name}
        </h1>
        {next && (
          <p class="images">
            {from} → <b>{next}</b>
          </p>
        )}
        {why?.release?.number && <p class="dim">release {why.release.number}</p>}
        <LiveState live={live} />
      </header>
      <Main class="release">
        <Banner live={live} />
        {!why && live.state === 'connecting' && <p class="empty">Reading…</p>}
        {why && (
          <section class={`summary state-${why.state}`} aria-label="State">
            <p class="say">
              <Mark of={why.state} /> <b>{words(why.state)}</b> <span>{plainly(why.summary, now)}</span>
            </p>
            <Waits why={why} now={now} />
            {(why.causes ?? []).map(cause => (
              <CauseOf key={cause.message} cause={cause} />
            ))}
            <Actions actions={drawn} waits={why.state === 'Waiting'} keys={keys} act={act} />
          </section>
        )}
        {plan?.status?.steps && <Timeline steps={plan.status.steps} release={current} why={why} now={now} />}
        {!plan && release.planless && <p class="dim small">The steps are not shown: {release.planless}</p>}
        {(plan?.status?.findings ?? []).map(f => (
          <Found key={`${f.code}${f.step}${f.message}`} finding={f} />
        ))}
        {tree && <Revisions tree={tree} release={why?.release} namespace={namespace} series={seriesOf(`${namespace}/${name}`)} now={now} />}
        {tree && <Network tree={tree} />}
        {tree && (
          <Chart
            series={seriesOf(`${namespace}/${name}`)}
            names={['new', 'stable']}
            label="Ready pods"
            now={now}
            least={readyOf(tree).reduce<number>((a, b) => a + (b ?? 0), 0)}
          />
        )}
        <Checks analysis={analysis} namespace={namespace} name={name} now={now} />
        {current && <Decisions decisions={current.decisions ?? []} now={now} />}
        {releases && <History releases={releases} namespace={namespace} name={name} now={now} />}
      </Main>
      {acting && <ActionDialog namespace={namespace} name={name} action={acting} current={why} close={() => act(undefined)} />}
    </>
  );
}

function Waits({ why, now }: { why: RolloutWhy; now: number }): JSX.Element | null {
  const { since, until, deadline, what } = why.waitingFor ?? {};
  const { generation = 0, seen = 0 } = why.workload ?? {};
  if (!since && !until && !deadline && !why.contact && seen >= generation) return null;
  return (
    <p class="waits dim">
      {since && <span title={what}>for {between(since, now)}</span>}
      {until && <span>until {moment(until, now)}</span>}
      {deadline && <span>deadline {moment(deadline, now)}</span>}
      {seen < generation && <span>Weir has not looked at the latest change yet</span>}
      {why.contact && <span>ask {why.contact}</span>}
    </p>
  );
}

function CauseOf({ cause }: { cause: Cause }): JSX.Element {
  return (
    <p class="note bad">
      <Icon name="warn" tone="bad" /> <b>{cause.about}</b> {cause.message}
      {cause.advice && <span class="advice"> {cause.advice}</span>}
      {(cause.objects ?? []).slice(0, 5).map(o => (
        <code key={`${o.kind}/${o.name}`}>
          {o.kind.toLowerCase()}/{o.name}
        </code>
      ))}
    </p>
  );
}
