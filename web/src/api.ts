// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { Status } from './kube';

// The pages are at …/apis/GROUP/VERSION/ui/, and their requests are relative to this address. A page of another
// program sets the address, the headers and the function that sends.
export const server = {
  pages: new URL(location.href.split(/[?#]/)[0]!),
  headers: {} as Record<string, string>,
  send: (url: URL, how: RequestInit): Promise<Response> => fetch(url, how),
};

// A program that serves the pages to one user adds a secret to the address. No other page of this machine can read
// the secret.
const secretKey = 'weir-secret';
const given = /^#secret=([\w-]+)/.exec(location.hash);
if (given) {
  sessionStorage.setItem(secretKey, given[1]!);
  history.replaceState(null, '', '#/');
}
const secret = sessionStorage.getItem(secretKey);
if (secret) server.headers['X-Weir-Secret'] = secret;

export class Refused extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason = '',
  ) {
    super(message);
  }
}

// signIn is the event of a program that needs the token of its user.
export const signIn = 'weir-sign-in';

// Unreached is the error of a server that does not answer.
export class Unreached extends Error {}

export function isAborted(err: unknown): boolean {
  return err instanceof DOMException && err.name === 'AbortError';
}

export function say(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}

type Asked = { method?: string; body?: unknown; type?: string; accept?: string; signal?: AbortSignal; query?: Record<string, string> };

export async function ask(path: string, asked: Asked = {}, base = '../'): Promise<Response> {
  const url = new URL(base + path, server.pages);
  // Without this parameter, the server indents JSON for browsers.
  for (const [key, value] of Object.entries({ pretty: 'false', ...asked.query })) url.searchParams.set(key, value);
  const headers: Record<string, string> = { Accept: asked.accept ?? 'application/json', ...server.headers };
  if (asked.body !== undefined) headers['Content-Type'] = asked.type ?? 'application/json';
  let answer: Response;
  try {
    const { method = 'GET', signal, body } = asked;
    answer = await server.send(url, { method, headers, redirect: 'error', ...(signal && { signal }), ...(body !== undefined && { body: JSON.stringify(body) }) });
  } catch (err) {
    if (isAborted(err)) throw err;
    throw new Unreached('Connection lost.');
  }
  if (answer.ok) return answer;
  throw await refusal(answer);
}

async function refusal(answer: Response): Promise<Refused> {
  const text = await answer.text();
  if (answer.status === 401 && answer.headers.get('WWW-Authenticate')?.startsWith('Weir-Token')) dispatchEvent(new Event(signIn));
  try {
    const status = JSON.parse(text) as Status;
    if (status.message) return new Refused(answer.status, status.message, status.reason);
  } catch {
    // The answer is not a Status: a proxy has answered.
  }
  return new Refused(answer.status, text.slice(0, 300) || `The server answered ${answer.status}.`);
}

export async function get<T>(path: string, asked: Asked = {}, base = '../'): Promise<T> {
  return (await (await ask(path, asked, base)).json()) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return await get<T>(path, { method: 'POST', body, ...(signal && { signal }) });
}

export function rollout(namespace: string, name: string): string {
  return `namespaces/${encodeURIComponent(namespace)}/rollouts/${encodeURIComponent(name)}`;
}

// lines reads an answer line by line, which is the format of watches.
export async function* lines(answer: Response): AsyncGenerator<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((err: unknown) => {
        if (isAborted(err)) throw err;
        throw new Unreached('Connection lost.');
      });
      if (done) return;
      const parts = (rest + value).split('\n');
      rest = parts.pop()!;
      yield* parts.filter(part => part.trim() !== '');
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
