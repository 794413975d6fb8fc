// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { Refused, get, isAborted, rollout } from './api';
import { events, type Followed } from './stream';
import type { Metadata, Row, Table } from './kube';
import type { RolloutWhy } from './wire';

const page = 500;
const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
// Reasons are asked for a few at a time, and for each Rollout only this often.
const atOnce = 4;
const askAgain = 5_000;

// Line is one Rollout of the list.
export interface Line {
  key: string;
  meta: Metadata;
  cells: Record<string, string>;
  why?: RolloutWhy;
}

// Rows are the Rollouts of a cluster or a namespace, as the server's table has them.
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

  constructor(
    private readonly namespace: string,
    private readonly selector: string,
    private readonly changed: () => void,
  ) {}

  end(): void {
    this.ends.abort();
  }

  // all are in the order of their names.
  get all(): Line[] {
    return (this.sorted ??= [...this.lines.values()].sort((a, b) => (a.key < b.key ? -1 : 1)));
  }

  private get path(): string {
    return this.namespace ? `namespaces/${encodeURIComponent(this.namespace)}/rollouts` : 'rollouts';
  }

  private query(more: Record<string, string>): Record<string, string> {
    return { includeObject: 'Metadata', ...(this.selector && { fieldSelector: this.selector }), ...more };
  }

  async watch(signal: AbortSignal, live: () => void): Promise<void> {
    try {
      if (!this.from) await this.poll(signal);
      const query = this.query({ watch: '1', resourceVersion: this.from, allowWatchBookmarks: 'true' });
      await events<Table>(this.path, { query, accept, signal }, live, (type, table) => this.take(type, table));
    } catch (err) {
      if (err instanceof Refused && err.code === 410) this.from = '';
      throw err;
    }
  }

  async poll(signal: AbortSignal): Promise<void> {
    const found = new Set<string>();
    let next = '';
    do {
      const table: Table = await get(this.path, { query: this.query({ limit: String(page), ...(next && { continue: next }) }), accept, signal });
      for (const row of table.rows ?? []) found.add(this.keep(table, row).key);
      next = table.metadata?.continue ?? '';
      this.total = found.size + (table.metadata?.remainingItemCount ?? 0);
      this.from = table.metadata?.resourceVersion ?? '';
      this.draw();
    } while (next);
    for (const key of this.lines.keys()) if (!found.has(key)) this.lines.delete(key);
    this.total = this.lines.size;
    this.complete = true;
    this.draw();
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
    if (before?.why) line.why = before.why;
    this.lines.set(line.key, line);
    return line;
  }

  // explain asks why a Rollout waits, unless that was asked for this version of it.
  explain(line: Line): void {
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
      const { namespace = '', name = '' } = line.meta;
      try {
        const why = await get<RolloutWhy>(`${rollout(namespace, name)}/why`, { signal: this.ends.signal });
        const now = this.lines.get(line.key);
        if (now) now.why = why;
        this.changed();
      } catch (err) {
        if (isAborted(err)) break;
        // The row of the table says enough.
      }
    }
    this.asking--;
  }
}

function keyOf(meta: Metadata): string {
  return `${meta.namespace}/${meta.name}`;
}
