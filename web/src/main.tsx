// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { render, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { signIn } from './api';
import { Help, Tools } from './frame';
import { Compare } from './history';
import { List } from './list';
import { Login } from './login';
import { ReleasePage } from './release';
import { useKeys, usePlace } from './state';
import { registerTab } from './tab';

function App(): JSX.Element {
  const place = usePlace();
  const [helping, help] = useState(false);
  const [asked, ask] = useState(false);
  useEffect(() => addEventListener(signIn, () => ask(true)), []);
  useKeys({ '?': () => help(true) });
  const [namespace, name, page, from, next] = place.parts;
  const at = place.parts.join('/');
  useEffect(() => {
    document.title = at ? `${at} · Weir` : 'Weir';
    document.querySelector<HTMLElement>('h1')?.focus();
    scrollTo({ top: 0 });
  }, [at]);
  return (
    <>
      <Tools help={() => help(true)} />
      {asked ? (
        <Login />
      ) : page === 'compare' && from && next ? (
        <Compare namespace={namespace!} name={name!} from={from} next={next} />
      ) : name ? (
        <ReleasePage key={at} namespace={namespace!} name={name} />
      ) : (
        <List place={place} />
      )}
      {helping && <Help close={() => help(false)} />}
    </>
  );
}

if (!registerTab()) render(<App />, document.getElementById('app')!);
