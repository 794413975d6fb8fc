// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Times, numbers and versions as people read them.

import type { PastRelease, RouteMatch } from './wire';

const steps: [number, string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'm'],
  [1, 's'],
];

export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const at = Math.max(
    0,
    steps.findIndex(([size]) => whole >= size * (size === 60 ? 2 : 1)),
  );
  const [size, unit] = whole === 0 ? ([1, 's'] as const) : steps[at]!;
  const amount = Math.floor(whole / size);
  const next = steps[at + 1];
  const rest = next && amount < 10 ? Math.floor((whole % size) / next[0]) : 0;
  return rest > 0 && next && size > 60 ? `${amount}${unit}${rest}${next[1]}` : `${amount}${unit}`;
}

export function between(from?: string, to?: string | number): string {
  if (!from || to === undefined) return '';
  return span(((typeof to === 'number' ? to : Date.parse(to)) - Date.parse(from)) / 1000);
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

export function moment(time: string, now: number): string {
  const at = new Date(time);
  return (at.toDateString() === new Date(now).toDateString() ? clock : day).format(at);
}

// shortDuration shortens a duration of Go: 1m0s is 1m.
export function shortDuration(duration?: string): string {
  return duration?.replace(/(\D)0s$/, '$1').replace(/(\D)0m$/, '$1') ?? '';
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`;
}

export function share(part: number, of: number): string {
  if (of === 0) return 'none';
  const percent = (100 * part) / of;
  return `${percent > 0 && percent < 10 ? percent.toFixed(2) : percent.toFixed(percent === 0 || percent === 100 ? 0 : 1)}%`;
}

// image returns an image without its registry and its folder.
export function image(name?: string): string {
  return name?.split('/').at(-1) ?? '';
}

// plainly shows a sentence of the server with local times and with durations in one unit. It leaves out how long a
// wait has lasted, because the page shows that beside the sentence and counts on.
export function plainly(sentence: string, now: number): string {
  return sentence
    .replace(/,? (?:since|for) \d+ (?:second|minute|hour|day)s?(?=[.:,]|$)/, '')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, time => moment(time, now))
    .replace(/\b(\d{3,}) seconds\b/g, (all, seconds: string) => (Number(seconds) % 60 === 0 ? `${Number(seconds) / 60} minutes` : all));
}

// sentence returns a text as a sentence of its own.
export function sentence(text: string): string {
  const whole = text.trim();
  if (!whole) return '';
  return whole[0]!.toUpperCase() + whole.slice(1) + (/[.!?:…]$/.test(whole) ? '' : '.');
}

// includesText reports whether a text has already been shown as a part of another one.
export function includesText(shown: string[], text: string): boolean {
  const bare = (of: string) => of.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
  const wanted = bare(text);
  return wanted !== '' && shown.some(other => bare(other).includes(wanted));
}

// initials returns up to two letters that stand for a user.
export function initials(user: string): string {
  const parts = user.replace(/^.*:/, '').replace(/@.*$/, '').split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  return ((parts[0]?.[0] ?? '?') + (parts[1]?.[0] ?? '')).toUpperCase();
}

// change returns the versions before and after a release: by its images, or else by its revisions.
export function change(of: { images?: { from?: string; to?: string }[]; stable?: string; revision?: string }): [string, string] {
  const images = (of.images ?? []).filter(i => i.from || i.to);
  if (images.length === 0) return [of.stable ?? '', of.revision ?? ''];
  const from = images.map(i => image(i.from) || 'none');
  const to = images.map(i => image(i.to) || 'none');
  const [a, b] = [from[0]!.split(':'), to[0]!.split(':')];
  // If one image changes only its tag, the tags are the versions.
  if (images.length === 1 && a[0] === b[0] && a[1] && b[1]) return [a.slice(1).join(':'), b.slice(1).join(':')];
  return [from.join(', '), to.join(', ')];
}

// keepsStable reports whether the stable version serves after a release.
export function keepsStable({ outcome }: PastRelease): boolean {
  return outcome === 'aborted' || outcome === 'cancelled';
}

// matchText describes the requests that a step of a Rollout selects, in the words of the server: x-canary: yes.
export function matchText(matches: RouteMatch[]): string {
  const one = (m: RouteMatch) =>
    [
      m.path?.value && `${m.path.value}${{ Exact: '', RegularExpression: ' (regular expression)' }[m.path.type ?? ''] ?? '*'}`,
      ...(m.headers ?? []).map(h => `${h.name}${h.type === 'RegularExpression' ? ' =~ ' : ': '}${h.value}`),
      ...(m.queryParams ?? []).map(q => `?${q.name}${q.type === 'RegularExpression' ? '=~' : '='}${q.value}`),
    ]
      .filter(Boolean)
      .join(' and ');
  return matches.map(one).filter(Boolean).join(' or ');
}
