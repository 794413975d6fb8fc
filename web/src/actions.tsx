// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { same } from './dialog';
import { announce } from './state';
import type { Action } from './wire';

interface Props {
  // actions are those that the one who looks may use, in the server's order.
  actions: Action[];
  // waits reports whether the release waits for one of them.
  waits: boolean;
  keys: Map<Action, string>;
  act: (action: Action) => void;
}

// Actions are the buttons of a release. One that is not possible now says why.
export function Actions({ actions, waits, keys, act }: Props): JSX.Element | null {
  const [open, toggle] = useState(false);
  const first = actions.find(a => a.possible);
  const others = actions.filter(a => a !== first);
  // At rest nothing is possible, and all of it would say the same.
  if (!first) return null;
  const button = (action: Action, kind = '') => (
    <button
      key={`${action.path} ${actions.indexOf(action)}`}
      type="button"
      class={kind}
      aria-disabled={action.possible ? undefined : true}
      aria-description={action.reason}
      title={action.reason}
      aria-keyshortcuts={keys.get(action)}
      onClick={() => (action.possible ? act(action) : announce(action.reason ?? 'This is not possible now.'))}
    >
      {action.title}
      {action.possible && '…'} <kbd aria-hidden="true">{keys.get(action)}</kbd>
    </button>
  );
  return (
    <div class="actions" role="group" aria-label="What you can do">
      {button(first, waits ? 'main' : '')}
      {others.length > 0 && (
        <button type="button" class="more" aria-expanded={open} onClick={() => toggle(!open)}>
          {open ? 'Less' : 'More'}
        </button>
      )}
      <div class={`others ${open ? 'open' : ''}`}>{others.map(action => button(action))}</div>
    </div>
  );
}

// lettered gives each action a key: the first letter of its verb that no other one has.
export function lettered(actions: Action[]): Map<Action, string> {
  const taken = new Set(['j', 'k']);
  const keys = new Map<Action, string>();
  for (const action of actions) {
    if ([...keys.keys()].some(other => same(other, action))) continue;
    const letter = [...`${action.verb}abcdefghilmnopqrstuvwxyz`].find(c => !taken.has(c)) ?? '';
    taken.add(letter);
    keys.set(action, letter);
  }
  return keys;
}
