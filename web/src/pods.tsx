// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { ask } from './api';
import { Spark, type Series } from './chart';
import { Grid, Modal } from './frame';
import { Mark, Note, mark } from './icons';
import { useAsked } from './state';
import { between, count, image, includesText } from './text';
import type { HiddenKind, Node, ReleaseRef, RolloutTree } from './wire';

// squares is how many pods a revision shows as squares.
const squares = 120;

const inOrder = ['update', 'stable', 'other'];

export function revisionsOf(tree: RolloutTree): Node[] {
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

// said are texts that the page shows already.
type Drawn = { release: ReleaseRef | undefined; said: string[]; now: number };

export function Revisions({ tree, release, said, namespace, series, now }: Drawn & { tree: RolloutTree; namespace: string; series: Series }): JSX.Element {
  const revisions = revisionsOf(tree);
  const [log, show] = useState('');
  const hidden = (tree.hidden ?? []).map(hiddenText);
  return (
    <section aria-labelledby="pods">
      <h2 id="pods">Pods</h2>
      {revisions.map(r => (
        <Revision
          key={r.id}
          revision={r}
          pods={(tree.nodes ?? []).filter(n => n.parent === r.id && (n.role === 'pod' || n.role === 'pods'))}
          release={release}
          said={said}
          spark={<Spark series={series} value={r.revision === 'update' ? 0 : 1} now={now} tone={r.revision ?? 'other'} />}
          now={now}
          logs={show}
        />
      ))}
      {hidden.length > 0 && <p class="dim small">Hidden: {hidden.join('; ')}</p>}
      {log && <Log namespace={namespace} pod={log} close={() => show('')} />}
    </section>
  );
}

// hiddenText says what is missing in the tree, and the permission that shows it.
function hiddenText({ count: n, kind, permission, message }: HiddenKind): string {
  return `${n ? `${n} ` : ''}${kind}${permission ? ` (you need permission to ${permission})` : ''}${message ? `: ${message}` : ''}`;
}

type Version = Drawn & { revision: Node; pods: Node[]; spark: JSX.Element; logs: (pod: string) => void };

function Revision({ revision: r, pods, release, said, spark, now, logs }: Version): JSX.Element {
  const [open, toggle] = useState(false);
  const kind = r.revision ?? 'other';
  const all = pods.reduce((sum, p) => sum + (p.pods ?? 1), 0);
  const more = troubles(pods).filter(([message]) => !includesText(said, message));
  const title = (r.images ?? []).map(image).join(', ') || (kind === 'update' ? release?.revision : release?.stable) || r.name;
  return (
    <div class={`revision ${kind}`}>
      <div class="head">
        <b>{title}</b> <span class="tag">{kind === 'update' ? 'new' : kind}</span>
        <span class="ready">
          {r.ready ?? '?'}/{r.desired ?? r.pods ?? '?'} ready
        </span>
        {spark}
        <span class="dim name">{r.name}</span>
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
      {r.message && !includesText(said, r.message) && !more.some(([message]) => includesText([r.message!], message)) && (
        <p class="small">
          <Mark of={r.health} /> {r.message}
        </p>
      )}
      {more.map(([message, n]) => (
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

// troubles returns why pods are not ready, with the number of pods, the most frequent reason first.
function troubles(pods: Node[]): [string, number][] {
  const found = new Map<string, number>();
  for (const p of pods) {
    if (mark(p.health)[1] === 'bad') found.set(p.message ?? p.health, (found.get(p.message ?? p.health) ?? 0) + (p.pods ?? 1));
  }
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, 5);
}

function Log({ namespace, pod, close }: { namespace: string; pod: string; close: () => void }): JSX.Element {
  const [text, set] = useState('Loading…');
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

// Network lists the workload and what sends requests to its pods. The list is closed while all is well.
export function Network({ tree }: { tree: RolloutTree }): JSX.Element | null {
  const shown = (tree.nodes ?? []).filter(n => !['rollout', 'batchRelease', 'revision', 'pod', 'pods'].includes(n.role));
  if (shown.length === 0) return null;
  const wrong = shown.filter(n => ['bad', 'wait'].includes(mark(n.health)[1]));
  return (
    <section aria-labelledby="parts">
      <details key={wrong.length > 0 ? 'wrong' : 'well'} open={wrong.length > 0}>
        <summary>
          <h2 id="parts">Workload and network</h2>{' '}
          <span class="dim">{wrong.length > 0 ? `${count(wrong.length, 'problem')} in ${count(shown.length, 'object')}` : `${count(shown.length, 'object')}, no problems`}</span>
        </summary>
        <ul class="parts">
          {shown.map(n => (
            <li key={n.id}>
              <Mark of={n.health} />{' '}
              <b>
                {n.kind} {n.name}
              </b>
              {n.revision && <span class="tag">{n.revision === 'update' ? 'new' : n.revision}</span>}
              {n.traffic !== undefined && <span class="share">{n.traffic}%</span>}
              {n.desired !== undefined && (
                <span>
                  {n.ready ?? 0}/{n.desired} ready
                </span>
              )}
              <span class="dim">{n.message ?? (n.health === 'Healthy' ? '' : n.health)}</span>
            </li>
          ))}
        </ul>
      </details>
    </section>
  );
}
