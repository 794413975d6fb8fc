// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// The decisions about several Rollouts, from the objects that kubectl weir history -A reads, and in its format.
import { Refused, get } from './api';
import type { Metadata } from './kube';
import type { Decision, ReleaseRecord } from './wire';

// Decided is a decision with its release.
export interface Decided extends Decision {
  namespace: string;
  rollout: string;
  release: number;
  // version has the images of the release, or else its revision.
  version: string;
}

// Audit is the result of reading the decisions.
export interface Audit {
  decisions: Decided[];
  // unreadable are the namespaces whose Rollouts the user may not list. Those in partial lack the decisions of completed
  // releases, because the user may not list RolloutHistories.
  unreadable: string[];
  partial: string[];
}

// Recorded is the part of a RolloutHistory that names decisions.
interface Recorded {
  metadata: Metadata & { labels?: Record<string, string> };
  spec?: { rollout?: { name?: string }; workload?: { data?: { template?: { spec?: { containers?: { image?: string }[] } } } } };
  status?: { canaryRevision?: string; decisions?: Decision[] };
}

// Current is the part of a Rollout that names the decisions of its current release.
interface Current {
  metadata: Metadata;
  status?: { releases?: ReleaseRecord[]; decisions?: Decision[] };
}

interface Page<T> {
  metadata?: Metadata;
  items?: T[];
}

// readAudit reads the decisions of some namespaces, or of all if none is named. It throws the refusal of the server if the
// user may read none of them. progress gets the number of objects that were read.
export async function readAudit(namespaces: string[], signal: AbortSignal, progress: (objects: number) => void): Promise<Audit> {
  const audit: Audit = { decisions: [], unreadable: [], partial: [] };
  const seen = new Set<string>();
  let objects = 0;
  const add = (d: Decided) => {
    const key = `${d.namespace}/${d.rollout}/${d.id}/${d.time}`;
    if (seen.has(key)) return;
    seen.add(key);
    audit.decisions.push(d);
  };
  const read = async <T>(version: string, namespace: string, resource: string, take: (object: T) => void) => {
    for (let next = ''; ; ) {
      const path = `${version}/${namespace && `namespaces/${encodeURIComponent(namespace)}/`}${resource}`;
      const page = await get<Page<T>>(path, { query: { limit: '200', ...(next && { continue: next }) }, signal }, '../../');
      for (const object of page.items ?? []) take(object);
      progress((objects += page.items?.length ?? 0));
      next = page.metadata?.continue ?? '';
      if (!next) return;
    }
  };
  for (const namespace of namespaces.length > 0 ? namespaces : ['']) {
    try {
      // RolloutHistories come first, because they name the images.
      await read<Recorded>('v1alpha1', namespace, 'rollouthistories', h => recorded(h).forEach(add));
    } catch (err) {
      if (!namespace || !isForbidden(err)) throw err;
      audit.partial.push(namespace);
    }
    try {
      await read<Current>('v1beta1', namespace, 'rollouts', r => current(r).forEach(add));
    } catch (err) {
      if (!isForbidden(err) || namespaces.length < 2) throw err;
      audit.unreadable.push(namespace);
    }
  }
  audit.partial = audit.partial.filter(n => !audit.unreadable.includes(n));
  audit.decisions.sort((a, b) => Date.parse(a.time) - Date.parse(b.time) || compare(a.namespace, b.namespace) || compare(a.rollout, b.rollout) || a.id - b.id);
  return audit;
}

function isForbidden(err: unknown): boolean {
  return err instanceof Refused && err.code === 403;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

// recorded returns the decisions in a RolloutHistory. A history of OpenKruise has no number and no decisions.
function recorded({ metadata, spec, status }: Recorded): Decided[] {
  const release = Number(metadata.labels?.['rollouts.kruise.io/release-number']);
  if (!release) return [];
  const images = (spec?.workload?.data?.template?.spec?.containers ?? []).map(c => c.image ?? '').join(' ');
  return (status?.decisions ?? []).map(d => ({
    ...d,
    namespace: metadata.namespace ?? '',
    rollout: spec?.rollout?.name ?? '',
    release,
    version: images || status?.canaryRevision || d.revision || '',
  }));
}

// current returns the decisions in a Rollout. Each belongs to the latest release that began before the decision.
function current({ metadata, status }: Current): Decided[] {
  return (status?.decisions ?? []).map(d => ({
    ...d,
    namespace: metadata.namespace ?? '',
    rollout: metadata.name ?? '',
    release: (status?.releases ?? []).filter(r => r.firstDecision && r.firstDecision <= d.id).at(-1)?.number ?? 0,
    version: d.revision ?? '',
  }));
}

// overridden names the checks that a decision overrode, with their results; empty if it overrode none.
export function overridden({ overrode, overriddenChecks }: Decision): string {
  if (!overrode?.length) return '';
  const names = (overriddenChecks ?? []).map(c => `${c.name} (${c.result?.toLowerCase() || 'not measured'}, step ${c.step})`);
  return names.join(', ') || 'the checks';
}

const columns = ['time_utc', 'namespace', 'rollout', 'release', 'version', 'verb', 'user', 'step', 'toStep', 'full', 'overrode', 'reason', 'outcome', 'via'];

// toCSV returns decisions in the format of kubectl weir history -o csv.
export function toCSV(decisions: Decided[]): string {
  const rows = decisions.map(d => [
    new Date(d.time).toISOString().replace('.000', ''),
    d.namespace,
    d.rollout,
    String(d.release || ''),
    d.version,
    d.verb,
    d.user,
    String(d.step || ''),
    String(d.toStep || ''),
    String(!!d.full),
    overridden(d),
    d.reason ?? '',
    d.outcome ?? '',
    d.via,
  ]);
  return [columns, ...rows].map(row => `${row.map(cell).join(',')}\n`).join('');
}

// cell returns a cell that spreadsheets show as text. Users choose names and reasons, and spreadsheets run cells that
// begin with one of these characters.
function cell(text: string): string {
  const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
