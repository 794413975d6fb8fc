// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { post, say } from './api';
import { Note } from './icons';

// Login sends a token to the program that serves the pages. The program stores the token where no page can read it.
export function Login(): JSX.Element {
  const [token, set] = useState('');
  const [error, fail] = useState('');
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await post('ui/session', { token: token.trim() });
      location.reload();
    } catch (err) {
      fail(say(err));
    }
  };
  return (
    <main class="login">
      <section>
        <h1 tabIndex={-1}>Sign in to Weir</h1>
        <form onSubmit={event => void submit(event)}>
          <label>
            Kubernetes token
            <input type="password" autocomplete="off" required value={token} onInput={event => set(event.currentTarget.value)} />
          </label>
          <p class="dim small">
            Kept for eight hours. Create one with <code>kubectl create token NAME</code>.
          </p>
          <div role="alert">{error && <Note of="Error">{error}</Note>}</div>
          <button type="submit" class="main">
            Sign in
          </button>
        </form>
      </section>
    </main>
  );
}
