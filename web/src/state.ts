// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useReducer, useState } from 'preact/hooks';

import { isAborted, say } from './api';

// Where the page is: #/?…, #/NAMESPACE/NAME, #/NAMESPACE/NAME/compare/11/12.
export interface Place {
  parts: string[];
  query: URLSearchParams;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { parts: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

export function usePlace(): Place {
  const [place, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return place;
}

export function to(...parts: (string | number)[]): string {
  return `#/${parts.map(part => encodeURIComponent(part)).join('/')}`;
}

export function listAt(query: Record<string, string>): string {
  const kept = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''));
  return kept.size > 0 ? `#/?${kept}` : '#/';
}

// page is what differs in a page of another program: it has keys and places of its own, and
// may keep its document from what it runs.
export const page = { within: false, announcer: null as HTMLElement | null, document };

// useNow is the time, again each few seconds: all ages on a page move together.
export function useNow(every = 1000): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!page.document.hidden) set(Date.now());
    }, every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

// useDraw draws again, once per frame however often it is called.
export function useDraw(): () => void {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const [throttled] = useState(() => {
    let asked = false;
    return () => {
      if (asked) return;
      asked = true;
      setTimeout(() => {
        asked = false;
        draw(undefined as never);
      }, 50);
    };
  });
  return throttled;
}

// useAsked asks a server again as something changes, and no longer for what was before.
export function useAsked(ask: (signal: AbortSignal) => Promise<void>, fail: (why: string) => void, on: unknown[]): void {
  useEffect(() => {
    const asked = new AbortController();
    ask(asked.signal).catch((err: unknown) => {
      if (!isAborted(err)) fail(say(err));
    });
    return () => asked.abort();
  }, on);
}

// What a browser may refuse to keep.
export const kept = {
  get(key: string): string {
    try {
      return localStorage.getItem(`weir-${key}`) ?? '';
    } catch {
      return '';
    }
  },
  set(key: string, value: string): void {
    try {
      localStorage.setItem(`weir-${key}`, value);
    } catch {
      /* it is for this page only then */
    }
  },
};

export type Theme = '' | 'light' | 'dark';

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, set] = useState<Theme>(kept.get('theme') as Theme);
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    kept.set('theme', theme);
  }, [theme]);
  return [theme, set];
}

// announce has a screen reader say something, once.
export function announce(text: string): void {
  const region = page.announcer ?? document.getElementById('announcer');
  if (region && region.textContent !== text) region.textContent = text;
}

export type Keys = Record<string, () => void>;

export const keysOn = () => !page.within && kept.get('keys') !== 'off';

// useKeys binds single keys while nothing is typed, no dialog is open, and they are not
// switched off.
export function useKeys(keys: Keys): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!keysOn() || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const at = event.target as HTMLElement;
      if (at.closest('input, textarea, select, [contenteditable]') || document.querySelector('dialog[open]')) return;
      const action = keys[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  });
}
