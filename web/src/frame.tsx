// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { Icon } from './icons';
import { keysOn, kept, useTheme } from './state';
import type { Live } from './stream';

const said: Record<Live['state'], [string, string]> = {
  connecting: ['connecting…', 'calm'],
  live: ['live', 'good'],
  polling: ['every 5 s', 'good'],
  offline: ['offline', 'bad'],
  asleep: ['asleep', 'calm'],
  refused: ['refused', 'bad'],
};

export function LiveState({ live }: { live: Live }): JSX.Element {
  const [word, tone] = said[live.state];
  return (
    <span class={`live ${tone}`}>
      <i aria-hidden="true" />
      {word}
    </span>
  );
}

// Banner says why what is shown may be old.
export function Banner({ live }: { live: Live }): JSX.Element | null {
  if (live.state !== 'offline' && live.state !== 'refused') return null;
  return (
    <p class="banner" role="alert">
      <Icon name="warn" tone="bad" /> {live.error}
      {live.state === 'offline' && ' What you see is what was last known; this goes on by itself.'}
    </p>
  );
}

type Opened = { title: string; close: () => void; children: ComponentChildren; wide?: boolean; asks?: boolean };

// Modal is a dialog that Escape closes, and that gives the focus back. One that asks has
// buttons of its own.
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

// Grid is a table that is scrolled by itself.
export function Grid({ label, heads, children }: { label: string; heads: string[]; children: ComponentChildren }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table>
        <thead>
          <tr>{heads.map(head => (head ? <th key={head}>{head}</th> : <td key={head} />))}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Tools({ help }: { help: () => void }): JSX.Element {
  const [theme, set] = useTheme();
  const dark = theme === 'dark' || (theme === '' && matchMedia('(prefers-color-scheme: dark)').matches);
  return (
    <div class="tools">
      <button type="button" class="bare" aria-label={dark ? 'Light colours' : 'Dark colours'} onClick={() => set(dark ? 'light' : 'dark')}>
        <Icon name={dark ? 'light' : 'dark'} />
      </button>
      <button type="button" class="bare" aria-label="Keys and help" onClick={help}>
        <Icon name="keys" />
      </button>
    </div>
  );
}

export function Help({ close }: { close: () => void }): JSX.Element {
  const rows: [string, string][] = [
    ['j k', 'next and previous Rollout'],
    ['Enter', 'open it'],
    ['/', 'filter'],
    ['letters on buttons', 'what the button does, after it was confirmed'],
    ['Esc', 'close, or back to the list'],
    ['?', 'this'],
  ];
  return (
    <Modal title="Keys" close={close}>
      <dl class="keys">
        {rows.map(([key, text]) => (
          <div key={key}>
            <dt>{key.split(' ').map(k => (key.startsWith('letters') ? `${k} ` : <kbd key={k}>{k}</kbd>))}</dt>
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
