// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { Unreached, get, post, rollout, say, server } from './api';
import { Grid, Modal } from './frame';
import { Note } from './icons';
import { announce, useAsked } from './state';
import { count, go, moment } from './text';
import type { Action, Approvals, Decision, Finding, PlannedStep, RolloutPlan, RolloutReleases, RolloutWhy } from './wire';

interface Props {
  namespace: string;
  name: string;
  // action is what the button said when it was pressed: its body is what is sent.
  action: Action;
  // current is what the server says now.
  current: RolloutWhy | undefined;
  close: () => void;
}

// same reports whether two actions are one, whatever they expect.
export function same(a: Action, b: Action): boolean {
  return a.path === b.path && a.title.split(' ')[0] === b.title.split(' ')[0] && a.body?.['full'] === b.body?.['full'];
}

// moved reports whether the Rollout is elsewhere now than what the action was offered for.
function moved(action: Action, current?: RolloutWhy): boolean {
  const now = current?.actions?.find(a => same(a, action));
  if (!current?.actions) return false;
  return !now?.possible || JSON.stringify(now.body?.['expect']) !== JSON.stringify(action.body?.['expect']);
}

export function ActionDialog({ namespace, name, action, current, close }: Props): JSX.Element {
  const path = rollout(namespace, name);
  const [typed, type] = useState<Record<string, Typed>>({});
  const [plan, setPlan] = useState<RolloutPlan>();
  const [planless, without] = useState('Reading what will happen…');
  const [error, fail] = useState('');
  const [sending, send] = useState(false);
  const [closed, setClosed] = useState('');
  const request = useRef(crypto.randomUUID?.() ?? String(Math.random()).slice(2));
  const step = action.needs?.includes('step') ? Number(typed['step'] ?? 0) : undefined;
  // A jump past checks that have not passed needs an override and its reason.
  const past = !!action.overrideFrom && !!step && step >= action.overrideFrom;
  const needs = [...new Set([...(action.needs ?? []), ...(past ? ['reason', 'override'] : [])])];
  const forbidden = past && action.missing?.includes('rollouts/override');

  const foresee = async (signal: AbortSignal) => {
    if (step === 0) return;
    const full = action.body?.['full'] === true;
    const after = { verb: action.verb, ...(step && { step }), ...(full && { full }), ...(needs.includes('override') && { override: true }) };
    const [group, api] = server.pages.pathname.split('/').slice(-4);
    setPlan(await post<RolloutPlan>(`${path}/plan`, { apiVersion: `${group}/${api}`, kind: 'RolloutPlan', spec: { after } }, signal));
  };
  const unforeseen = (why: string) => {
    setPlan(undefined);
    without(`What will happen is not known: ${why}`);
  };
  useAsked(foresee, unforeseen, [step]);

  const late = moved(action, current);
  useEffect(() => {
    if (late && !sending) void who(path).then(setClosed);
  }, [late]);

  const missing = needs.filter(need => need !== 'override').filter(need => !typed[need]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (sending || closed || forbidden || missing.length > 0) return;
    send(true);
    fail('');
    try {
      const { override, ...fields } = typed;
      await once(action.path, { ...action.body, ...fields, ...(override && needs.includes('override') && { override }), requestID: request.current });
      announce(`${action.title}: done.`);
      close();
    } catch (err) {
      fail(say(err));
      if ('code' in (err as object) && (err as { code: number }).code === 409) setClosed(await who(path));
    }
    send(false);
  };

  return (
    <Modal title={`${action.title} of ${name}?`} close={close} asks>
      <form onSubmit={event => void submit(event)}>
        <p class="reason">{action.reason}</p>
        {plan ? <Expected plan={plan} /> : step !== 0 && <p class="dim small">{planless}</p>}
        {action.approvals && <Counted approvals={action.approvals} />}
        {needs.map(need => (
          <Need key={need} need={need} plan={plan} value={typed[need]} set={value => type({ ...typed, [need]: value })} />
        ))}
        {!needs.includes('reason') && <Need need="reason" optional plan={plan} value={typed['reason']} set={value => type({ ...typed, reason: value })} />}
        <div aria-live="assertive">
          {forbidden && (
            <Note of="Error">
              Checks before step {step} have not passed. You may not create rollouts/override in namespace {namespace}.
            </Note>
          )}
          {closed && <Note of="Warning">{closed}</Note>}
          {error && <Note of="Error">{error}</Note>}
        </div>
        <p class="buttons">
          <button type="button" onClick={close}>
            {closed ? 'Close' : 'Cancel'}
          </button>
          <button type="submit" class="main" disabled={sending || !!closed || forbidden || missing.length > 0}>
            {sending ? 'Sending…' : action.title}
          </button>
        </p>
      </form>
    </Modal>
  );
}

