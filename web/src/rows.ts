// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { Refused, get, isAborted, rollout } from './api';
import { events, type Followed } from './stream';
import type { Metadata, Row, Table } from './kube';
import { change, image, keepsStable } from './text';
import { fromTable, severity, shownState, type Shown } from './severity';
import type { PastRelease, RolloutReleases, RolloutWhy } from './wire';

const page = 500;
const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
// Answers about single Rollouts are requested a few at a time, and for each Rollout only this often.
const atOnce = 4;
const askAgain = 5_000;

// Line is one Rollout of the list.
export interface Line {
  key: string;
  meta: Metadata;
  cells: Record<string, string>;
  why?: RolloutWhy;
  // version is the version that serves, of a Rollout without a release in progress. The table of an older server lacks it.
  version?: string;
}

// stateOf returns the state of a line. The table has it. With an older server, the explanation of the Rollout has it, and
// until then the phase suggests one.
export function stateOf(line: Line): Shown {
  return line.why && !line.cells['STATE'] ? shownState(line.why, line.cells['STATUS']) : fromTable(line.cells);
}

// saysAll reports whether the table says everything about a line, because the Rollout is at rest.
export function saysAll(line: Line): boolean {
  return !!line.cells['STATE'] && ['AtRest', 'Disabled'].includes(stateOf(line));
}

// Rows are the Rollouts of a cluster, of one namespace or of several, in the server's table. Several namespaces are
// polled, because a tab has only one stream.
export class Rows implements Followed {
  readonly lines = new Map<string, Line>();
  total = 0;
  complete = false;
  private columns: string[] = [];
  private from = '';
  private readonly asked = new Map<string, { version: string; at: number }>();
  private readonly queue: Line[] = [];
  private asking = 0;
  private readonly ends = new AbortController();
  private sorted: Line[] | undefined;
  // unreadable are the namespaces whose Rollouts the user may not list.
  unreadable: string[] = [];

  constructor(
    // An empty list means all namespaces.
    private readonly namespaces: string[],
    private readonly selector: string,
    private readonly changed: () => void,
  ) {}

  end(): void {
    this.ends.abort();
  }

  // all are the lines in the order of their severity, and then of their names.
  get all(): Line[] {
    return (this.sorted ??= [...this.lines.values()].sort((a, b) => severity(stateOf(a)) - severity(stateOf(b)) || (a.key < b.key ? -1 : 1)));
  }

  private query(more: Record<string, string>): Record<string, string> {
    return { includeObject: 'Metadata', ...(this.selector && { fieldSelector: this.selector }), ...more };
  }

  async watch(signal: AbortSignal, live: () => void): Promise<void> {
    if (this.namespaces.length > 1) throw new Refused(405, 'Several namespaces are polled.');
    try {
      if (!this.from) await this.poll(signal);
      const query = this.query({ watch: '1', resourceVersion: this.from, allowWatchBookmarks: 'true' });
      await events<Table>(listPath(this.namespaces[0]), { query, accept, signal }, live, (type, table) => this.take(type, table));
    } catch (err) {
      if (err instanceof Refused && err.code === 410) this.from = '';
      throw err;
    }
  }

  async poll(signal: AbortSignal): Promise<void> {
    const found = new Set<string>();
    const unreadable: string[] = [];
    for (const namespace of this.namespaces.length > 0 ? this.namespaces : [undefined]) {
      try {
        await this.read(namespace, found, signal);
      } catch (err) {
        if (this.namespaces.length < 2 || !(err instanceof Refused) || err.code !== 403) throw err;
        unreadable.push(namespace!);
      }
    }
    for (const key of this.lines.keys()) if (!found.has(key)) this.lines.delete(key);
    this.total = this.lines.size;
    this.unreadable = unreadable;
    this.complete = true;
    this.draw();
  }

  // read reads the Rollouts of one namespace, or of all, page by page.
  private async read(namespace: string | undefined, found: Set<string>, signal: AbortSignal): Promise<void> {
    let next = '';
    do {
      const table: Table = await get(listPath(namespace), { query: this.query({ limit: String(page), ...(next && { continue: next }) }), accept, signal });
      for (const row of table.rows ?? []) found.add(this.keep(table, row).key);
      next = table.metadata?.continue ?? '';
      this.total = found.size + (table.metadata?.remainingItemCount ?? 0);
      this.from = table.metadata?.resourceVersion ?? '';
      this.draw();
    } while (next);
  }

  private take(type: string, table: Table): void {
    for (const row of table.rows ?? []) {
      if (type === 'DELETED') this.lines.delete(keyOf(row.object.metadata));
      else if (type !== 'BOOKMARK') this.keep(table, row);
      this.from = row.object.metadata.resourceVersion ?? this.from;
    }
    this.total = this.lines.size;
    this.draw();
  }

  private draw(): void {
    this.sorted = undefined;
    this.changed();
  }

  private keep(table: Table, row: Row): Line {
    if (table.columnDefinitions?.length) this.columns = table.columnDefinitions.map(c => c.name.toUpperCase());
    const meta = row.object.metadata;
    const line: Line = { key: keyOf(meta), meta, cells: {} };
    row.cells.forEach((cell, i) => {
      if (cell !== null && cell !== '' && cell !== '<none>') line.cells[this.columns[i] ?? ''] = String(cell);
    });
    const before = this.lines.get(line.key);
    if (before?.why && !saysAll(line)) line.why = before.why;
    if (before?.version) line.version = before.version;
    this.lines.set(line.key, line);
    return line;
  }

  // explain requests the reasons for the state of a Rollout and its actions, unless they were requested for this version
  // of it.
  explain(line: Line): void {
    if (saysAll(line)) return;
    const before = this.asked.get(line.key);
    const version = line.meta.resourceVersion ?? '';
    if (before && (before.version === version || Date.now() - before.at < askAgain)) return;
    this.asked.set(line.key, { version, at: Date.now() });
    this.queue.push(line);
    void this.next();
  }

  private async next(): Promise<void> {
    if (this.asking >= atOnce) return;
    this.asking++;
    for (let line = this.queue.shift(); line && !this.ends.signal.aborted; line = this.queue.shift()) {
      try {
        await this.ask(line);
      } catch (err) {
        if (isAborted(err)) break;
        // The row then shows the cells of the table.
      }
    }
    this.asking--;
  }

  private async ask({ key, meta: { namespace = '', name = '' } }: Line): Promise<void> {
    const path = rollout(namespace, name);
    const { signal } = this.ends;
    const why = await get<RolloutWhy>(`${path}/why`, { signal });
    const now = this.lines.get(key);
    if (!now) return;
    now.why = why;
    this.draw();
    if (why.release || this.columns.includes('VERSIONS')) return;
    const { releases } = await get<RolloutReleases>(`${path}/history`, { signal });
    now.version = servingVersion(releases ?? []);
    this.changed();
  }
}

// servingVersion returns the version that serves after the latest release.
function servingVersion(releases: PastRelease[]): string {
  const [latest] = releases;
  if (!latest) return '';
  const [from, to] = change(latest);
  return image(keepsStable(latest) ? from : to);
}

function listPath(namespace?: string): string {
  return namespace ? `namespaces/${encodeURIComponent(namespace)}/rollouts` : 'rollouts';
}

function keyOf(meta: Metadata): string {
  return `${meta.namespace}/${meta.name}`;
}
