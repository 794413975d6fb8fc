// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Times and numbers as people read them.

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

// go says a duration of Go shorter: 1m0s is 1m.
export function go(duration?: string): string {
  return duration?.replace(/(\D)0s$/, '$1').replace(/(\D)0m$/, '$1') ?? '';
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`;
}

export function share(part: number, of: number): string {
  if (of === 0) return 'none';
  const percent = (100 * part) / of;
  return `${percent > 0 && percent < 10 ? percent.toFixed(2) : percent.toFixed(percent === 0 || percent === 100 ? 0 : 1)} %`;
}

// image leaves out what both images of a change have in common.
export function image(name?: string): string {
  return name?.split('/').at(-1) ?? '';
}

// plainly says a sentence with the times of this place; how long something lasts is drawn
// beside it, and goes on.
export function plainly(sentence: string, now: number): string {
  return sentence.replace(/, since \d+ \w+/, '').replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, time => moment(time, now));
}

// words says an identifier as words: AtRest is at rest.
export function words(identifier: string): string {
  return identifier.replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
}

// title says a release by its images, or else by its revisions.
export function change(of: { images?: { from?: string; to?: string }[]; stable?: string; revision?: string }): [string, string] {
  const images = (of.images ?? []).filter(i => i.from || i.to);
  if (images.length === 0) return [of.stable ?? '', of.revision ?? ''];
  const from = images.map(i => image(i.from) || 'none');
  const to = images.map(i => image(i.to) || 'none');
  const [a, b] = [from[0]!.split(':'), to[0]!.split(':')];
  // One image with another tag: the tags say it.
  if (images.length === 1 && a[0] === b[0] && a[1] && b[1]) return [a.slice(1).join(':'), b.slice(1).join(':')];
  return [from.join(', '), to.join(', ')];
}
