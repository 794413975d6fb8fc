// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { Icon } from './icons';
import type { About } from './about';
import { actionKeys, keysOn, kept, useTheme } from './state';
import type { Live } from './stream';
import { sentence } from './text';

const connection: Record<Live['state'], [string, string]> = {
  connecting: ['connecting…', 'calm'],
  live: ['live', 'good'],
  polling: ['every 5s', 'good'],
  offline: ['offline', 'bad'],
  asleep: ['asleep', 'calm'],
  refused: ['no access', 'bad'],
};

export function LiveState({ live }: { live: Live }): JSX.Element {
  const [state, tone] = connection[live.state];
  const word = live.code === 404 ? 'not found' : state;
  return (
    <span class={`live ${tone}`}>
      <i aria-hidden="true" />
      {word}
    </span>
  );
}

// Banner shows why the page may be out of date.
export function Banner({ live }: { live: Live }): JSX.Element | null {
  if (live.state !== 'offline' && live.state !== 'refused') return null;
  return (
    <p class="banner" role="alert">
      <Icon name="warn" tone="bad" /> {sentence(live.error ?? '')}
      {live.state === 'offline' && ' Showing the last known state; reconnecting…'}
    </p>
  );
}

type Opened = { title: string; close: () => void; children: ComponentChildren; wide?: boolean; asks?: boolean };

// Modal is a dialog that Escape closes, and that returns the focus. A dialog that asks has its own buttons.
export function Modal({ title, close, children, wide, asks }: Opened): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = (dialog.current!.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? 'wide' : ''}
      aria-labelledby="dialog-title"
      onCancel={event => {
        event.preventDefault();
        close();
      }}
      onClick={event => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="inside">
        <h2 id="dialog-title">{title}</h2>
        {children}
        {!asks && (
          <p class="buttons">
            <button type="button" onClick={close}>
              Close
            </button>
          </p>
        )}
      </div>
    </dialog>
  );
}

type Table = { label: string; heads: string[]; children: ComponentChildren; class?: string };

// Grid is a table with its own scroll bar.
export function Grid({ label, heads, children, class: kind = '' }: Table): JSX.Element {
  return (
    <div class={`scroll ${kind}`} tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>{heads.map(head => (head ? <th key={head}>{head}</th> : <td key={head} />))}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

// Bar is the first row of each page: the product, the cluster, and what belongs to no Rollout.
export function Bar({ about, help }: { about: About; help: () => void }): JSX.Element {
  const [theme, set] = useTheme();
  const dark = theme === 'dark' || (theme === '' && matchMedia('(prefers-color-scheme: dark)').matches);
  return (
    <nav class="brand" aria-label="Weir">
      <a href="#/" class="product">
        <Icon name="weir" /> Weir
      </a>
      {about.cluster && (
        <span class="cluster" title="Cluster">
          <span class="unseen">cluster </span>
          {about.cluster}
        </span>
      )}
      <a href="#/decisions" class="decided">
        Decisions
      </a>
      <span class="tools">
        <button type="button" class="bare" aria-label={dark ? 'Light colours' : 'Dark colours'} onClick={() => set(dark ? 'light' : 'dark')}>
          <Icon name={dark ? 'light' : 'dark'} />
        </button>
        <button type="button" class="bare" aria-label="Keys and help" onClick={help}>
          <Icon name="keys" />
        </button>
      </span>
    </nav>
  );
}

// Version is the version of the program that serves the pages.
export function Version({ about }: { about: About }): JSX.Element | null {
  return about.version ? <span class="dim">Weir {about.version}</span> : null;
}

export function Help({ close }: { close: () => void }): JSX.Element {
  const rows: [string[], string][] = [
    [['j', 'k'], 'next and previous Rollout'],
    [['Enter'], 'open the Rollout'],
    [['/'], 'filter the list'],
    ...[...actionKeys].map(([key, title]): [string[], string] => [[key], `${title} (asks first)`]),
    [['Esc'], 'close the dialog, or go back to the list'],
    [['?'], 'show this help'],
  ];
  return (
    <Modal title="Keys" close={close}>
      <dl class="keys">
        {rows.map(([keys, text]) => (
          <div key={text}>
            <dt>
              {keys.map(k => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={keysOn()} onChange={event => kept.set('keys', event.currentTarget.checked ? '' : 'off')} /> Use keys in this browser
      </label>
    </Modal>
  );
}
