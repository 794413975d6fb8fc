// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from 'preact/hooks';

import { Refused, ask, isAborted, lines, say } from './api';
import type { Status } from './kube';
import { page } from './state';

const hiddenFor = 30_000;
const pollEvery = 5_000;
const longestWait = 15_000;
// The next stream starts at least this long after the one before.
const shortest = 2_000;

export interface Live {
  state: 'connecting' | 'live' | 'polling' | 'offline' | 'asleep' | 'refused';
  error?: string;
  code?: number;
}

// Followed is what a page follows: by a watch, or by polling if no watch is possible.
export interface Followed {
  // watch resolves when the server has ended the stream.
  watch(signal: AbortSignal, live: () => void): Promise<void>;
  poll(signal: AbortSignal): Promise<void>;
  end(): void;
}

// useLive follows what a page shows, and returns the state of the connection.
export function useLive(what: Followed): Live {
  const [live, told] = useState<Live>({ state: 'connecting' });
  useEffect(() => {
    told({ state: 'connecting' });
    return follow(what, told);
  }, [what]);
  return live;
}

// follow keeps one stream per tab. It ends the stream half a minute after the tab is hidden, and starts a new one
// when the tab is visible again. After each failure it waits longer. It returns a function that ends the stream.
function follow(what: Followed, told: (live: Live) => void): () => void {
  let round = new AbortController();
  let wake = () => {};
  let over = false;
  let asleep = false;
  let hiding: number | undefined;

  const pause = (milliseconds: number) =>
    new Promise<void>(done => {
      const timer = setTimeout(done, milliseconds);
      wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  const seen = () => {
    clearTimeout(hiding);
    if (page.document.hidden) {
      hiding = setTimeout(() => {
        asleep = true;
        round.abort();
        told({ state: 'asleep' });
      }, hiddenFor);
    } else {
      asleep = false;
      wake();
    }
  };
  const online = () => wake();
  const offline = () => round.abort();
  page.document.addEventListener('visibilitychange', seen);
  addEventListener('online', online);
  addEventListener('offline', offline);

  void (async () => {
    let failures = 0;
    let polls = false;
    while (!over) {
      if (asleep) {
        await pause(3_600_000);
        continue;
      }
      round = new AbortController();
      try {
        if (polls) {
          await what.poll(round.signal);
          told({ state: 'polling' });
          failures = 0;
          await pause(pollEvery);
          continue;
        }
        const began = Date.now();
        await what.watch(round.signal, () => {
          failures = 0;
          told({ state: 'live' });
        });
        if (Date.now() - began < shortest) await pause(shortest);
        continue;
      } catch (err) {
        if (over) return;
        const next = after(err, polls);
        polls = next.polls;
        if (next.live) told(next.live);
        if (next.again) continue;
      }
      failures++;
      if (!asleep) await pause(navigator.onLine ? Math.min(500 * 2 ** failures, longestWait) : longestWait);
    }
  })();

  return () => {
    over = true;
    clearTimeout(hiding);
    page.document.removeEventListener('visibilitychange', seen);
    removeEventListener('online', online);
    removeEventListener('offline', offline);
    round.abort();
    wake();
    what.end();
  };
}

// after returns how to continue after a failure.
function after(err: unknown, polls: boolean): { polls: boolean; again?: boolean; live?: Live } {
  if (isAborted(err) && navigator.onLine) return { polls };
  if (!(err instanceof Refused)) return { polls, live: { state: 'offline', error: isAborted(err) ? 'Connection lost.' : say(err) } };
  // The version of the watch is too old, or no watch is possible. Reading may still be possible.
  if (err.code === 410) return { polls, again: true };
  if (!polls && [403, 404, 405, 429].includes(err.code)) return { polls: true, again: true };
  const busy = err.code >= 500 || err.code === 429;
  return { polls, live: { state: busy ? 'offline' : 'refused', error: err.message, code: err.code } };
}

// events reads a watch until the server ends it.
export async function events<T>(
  path: string,
  asked: { query?: Record<string, string>; accept?: string; signal: AbortSignal },
  open: () => void,
  each: (type: string, object: T) => void,
): Promise<void> {
  const answer = await ask(path, asked);
  open();
  for await (const line of lines(answer)) {
    const event = JSON.parse(line) as { type: string; object: T };
    if (event.type === 'ERROR') {
      const status = event.object as unknown as Status;
      throw new Refused(status.code ?? 500, status.message ?? 'The watch has ended.');
    }
    each(event.type, event.object);
  }
}
