// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { render, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { signIn } from './api';
import { useAbout } from './about';
import { Bar, Help } from './frame';
import { Decisions } from './decisions';
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
  const about = useAbout();
  useEffect(() => addEventListener(signIn, () => ask(true)), []);
  useKeys({ '?': () => help(true) });
  const [namespace, name, page, from, next] = place.parts;
  const at = place.parts.join('/');
  useEffect(() => {
    document.querySelector<HTMLElement>('h1')?.focus();
    scrollTo({ top: 0 });
  }, [at]);
  useEffect(() => {
    document.title = [at, about.cluster, 'Weir'].filter(Boolean).join(' · ');
  }, [at, about.cluster]);
  return (
    <>
      <Bar about={about} help={() => help(true)} />
      {asked ? (
        <Login />
      ) : page === 'compare' && from && next ? (
        <Compare namespace={namespace!} name={name!} from={from} next={next} about={about} />
      ) : name ? (
        <ReleasePage key={at} namespace={namespace!} name={name} about={about} />
      ) : at === 'decisions' ? (
        <Decisions place={place} about={about} />
      ) : (
        <List place={place} about={about} />
      )}
      {helping && <Help close={() => help(false)} />}
    </>
  );
}

if (!registerTab()) render(<App />, document.getElementById('app')!);
