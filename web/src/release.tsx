// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import type { About } from './about';
import { Actions, lettered } from './actions';
import { Checks } from './checks';
import { History } from './history';
import { ActionDialog, Fix, Found } from './dialog';
import { Banner, LiveState, Version } from './frame';
import { Icon, Mark } from './icons';
import { Chart, seriesOf } from './chart';
import { Network, Revisions, readyOf, revisionsOf } from './pods';
import { leadingCause, severity, shownState, stateWord, titleOf } from './severity';
import { actionKeys, announce, page, useKeys, useNow, type Keys } from './state';
import { useLive } from './stream';
import { Timeline } from './timeline';
import { between, change, includesText, moment, plainly, sentence } from './text';
import { Source } from './source';
import { UndoDialog, previous, restorable, type Earlier } from './undo';
import { Release } from './watched';
import type { Action, Cause, RolloutWhy } from './wire';

type Props = { namespace: string; name: string; uid?: string; about: About };

export function ReleasePage({ namespace, name, uid, about }: Props): JSX.Element {
  const [, draw] = useState(0);
  const [acting, act] = useState<Action>();
  const [undoing, undo] = useState<Earlier>();
  const now = useNow();
  const release = useMemo(() => new Release(namespace, name, () => draw(n => n + 1), uid), [namespace, name]);
  const live = useLive(release);

  const { tree, plan, releases, analysis } = release;
  const why = tree?.why;
  const current = why?.release?.number ? releases?.find(r => r.number === why.release!.number) : releases?.[0];
  const refused = live.state === 'refused';
  const allowed = refused ? [] : (why?.actions ?? []).filter(a => a.allowed);
  // The pages write the workload as the user. A user who may use rollback usually may, and the dialog checks it.
  const undoable = allowed.some(a => a.verb === 'rollback' && !a.possible) ? restorable(releases ?? [], why) : [];
  const back = previous(releases ?? [], undoable);
  const keys = lettered(why?.actions ?? []);
  const bound: Keys = {
    Escape: () => location.assign('#/'),
  };
  for (const action of allowed) if (action.possible) bound[keys.get(action)!] = () => act(action);
  useKeys(bound);
  useEffect(() => {
    actionKeys.clear();
    for (const action of allowed) if (action.possible) actionKeys.set(keys.get(action)!, titleOf(action));
    return () => actionKeys.clear();
  });
  const at = why && `${why.state} ${why.release?.number} ${why.waitingFor?.for} ${plan?.status?.steps?.find(s => s.state === 'Current')?.step}`;
  useEffect(() => {
    if (why) announce(spoken(why, now));
  }, [at]);
  const [from, next] = change(why?.release ?? {});
  const state = why && shownState(why, release.phase);
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
        {why?.release && <Source of={why.release} />}
        <LiveState live={live} />
      </header>
      <Main class="release">
        <Banner live={live} />
        {!why && live.state === 'connecting' && <p class="empty">Loading…</p>}
        {why && state && (
          <section class={`summary state-${state}`} aria-label="State">
            <Summary why={why} state={state} now={now} />
            <Actions actions={allowed} urgent={severity(state) <= severity('Waiting')} keys={keys} act={act} />
            {back && (
              <div class="actions rest" role="group" aria-label="What you can do">
                <button type="button" class="danger" onClick={() => undo(back)}>
                  Roll back to {back.version}…
                </button>
              </div>
            )}
          </section>
        )}
        {plan?.status?.steps && <Timeline planned={plan.status.steps} spec={release.steps} revisions={tree ? revisionsOf(tree) : []} release={current} why={why} now={now} />}
        {!plan && release.planless && <p class="dim small">Steps unavailable: {release.planless}</p>}
        {(plan?.status?.findings ?? []).map(f => (
          <Found key={`${f.code}${f.step}${f.message}`} finding={f} />
        ))}
        {tree && (
          <Revisions tree={tree} release={why?.release} said={textsOf(why)} namespace={namespace} series={seriesOf(`${namespace}/${name}`)} now={now} />
        )}
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
        {releases && <History releases={releases} why={why} namespace={namespace} name={name} now={now} undo={undoable.length > 0 ? undo : undefined} />}
      </Main>
      {!page.within && about.version && (
        <footer class="end">
          <Version about={about} />
        </footer>
      )}
      {acting && <ActionDialog namespace={namespace} name={name} action={acting} current={why} close={() => act(undefined)} />}
      {undoing && <UndoDialog namespace={namespace} name={name} to={undoing} current={why} close={() => undo(undefined)} />}
    </>
  );
}

// textsOf returns the texts that the summary shows.
function textsOf(why?: RolloutWhy): string[] {
  return [why?.summary ?? '', ...(why?.causes ?? []).map(c => c.message)];
}

// spoken is what a screen reader says about the state.
function spoken(why: RolloutWhy, now: number): string {
  return plainly(leadingCause(why)?.message ?? why.summary, now);
}

// Summary says what the release does or why it does not continue. A problem begins with its cause, and the other
// texts are left out as far as they repeat it.
function Summary({ why, state, now }: { why: RolloutWhy; state: string; now: number }): JSX.Element {
  const cause = leadingCause(why);
  const summary = plainly(why.summary, now);
  const said = cause ? [cause.message] : [summary];
  // A cause repeats the summary if the summary contains it.
  const others = (why.causes ?? []).filter(c => c !== cause).filter(c => !includesText([...said, summary], c.message));
  return (
    <>
      <p class="say">
        <Mark of={state} /> {!summary.startsWith(stateWord(state)) || cause ? <b>{stateWord(state)}</b> : null} <span>{cause ? sentence(plainly(cause.message, now)) : summary}</span>
      </p>
      {cause && (
        <p class="help">
          <Fix text={cause.advice} />
          <Objects of={cause} />
        </p>
      )}
      {cause && !includesText([summary], cause.message) && <p class="dim">{summary}</p>}
      <Waits why={why} now={now} />
      {others.map(other => (
        <CauseOf key={other.message} cause={other} now={now} />
      ))}
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
      {seen < generation && <span>Processing the latest change…</span>}
      {why.contact && <span>contact {why.contact}</span>}
    </p>
  );
}

function CauseOf({ cause, now }: { cause: Cause; now: number }): JSX.Element {
  return (
    <p class="note bad">
      <Icon name="warn" tone="bad" /> {sentence(plainly(cause.message, now))}
      <Fix text={cause.advice} />
      <Objects of={cause} />
    </p>
  );
}

function Objects({ of }: { of: Cause }): JSX.Element {
  return (
    <>
      {(of.objects ?? []).slice(0, 5).map(o => (
        <code key={`${o.kind}/${o.name}`}>
          {o.kind} {o.name}
        </code>
      ))}
    </>
  );
}
