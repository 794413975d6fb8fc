// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from 'preact';

// Each path is drawn in a box of 16 by 16, and stands beside a word.
const paths: Record<string, string> = {
  check: 'M3 8.5 6.5 12 13 4.5',
  cross: 'M4 4l8 8M12 4l-8 8',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3.2v9.6L12.5 8z',
  clock: 'M8 4.5V8l2.5 1.5M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z',
  ring: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z',
  turn: 'M13 8a5 5 0 1 1-1.6-3.7M13 2.2v3.2H9.8',
  back: 'M6.5 4 2.5 8l4 4M3 8h10.5',
  warn: 'M8 2.2 14.3 13.2H1.7zM8 6.5v3M8 11.4v.1',
  info: 'M8 7v4.2M8 4.7v.1M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z',
  dark: 'M13 9.6A5.5 5.5 0 0 1 6.4 3 5.5 5.5 0 1 0 13 9.6z',
  light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13',
  keys: 'M1.5 4h13v8.5h-13zM4 6.7h.1M7 6.7h.1M10 6.7h.1M12.4 6.7h.1M5 9.8h6',
  next: 'M6 3.5 10.5 8 6 12.5',
  weir: 'M2.5 5.5 Q4.25 3.5 6 5.5 T9.5 5.5 T13 5.5 M2.5 10 Q4.25 8 6 10 T9.5 10 T13 10',
};

export function Icon({ name, tone }: { name: string; tone?: string }): JSX.Element {
  return (
    <svg class={`icon ${tone ?? ''}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name] ?? paths['ring']!} />
    </svg>
  );
}

// marks has an icon and a tone for words of the server. Other words get a ring.
const marks: Record<string, [string, string]> = {
  AtRest: ['check', 'good'],
  NotReady: ['warn', 'wait'],
  Disabled: ['ring', 'calm'],
  Failing: ['cross', 'bad'],
  Moving: ['turn', 'busy'],
  Waiting: ['pause', 'wait'],
  Stalled: ['cross', 'bad'],
  Paused: ['pause', 'calm'],
  Aborting: ['back', 'bad'],
  Aborted: ['cross', 'bad'],
  Ending: ['turn', 'busy'],
  Healthy: ['check', 'good'],
  Progressing: ['turn', 'busy'],
  Suspended: ['pause', 'calm'],
  Degraded: ['cross', 'bad'],
  Missing: ['cross', 'bad'],
  Done: ['check', 'good'],
  Current: ['play', 'wait'],
  Next: ['ring', 'calm'],
  Stopped: ['cross', 'bad'],
  Back: ['back', 'calm'],
  End: ['ring', 'calm'],
  Running: ['turn', 'busy'],
  Passed: ['check', 'good'],
  Failed: ['cross', 'bad'],
  Inconclusive: ['clock', 'wait'],
  Skipped: ['ring', 'calm'],
  Error: ['cross', 'bad'],
  Warning: ['warn', 'wait'],
  Info: ['info', 'calm'],
  succeeded: ['check', 'good'],
  aborted: ['cross', 'bad'],
  cancelled: ['back', 'calm'],
  superseded: ['next', 'calm'],
};

export function mark(word?: string): [string, string] {
  return Object.hasOwn(marks, word ?? '') ? marks[word ?? '']! : ['ring', 'calm'];
}

export function Mark({ of }: { of?: string }): JSX.Element {
  const [name, tone] = mark(of);
  return <Icon name={name} tone={tone} />;
}

// Note is a message that stands out from the text around it.
export function Note({ of, children }: { of: string; children: ComponentChildren }): JSX.Element {
  return (
    <p class={`note ${mark(of)[1]}`}>
      <Mark of={of} /> {children}
    </p>
  );
}
