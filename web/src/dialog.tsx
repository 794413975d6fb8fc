// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { Unreached, get, post, rollout, say, server } from './api';
import { Grid, Modal } from './frame';
import { Note } from './icons';
import { deed, isDestructive, titleOf } from './severity';
import { announce, useAsked } from './state';
import { count, moment, sentence, shortDuration } from './text';
import type { Action, Approvals, Decision, Finding, PlannedStep, RolloutPlan, RolloutReleases, RolloutWhy } from './wire';

interface Props {
  namespace: string;
  name: string;
  // action is the action when the user pressed the button. The dialog sends its body.
  action: Action;
  // current is the latest answer of the server.
  current: RolloutWhy | undefined;
  close: () => void;
}

// same reports whether two actions do the same, regardless of the state that they expect.
export function same(a: Action, b: Action): boolean {
  return a.path === b.path && a.title.split(' ')[0] === b.title.split(' ')[0] && a.body?.['full'] === b.body?.['full'];
}

// moved reports whether the Rollout has moved on since the server offered the action.
function moved(action: Action, current?: RolloutWhy): boolean {
  const now = current?.actions?.find(a => same(a, action));
  if (!current?.actions) return false;
  return !now?.possible || JSON.stringify(now.body?.['expect']) !== JSON.stringify(action.body?.['expect']);
}

export function ActionDialog({ namespace, name, action, current, close }: Props): JSX.Element {
  const path = rollout(namespace, name);
  const [typed, type] = useState<Record<string, Typed>>({});
  const [plan, setPlan] = useState<RolloutPlan>();
  const [planless, without] = useState('Loading the preview…');
  const [error, fail] = useState('');
  const [sending, send] = useState(false);
  const [closed, setClosed] = useState('');
  const request = useRef(crypto.randomUUID?.() ?? String(Math.random()).slice(2));
  const step = action.needs?.includes('step') ? Number(typed['step'] ?? 0) : undefined;
  // A jump past checks that have not passed needs an override and its reason.
  const past = !!action.overrideFrom && !!step && step >= action.overrideFrom;
  const needs = [...new Set([...(action.needs ?? []), ...(past ? ['reason', 'override'] : [])])];
  const forbidden = past && action.missing?.includes('rollouts/override');

  const preview = async (signal: AbortSignal) => {
    if (step === 0) return;
    const full = action.body?.['full'] === true;
    const after = { verb: action.verb, ...(step && { step }), ...(full && { full }), ...(needs.includes('override') && { override: true }) };
    const [group, api] = server.pages.pathname.split('/').slice(-4);
    setPlan(await post<RolloutPlan>(`${path}/plan`, { apiVersion: `${group}/${api}`, kind: 'RolloutPlan', spec: { after } }, signal));
  };
  const unavailable = (why: string) => {
    setPlan(undefined);
    without(`Preview unavailable: ${why}`);
  };
  useAsked(preview, unavailable, [step]);

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
      announce(`${titleOf(action)}: accepted.`);
      close();
    } catch (err) {
      fail(say(err));
      if ('code' in (err as object) && (err as { code: number }).code === 409) setClosed(await who(path));
    }
    send(false);
  };

  return (
    <Modal title={`${name}: ${titleOf(action)}?`} close={close} asks>
      <form onSubmit={event => void submit(event)}>
        <p>{sentence(action.reason ?? '')}</p>
        {plan ? <Expected plan={plan} /> : step !== 0 && <p class="dim small">{planless}</p>}
        {action.approvals && <Counted approvals={action.approvals} />}
        {needs.map(need => (
          <Need key={need} need={need} plan={plan} value={typed[need]} set={value => type({ ...typed, [need]: value })} />
        ))}
        {!needs.includes('reason') && <Need need="reason" optional plan={plan} value={typed['reason']} set={value => type({ ...typed, reason: value })} />}
        <div aria-live="assertive">
          {forbidden && (
            <Note of="Error">
              Checks before step {step} have not passed. To override them, you need permission to create rollouts/override in namespace {namespace}.
            </Note>
          )}
          {closed && <Note of="Warning">{closed}</Note>}
          {error && <Note of="Error">{sentence(error)}</Note>}
        </div>
        <Confirm
          label={sending ? 'Sending…' : titleOf(action)}
          destructive={isDestructive(action)}
          disabled={sending || !!closed || forbidden || missing.length > 0}
          cancel={closed ? 'Close' : 'Cancel'}
          close={close}
        />
      </form>
    </Modal>
  );
}

type Confirming = { label: string; destructive: boolean; disabled: boolean; cancel: string; close: () => void };