// once sends what may be sent twice: the server knows the request by its ID.
async function once(path: string, body: unknown): Promise<void> {
  const trimmed = path.replace(/^\//, '');
  try {
    await post(trimmed, body);
  } catch (err) {
    if (!(err instanceof Unreached)) throw err;
    await post(trimmed, body);
  }
}

// who says who has moved a Rollout.
async function who(path: string): Promise<string> {
  let last: Decision | undefined;
  try {
    const { releases } = await get<RolloutReleases>(`${path}/history`);
    last = releases?.[0]?.decisions?.at(-1);
  } catch {
    // That it has moved is known all the same.
  }
  const by = last
    ? `${last.user} used ${last.verb}${last.step ? ` at step ${last.step}` : ''} at ${moment(last.time, Date.now())}${last.reason ? `: “${last.reason}”` : ''}.`
    : 'The release has gone on.';
  return `${by} Look again before you decide.`;
}

function Counted({ approvals: { have, of, by, you } }: { approvals: Approvals }): JSX.Element {
  return (
    <Note of="Info">
      {have} of {count(of, 'approval')}
      {by?.length ? `: ${by.join(', ')}` : ''}. {you ? `You are number ${have + 1}.` : 'Yours does not count here.'}
    </Note>
  );
}

type Typed = string | number | boolean;

function Need({ need, optional, plan, value, set }: { need: string; optional?: boolean; plan?: RolloutPlan; value?: Typed; set: (value: Typed) => void }): JSX.Element {
  const label = need[0]!.toUpperCase() + need.slice(1);
  if (need === 'override') {
    return (
      <label class="check">
        <input type="checkbox" checked={value === true} onChange={event => set(event.currentTarget.checked)} /> Override the checks
      </label>
    );
  }
  if (need === 'step') {
    const steps = plan?.status?.steps?.map(s => s.step);
    return (
      <label>
        {label}
        <input type="number" min={1} max={steps?.at(-1) ?? 50} required value={String(value ?? '')} onInput={event => set(Number(event.currentTarget.value))} />
      </label>
    );
  }
  return (
    <label>
      <span>
        {label} <span class="dim">{optional ? '(kept with the decision)' : '(required)'}</span>
      </span>
      <input maxLength={1024} required={!optional} value={String(value ?? '')} onInput={event => set(event.currentTarget.value)} autocomplete="off" />
    </label>
  );
}

// Expected is what the server expects to happen.
function Expected({ plan: { status } }: { plan: RolloutPlan }): JSX.Element | null {
  const coming = (status?.steps ?? []).filter(s => s.state !== 'Done');
  if (!status) return null;
  return (
    <>
      {coming.length > 0 && <Steps steps={coming} />}
      {(status.findings ?? []).map(finding => (
        <Found key={`${finding.code}${finding.step}${finding.message}`} finding={finding} />
      ))}
      {(status.unknown ?? []).map(text => (
        <p key={text} class="dim small">
          Not looked at: {text}
        </p>
      ))}
    </>
  );
}

export function Found({ finding: { severity, step, object, message, fix } }: { finding: Finding }): JSX.Element {
  return (
    <Note of={severity}>
      <b>
        {severity}
        {step ? `, step ${step}` : ''}
      </b>{' '}
      {object ? `${object.kind}/${object.name}: ` : ''}
      {message}
      {fix && <span class="advice"> – {fix}</span>}
    </Note>
  );
}

function Steps({ steps }: { steps: PlannedStep[] }): JSX.Element {
  return (
    <>
      <Grid label="What comes next" heads={['Step', 'New', 'Old', 'Pods', 'Most', 'Ready ≥', 'Traffic', 'Then']}>
        {steps.slice(0, 8).map(s => (
          <tr key={s.step}>
            <th>{s.step}</th>
            <td>{s.update}</td>
            <td>{s.stable}</td>
            <td>{(s.waves ?? []).map(w => [w.start && `+${w.start}`, w.stop && `−${w.stop}`, w.times > 1 && `×${w.times}`].filter(Boolean).join(' ')).join(', ')}</td>
            <td>{s.peak}</td>
            <td>{s.minReady}</td>
            <td>{s.traffic === undefined ? '' : `${s.traffic} %`}</td>
            <td>{ending(s)}</td>
          </tr>
        ))}
      </Grid>
      {steps.length > 8 && <p class="dim small">and {count(steps.length - 8, 'more step')}</p>}
    </>
  );
}

export function ending({ then }: PlannedStep): string {
  if (!then || then.for === 'none') return '';
  if (then.seconds) return go(`${then.seconds}s`);
  return then.for + (then.approvers?.length ? `, ${then.approvers.join(', ')}` : '');
}
