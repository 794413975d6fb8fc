// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { ask, get, post, rollout, say, server } from './api';
import { Confirm, Expected } from './dialog';
import { Modal } from './frame';
import { Note } from './icons';
import { announce, useAsked } from './state';
import { change, image, keepsStable, sentence } from './text';
import type { PastRelease, Rollout, RolloutPlan, RolloutReleases, RolloutWhy } from './wire';

// Earlier is a template on record that can be set again: the result of a release, or the template before it.
export interface Earlier {
  number: number;
  version: string;
  revision: string;
  before: boolean;
}

// restorable returns the templates on record that can be set again and do not serve now, newest first: results of
// releases that succeeded, and templates from before a release that are the result of none. While a release is in
// progress there is none, because the verb rollback is the way back then.
export function restorable(releases: PastRelease[], why?: RolloutWhy): Earlier[] {
  const [latest] = releases;
  if (!latest || !why || why.release || why.state !== 'AtRest') return [];
  const found = new Map<string, Earlier>();
  const serves = keepsStable(latest) ? latest.stable : latest.revision;
  const add = (r: PastRelease, revision: string | undefined, before: boolean) => {
    if (!revision || revision === serves || r.number === undefined || found.has(revision)) return;
    found.set(revision, { number: r.number, version: versionOf(revision, releases), revision, before });
  };
  for (const r of releases) if (r.outcome === 'succeeded') add(r, r.revision, false);
  for (const r of releases) if (r.stableOnRecord) add(r, r.stable, true);
  return [...found.values()].sort((a, b) => b.number - a.number || Number(a.before) - Number(b.before));
}

// versionOf returns the shortest name that a release has for a revision: v2, if another release changed only the tag.
function versionOf(revision: string, releases: PastRelease[]): string {
  const names = releases.flatMap(r => [r.stable === revision ? change(r)[0] : '', r.revision === revision ? change(r)[1] : '']);
  return names.map(image).filter(Boolean).sort((a, b) => a.length - b.length)[0] ?? revision;
}

// previous returns the template that served before the one that serves now, if it can be set again.
export function previous(releases: PastRelease[], all: Earlier[]): Earlier | undefined {
  const serving = releases.find(r => r.outcome === 'succeeded');
  return all.find(e => e.revision === serving?.stable) ?? all[0];
}

const mergePatch = 'application/merge-patch+json';

// mergeInto returns an object after a merge patch (RFC 7386).
export function mergeInto(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const out: Record<string, unknown> = target !== null && typeof target === 'object' && !Array.isArray(target) ? { ...(target as Record<string, unknown>) } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete out[key];
    else out[key] = mergeInto(out[key], value);
  }
  return out;
}

// Prepared is what the dialog needs to set a template again: the path of the workload, and the patch.
interface Prepared {
  path: string;
  patch: Record<string, unknown>;
}

const root = '../../../../';

async function prepare(path: string, { number, before }: Earlier, signal: AbortSignal): Promise<Prepared> {
  const [{ releases }, it] = await Promise.all([
    get<RolloutReleases>(`${path}/history`, { query: { release: String(number) }, signal }),
    get<Rollout>(path, { signal }),
  ]);
  const found = releases?.find(r => r.number === number);
  const patch = before ? found?.restoreStable : found?.restore;
  if (!patch) throw new Error(`The template ${before ? 'from before' : 'of'} release ${number} is no longer on record.`);
  const { apiVersion, kind, name } = it.spec!.workloadRef;
  const namespace = /^namespaces\/([^/]+)/.exec(path)![1]!;
  // All kinds of workloads form their plural with an s.
  return { path: `apis/${apiVersion}/namespaces/${namespace}/${kind.toLowerCase()}s/${encodeURIComponent(name)}`, patch };
}

interface Props {
  namespace: string;
  name: string;
  to: Earlier;
  current: RolloutWhy | undefined;
  close: () => void;
}

// UndoDialog shows the plan of an earlier template, and sets the template in the workload with the user's own
// permissions, as kubectl weir undo does.
export function UndoDialog({ namespace, name, to, current, close }: Props): JSX.Element {
  const { number, version, before } = to;
  const place = `${before ? 'from before' : 'of'} release ${number}`;
  const path = rollout(namespace, name);
  const [prepared, setPrepared] = useState<Prepared>();
  const [plan, setPlan] = useState<RolloutPlan>();
  const [planless, without] = useState('Loading the preview…');
  const [error, fail] = useState('');
  const [sending, send] = useState(false);
  useAsked(
    async signal => {
      const found = await prepare(path, to, signal);
      const workload = await get<unknown>(found.path, { signal }, root);
      // The dry run shows whether the user may do it, before the button is enabled.
      await patch(found, { dryRun: 'All' }, signal);
      setPrepared(found);
      const [group, api] = server.pages.pathname.split('/').slice(-4);
      const asked = { apiVersion: `${group}/${api}`, kind: 'RolloutPlan', spec: { workload: mergeInto(workload, found.patch) } };
      try {
        setPlan(await post<RolloutPlan>(`${path}/plan`, asked, signal));
      } catch (err) {
        signal.throwIfAborted();
        without(`Preview unavailable: ${say(err)}`);
      }
    },
    why => {
      without('');
      fail(why);
    },
    [],
  );
  const begun = !!current?.release;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (sending || begun || !prepared) return;
    send(true);
    fail('');
    try {
      await patch(prepared, {});
      announce(`The template ${place} is set again.`);
      close();
    } catch (err) {
      fail(say(err));
    }
    send(false);
  };
  return (
    <Modal title={`Roll back ${name} to ${version}?`} close={close} asks>
      <form onSubmit={event => void submit(event)}>
        <p>
          Sets the pod template {place} ({version}) again. A new release then replaces the pods, in the steps of the plan.
        </p>
        {plan ? <Expected plan={plan} /> : planless && <p class="dim small">{planless}</p>}
        <div aria-live="assertive">
          {begun && <Note of="Warning">A release has begun. Review it before you decide.</Note>}
          {error && <Note of="Error">{sentence(error)}</Note>}
        </div>
        <Confirm label={sending ? 'Sending…' : `Roll back to ${version}`} destructive disabled={sending || begun || !prepared} cancel={begun ? 'Close' : 'Cancel'} close={close} />
      </form>
    </Modal>
  );
}

async function patch({ path, patch: body }: Prepared, query: Record<string, string>, signal?: AbortSignal): Promise<void> {
  await ask(path, { method: 'PATCH', body, type: mergePatch, query: { fieldManager: 'weir-dashboard', ...query }, ...(signal && { signal }) }, root);
}