// Confirm is the last row of a dialog.
export function Confirm({ label, destructive, disabled, cancel, close }: Confirming): JSX.Element {
  return (
    <p class="buttons">
      <button type="button" onClick={close}>
        {cancel}
      </button>
      <button type="submit" class={`main ${destructive ? 'danger' : ''}`} disabled={disabled}>
        {label}
      </button>
    </p>
  );
}

// once sends a request again if the connection ends. The server recognizes the request by its ID.
async function once(path: string, body: unknown): Promise<void> {
  const trimmed = path.replace(/^\//, '');
  try {
    await post(trimmed, body);
  } catch (err) {
    if (!(err instanceof Unreached)) throw err;
    await post(trimmed, body);
  }
}

// who describes the decision that has moved a Rollout.
async function who(path: string): Promise<string> {
  let last: Decision | undefined;
  try {
    const { releases } = await get<RolloutReleases>(`${path}/history`);
    last = releases?.[0]?.decisions?.at(-1);
  } catch {
    // The dialog then says only that the release has moved on.
  }
  const by = last ? `${last.user} ${deed(last)} at ${moment(last.time, Date.now())}${last.reason ? `: “${last.reason}”` : ''}. ` : '';
  return `${by}The release has moved on. Review it before you decide.`;
}

function Counted({ approvals: { have, of, by, you } }: { approvals: Approvals }): JSX.Element {
  return (
    <Note of="Info">
      {have} of {count(of, 'approval')}
      {by?.length ? `: ${by.join(', ')}` : ''}. {you ? `Your approval would be number ${have + 1}.` : `Your approval doesn't count for this step.`}
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
    // The way back and the end have no number.
    const last = Math.max(0, ...(plan?.status?.steps ?? []).map(s => s.step));
    return (
      <label>
        {label}
        <input type="number" min={1} max={last || 50} required value={String(value ?? '')} onInput={event => set(Number(event.currentTarget.value))} />
      </label>
    );
  }
  return (
    <label>
      <span>
        {label} <span class="dim">{optional ? '(optional, recorded)' : '(required, recorded)'}</span>
      </span>
      <input maxLength={1024} required={!optional} value={String(value ?? '')} onInput={event => set(event.currentTarget.value)} autocomplete="off" />
    </label>
  );
}

// Expected shows the server's preview.
export function Expected({ plan: { status } }: { plan: RolloutPlan }): JSX.Element | null {
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
          Not checked: {text}
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
      {object ? `${object.kind} ${object.name}: ` : ''}
      {sentence(message)}
      <Fix text={fix} />
    </Note>
  );
}

// Fix shows what helps against a problem.
export function Fix({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? (
    <span class="advice">
      {' '}
      <b>Fix:</b> {sentence(text)}
    </span>
  ) : null;
}

function Steps({ steps }: { steps: PlannedStep[] }): JSX.Element {
  return (
    <>
      <Grid label="Steps to come" heads={['Step', 'New', 'Old', 'Traffic', 'Then', 'Order', 'Most pods', 'Fewest ready']} class="plan">
        {steps.slice(0, 8).map(s => (
          <tr key={s.step}>
            <th>{stepName(s)}</th>
            <td>{s.update}</td>
            <td>{s.stable}</td>
            <td>{s.match || (s.traffic === undefined ? '' : `${s.traffic}%`)}</td>
            <td>{ending(s)}</td>
            <td>{(s.waves ?? []).map(w => [w.start && `+${w.start}`, w.stop && `−${w.stop}`, w.times > 1 && `×${w.times}`].filter(Boolean).join(' ')).join(', ')}</td>
            <td>{s.peak}</td>
            <td>{s.minReady}</td>
          </tr>
        ))}
      </Grid>
      <p class="dim small">Order: pods that start (+) and stop (−) at a time.</p>
      {steps.length > 8 && <p class="dim small">and {count(steps.length - 8, 'more step')}</p>}
    </>
  );
}

// stepName names a step of a plan. The way back of an abort and the end of a release have no number.
export function stepName({ step, state }: Pick<PlannedStep, 'step' | 'state'>): string {
  if (state === 'Back') return 'Back';
  return state === 'End' || step === 0 ? 'End' : String(step);
}

// ending says what a step waits for after its pods: "checks, approval".
export function ending({ then }: Pick<PlannedStep, 'then'>): string {
  if (!then) return '';
  const checks = then.checks?.length ? [`checks ${then.checks.join(', ')}`] : [];
  if (then.seconds) return [...checks, shortDuration(`${then.seconds}s`)].join(', then ');
  const by = then.for === 'none' ? [] : [then.for + (then.approvers?.length ? ` by ${then.approvers.join(', ')}` : '')];
  return [...checks, ...by].join(', then ');
}
