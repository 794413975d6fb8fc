// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// The namespaces that a page shows. A user who may not list all namespaces enters some, and this browser remembers them.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { kept } from './state';

function remembered(): string[] {
  return kept.get('namespaces').split(' ').filter(Boolean);
}

// sortedNamespaces returns the namespaces that this browser remembers.
export function sortedNamespaces(): string[] {
  return remembered().sort();
}

export function remember(namespace: string): void {
  if (namespace) kept.set('namespaces', [namespace, ...remembered().filter(n => n !== namespace)].slice(0, 20).join(' '));
}

export function forget(namespace: string): void {
  kept.set('namespaces', remembered().filter(n => n !== namespace).join(' '));
}

interface Own {
  own: string[];
  // at returns the address of the page for one namespace.
  at: (namespace: string) => string;
  unreadable: string[];
  add: (namespace: string) => void;
  remove: (namespace: string) => void;
}

// OwnNamespaces lists the namespaces of a user who may not list all, and adds others.
export function OwnNamespaces({ own, at, unreadable, add, remove }: Own): JSX.Element {
  return (
    <section class="own" aria-label="Your namespaces">
      <p>{own.length === 0 ? "You can't list Rollouts in all namespaces. Enter a namespace:" : "You can't list Rollouts in all namespaces. Your namespaces:"}</p>
      {own.length > 0 && (
        <ul>
          {own.map(n => (
            <li key={n} class={`tag ${unreadable.includes(n) ? 'bad' : ''}`}>
              <a href={at(n)}>{n}</a>
              {unreadable.includes(n) && ' (no access)'}
              <button type="button" class="bare" aria-label={`Forget namespace ${n}`} onClick={() => remove(n)}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <Namespace label="Namespace" hint={own.length === 0 ? 'namespace' : 'add a namespace'} value="" set={n => n && add(n)} />
    </section>
  );
}

interface Entry {
  label: string;
  hint: string;
  value: string;
  set: (namespace: string) => void;
}

// Namespace is an input whose text is the user's until it is submitted: the list may be drawn at any time.
export function Namespace({ label, hint, value, set }: Entry): JSX.Element {
  const [text, type] = useState(value);
  useEffect(() => type(value), [value]);
  const submit = () => {
    if (text.trim() === value) return;
    set(text.trim());
    if (value === '') type('');
  };
  return (
    <form
      class="namespace"
      onSubmit={event => {
        event.preventDefault();
        submit();
      }}
    >
      <label>
        <span class="unseen">{label}</span>
        <input
          list="namespaces"
          placeholder={hint}
          value={text}
          autocomplete="off"
          spellcheck={false}
          onInput={event => type(event.currentTarget.value)}
          onChange={submit}
        />
      </label>
      <datalist id="namespaces">
        {remembered().map(n => (
          <option key={n} value={n} />
        ))}
      </datalist>
    </form>
  );
}
