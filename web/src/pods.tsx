// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { ask } from './api';
import { Spark, type Series } from './chart';
import { Grid, Modal } from './frame';
import { Mark, Note, mark } from './icons';
import { useAsked } from './state';
import { between, count, image } from './text';
import type { Node, ReleaseRef, RolloutTree } from './wire';

// How many pods a revision shows as squares.
const squares = 120;

const inOrder = ['update', 'stable', 'other'];

function revisionsOf(tree: RolloutTree): Node[] {
  return (tree.nodes ?? []).filter(n => n.role === 'revision').sort((a, b) => inOrder.indexOf(a.revision ?? 'other') - inOrder.indexOf(b.revision ?? 'other'));
}

// readyOf counts the ready pods of the update and of the stable revision.
export function readyOf(tree: RolloutTree): [number | undefined, number | undefined] {
  const of = (revision: string) => {
    const nodes = revisionsOf(tree).filter(n => n.revision === revision && n.ready !== undefined);
    return nodes.length > 0 ? nodes.reduce((sum, n) => sum + n.ready!, 0) : undefined;
  };
  return [of('update'), of('stable')];
}

type Drawn = { release: ReleaseRef | undefined; now: number };

export function Revisions({ tree, release, namespace, series, now }: Drawn & { tree: RolloutTree; namespace: string; series: Series }): JSX.Element {
  const revisions = revisionsOf(tree);
  const [log, show] = useState('');
  const wanted = (tree.nodes ?? []).find(n => n.role === 'workload')?.desired ?? 0;
  const most = Math.max(1, wanted, ...revisions.map(r => Math.max(r.desired ?? 0, r.pods ?? 0)));
  const hidden = (tree.hidden ?? []).map(
    h => `${h.count ? `${h.count} ` : ''}${h.kind}${h.permission ? ` (it takes the right to ${h.permission})` : ''}${h.message ? `: ${h.message}` : ''}`,
  );
  return (
    <section aria-labelledby="pods">
      <h2 id="pods">Pods</h2>
      {revisions.map(r => (
        <Revision
          key={r.id}
          revision={r}
          pods={(tree.nodes ?? []).filter(n => n.parent === r.id && (n.role === 'pod' || n.role === 'pods'))}
          most={most}
          release={release}
          spark={<Spark series={series} value={r.revision === 'update' ? 0 : 1} now={now} tone={r.revision ?? 'other'} />}
          now={now}
          logs={show}
        />
      ))}
      {hidden.length > 0 && <p class="dim small">Not shown: {hidden.join('; ')}</p>}
      {log && <Log namespace={namespace} pod={log} close={() => show('')} />}
    </section>
  );
}

type Version = Drawn & { revision: Node; pods: Node[]; most: number; spark: JSX.Element; logs: (pod: string) => void };

function Revision({ revision: r, pods, most, release, spark, now, logs }: Version): JSX.Element {
  const [open, toggle] = useState(false);
  const kind = r.revision ?? 'other';
  const has = r.pods ?? r.ready ?? 0;
  const all = pods.reduce((sum, p) => sum + (p.pods ?? 1), 0);
  const title = (r.images ?? []).map(image).join(', ') || (kind === 'update' ? release?.revision : release?.stable) || r.name;
  return (
    <div class={`revision ${kind}`}>
      <div class="head">
        <b>{title}</b> <span class="tag">{kind === 'update' ? 'new' : kind}</span>
        <span class="ready">
          {r.ready ?? '?'}/{r.desired ?? r.pods ?? '?'} ready
        </span>
        {r.traffic !== undefined && <span class="share">{r.traffic} % of requests</span>}
        {spark}
        <span class="dim name">{r.name}</span>
      </div>
      <div class="bar" style={{ '--part': String(has / most), '--traffic': String((r.traffic ?? 0) / 100) }} aria-hidden="true">
        <i />
      </div>
      {pods.length > 0 && (
        <div class="squares" aria-hidden="true">
          {pods.slice(0, squares).map(p =>
            p.role === 'pods' ? (
              <i key={p.id} class={`many ${mark(p.health)[1]}`}>
                {p.pods}
              </i>
            ) : (
              <i key={p.id} class={mark(p.health)[1]} title={`${p.name}: ${p.message ?? p.health}`} />
            ),
          )}
          {pods.length > squares && <span class="dim">+{pods.length - squares}</span>}
        </div>
      )}
      {r.message && (
        <p class="small">
          <Mark of={r.health} /> {r.message}
        </p>
      )}
      {troubles(pods).map(([message, n]) => (
        <Note key={message} of="Degraded">
          {count(n, 'pod')}: {message}
        </Note>
      ))}
      {pods.length > 0 && (
        <details onToggle={event => toggle(event.currentTarget.open)}>
          <summary>{count(all, 'pod')}</summary>
          {open && (
            <Grid label={`Pods of ${r.name}`} heads={['Pod', 'State', 'For', 'Restarts', 'Node', 'Step', '']}>
              {pods.map(p => (
                <tr key={p.id}>
                  <th>{p.role === 'pods' ? count(p.pods ?? 0, 'pod') : p.name}</th>
                  <td>
                    <Mark of={p.health} /> {p.message ?? p.health}
                  </td>
                  <td>{between(p.since, now)}</td>
                  <td>{p.restarts ?? 0}</td>
                  <td>{p.node}</td>
                  <td>{p.batch || ''}</td>
                  <td>
                    {p.role === 'pod' && (
                      <button type="button" class="bare" onClick={() => logs(p.name!)} aria-label={`Log of ${p.name}`}>
                        log
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </Grid>
          )}
        </details>
      )}
    </div>
  );
}

// troubles are what keeps pods from being ready, most of them first.
function troubles(pods: Node[]): [string, number][] {
  const found = new Map<string, number>();
  for (const p of pods) {
    if (mark(p.health)[1] === 'bad') found.set(p.message ?? p.health, (found.get(p.message ?? p.health) ?? 0) + (p.pods ?? 1));
  }
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, 5);
}

function Log({ namespace, pod, close }: { namespace: string; pod: string; close: () => void }): JSX.Element {
  const [text, set] = useState('Reading…');
  useAsked(
    async signal => {
      const path = `namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log`;
      const asked = { query: { tailLines: '100', limitBytes: '65536' }, accept: 'text/plain, */*', signal };
      set((await (await ask(path, asked, '../../../../api/v1/')).text()) || 'The log is empty.');
    },
    set,
    [pod],
  );
  return (
    <Modal title={`Log of ${pod}, last 100 lines`} close={close} wide>
      <pre tabIndex={0}>{text}</pre>
    </Modal>
  );
}

// Network is what sends requests to the pods, and what else takes part.
export function Network({ tree }: { tree: RolloutTree }): JSX.Element | null {
  const shown = (tree.nodes ?? []).filter(n => !['rollout', 'batchRelease', 'revision', 'pod', 'pods'].includes(n.role));
  if (shown.length === 0) return null;
  return (
    <section aria-labelledby="parts">
      <h2 id="parts">Workload and network</h2>
      <ul class="parts">
        {shown.map(n => (
          <li key={n.id}>
            <Mark of={n.health} />{' '}
            <b>
              {n.kind.toLowerCase()}/{n.name}
            </b>
            {n.revision && <span class="tag">{n.revision === 'update' ? 'new' : n.revision}</span>}
            {n.traffic !== undefined && <span class="share">{n.traffic} %</span>}
            {n.desired !== undefined && (
              <span>
                {n.ready ?? 0}/{n.desired} ready
              </span>
            )}
            <span class="dim">{n.message ?? (n.health === 'Healthy' ? '' : n.health)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
