// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useReducer, useState } from 'preact/hooks';

import { isAborted, say } from './api';

// Place is the address of a page: #/?…, #/decisions?…, #/NAMESPACE/NAME, #/NAMESPACE/NAME/compare/11/12.
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
  return pageAt('#/', query);
}

export function decisionsAt(query: Record<string, string>): string {
  return pageAt('#/decisions', query);
}

function pageAt(page: string, query: Record<string, string>): string {
  const kept = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''));
  return kept.size > 0 ? `${page}?${kept}` : page;
}

// page describes a page of another program. Such a page has its own keys and addresses, and may hide its document.
export const page = { within: false, announcer: null as HTMLElement | null, document };

// useNow returns the time and updates it, so that all ages on a page change together.
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

// useDraw draws again, at most once in 50 milliseconds.
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

// useAsked sends a request again when a dependency changes, and cancels the request before.
export function useAsked(ask: (signal: AbortSignal) => Promise<void>, fail: (why: string) => void, on: unknown[]): void {
  useEffect(() => {
    const asked = new AbortController();
    ask(asked.signal).catch((err: unknown) => {
      if (!isAborted(err)) fail(say(err));
    });
    return () => asked.abort();
  }, on);
}

// kept reads and writes settings of this browser, which may refuse to store them.
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
      /* The setting then lasts as long as the page. */
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

// announce makes a screen reader read a text, once.
export function announce(text: string): void {
  const region = page.announcer ?? document.getElementById('announcer');
  if (region && region.textContent !== text) region.textContent = text;
}

export type Keys = Record<string, () => void>;

// actionKeys are the keys of the actions of the page, for the help.
export const actionKeys = new Map<string, string>();

export const keysOn = () => !page.within && kept.get('keys') !== 'off';

// useKeys binds single keys while the user types nothing, no dialog is open, and keys are on.
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
