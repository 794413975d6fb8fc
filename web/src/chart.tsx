// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import { between, moment } from './text';

const most = 500;

export interface Sample {
  at: number;
  values: (number | undefined)[];
}

// Series are the values since the page was opened. A metrics server has the earlier ones.
export class Series {
  readonly samples: Sample[] = [];

  add(at: number, values: (number | undefined)[]): void {
    const last = this.samples.at(-1);
    if (last && last.values.every((v, i) => v === values[i])) return;
    if (last) this.samples.push({ at, values: last.values });
    this.samples.push({ at, values });
    if (this.samples.length > most) this.samples.splice(1, 2);
  }
}

const kept = new Map<string, Series>();

// seriesOf returns the series of a name, and forgets the oldest ones.
export function seriesOf(name: string): Series {
  let series = kept.get(name);
  if (!series) {
    series = new Series();
    kept.set(name, series);
    if (kept.size > 100) kept.delete(kept.keys().next().value!);
  }
  return series;
}

interface Drawn {
  series: Series;
  names: string[];
  label: string;
  unit?: string;
  now: number;
  least?: number;
}

const [width, height] = [600, 120];

// Chart draws lines, and has the same in words for screen readers.
export function Chart({ series, names, label, unit = '', now, least = 0 }: Drawn): JSX.Element | null {
  const { samples } = series;
  const first = samples[0];
  if (!first || samples.every(s => s.values.every(v => v === undefined))) return null;
  // A line of a few seconds shows nothing.
  if (now - first.at < 10_000 && samples.length < 3) return null;
  const end = Math.max(now, first.at + 15_000);
  const top = Math.max(least, ...samples.flatMap(s => s.values.map(v => v ?? 0))) || 1;
  const x = (at: number) => ((at - first.at) / (end - first.at)) * width;
  const y = (value: number) => height - 4 - (value / top) * (height - 12);
  const latest = samples.at(-1)!;
  const line = (i: number) =>
    [...samples, { at: now, values: latest.values }]
      .filter(s => s.values[i] !== undefined)
      .map((s, n) => `${n ? 'L' : 'M'}${x(s.at).toFixed(1)} ${y(s.values[i]!).toFixed(1)}`)
      .join('');
  const say = (value?: number) => (value === undefined ? '–' : `${Number(value.toFixed(2))}${unit}`);
  const words = names.map((name, i) => `${name} ${say(latest.values[i])}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        {label} <span class="dim">since {moment(new Date(first.at).toISOString(), now)}</span>
        {names.map((name, i) => (
          <span key={name} class={`legend line${i}`}>
            <i aria-hidden="true" />
            {name} {say(latest.values[i])}
          </span>
        ))}
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}, the last ${between(new Date(first.at).toISOString(), now)}: ${words}`}
      >
        {[0, 0.5, 1].map(part => (
          <line key={part} class="grid" x1="0" x2={width} y1={y(top * part)} y2={y(top * part)} />
        ))}
        {names.map((name, i) => (
          <path key={name} class={`line${i}`} d={line(i)} />
        ))}
      </svg>
      <span class="axis" aria-hidden="true">
        <span>{say(top)}</span>
        <span>{say(0)}</span>
      </span>
    </figure>
  );
}

// Spark is a small chart without words.
export function Spark({ series, value, now, tone }: { series: Series; value: number; now: number; tone: string }): JSX.Element | null {
  const { samples } = series;
  if (samples.length < 2) return null;
  const [from, top] = [samples[0]!.at, Math.max(1, ...samples.flatMap(s => s.values.map(v => v ?? 0)))];
  const points = [...samples, { at: now, values: samples.at(-1)!.values }].map(
    s => `${(((s.at - from) / Math.max(now - from, 1)) * 60).toFixed(1)},${(15 - ((s.values[value] ?? 0) / top) * 14).toFixed(1)}`,
  );
  return (
    <svg class={`spark ${tone}`} viewBox="0 0 60 16" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  );
}
