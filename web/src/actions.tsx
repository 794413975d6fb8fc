// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { isDestructive, isPrimary, titleOf } from './severity';
import { announce } from './state';
import type { Action } from './wire';

interface Props {
  // actions are those that the user may use, in the server's order.
  actions: Action[];
  // urgent reports whether the release needs a person, so that the first button is filled.
  urgent: boolean;
  keys: Map<Action, string>;
  act: (action: Action) => void;
}

// Actions are the buttons of a release, in the server's order. Impossible ones, and on a phone all but the first safe
// one, are behind More.
export function Actions({ actions, urgent, keys, act }: Props): JSX.Element | null {
  const [open, toggle] = useState(false);
  const possible = actions.filter(a => a.possible);
  const impossible = actions.filter(a => !a.possible);
  if (possible.length === 0) return null;
  const first = possible.find(isPrimary);
  const others = possible.filter(a => a !== first);
  const button = (action: Action, kind = '') => {
    const key = keys.get(action);
    const effect = action.reason ?? '';
    return (
      <button
        key={`${action.path} ${actions.indexOf(action)}`}
        type="button"
        class={`${kind} ${action.possible && isDestructive(action) ? 'danger' : ''}`.trim()}
        aria-disabled={action.possible ? undefined : true}
        aria-description={effect || undefined}
        title={[effect, action.possible && key && `Key: ${key}`].filter(Boolean).join(' ')}
        aria-keyshortcuts={action.possible ? key : undefined}
        onClick={() => (action.possible ? act(action) : announce(action.reason ?? 'This is not possible now.'))}
      >
        {titleOf(action)}
        {action.possible && '…'}
      </button>
    );
  };
  return (
    <div class="actions" role="group" aria-label="What you can do">
      {first && button(first, urgent ? 'main' : '')}
      <div class={`others ${open ? 'open' : ''}`}>{others.map(action => button(action))}</div>
      {(impossible.length > 0 || others.length > 0) && (
        <button type="button" class={`more ${impossible.length > 0 ? '' : 'narrow'}`} aria-expanded={open} onClick={() => toggle(!open)}>
          {open ? 'Less' : 'More'}
        </button>
      )}
      {open && impossible.length > 0 && (
        <ul class="impossible" aria-label="Not possible now">
          {impossible.map(action => (
            <li key={actions.indexOf(action)}>
              {button(action)} <span class="dim small">{action.reason}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

// letters are the keys of the actions, which are those of kubectl weir get -w.
const letters: Record<string, string> = { promote: 'p', full: 'f', abort: 'a', rollback: 'b', retry: 'r', pause: 'z', resume: 'u', jump: 'j' };

// lettered gives each action its key. An action of a newer server gets a letter that no other one has.
export function lettered(actions: Action[]): Map<Action, string> {
  const keys = new Map<Action, string>();
  const taken = new Set(Object.values(letters));
  for (const action of actions) {
    const name = action.body?.['full'] === true ? 'full' : action.verb;
    const known = Object.hasOwn(letters, name) ? letters[name] : undefined;
    if (known && [...keys.values()].includes(known)) continue;
    const letter = known ?? [...`${action.verb}cdeghiklmnoqstvwxy`].find(c => !taken.has(c)) ?? '';
    if (!letter) continue;
    taken.add(letter);
    keys.set(action, letter);
  }
  return keys;
}
