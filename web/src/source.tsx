// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import type { ReleaseRef } from './wire';

// Sourced is a release whose owner says what was built into it.
type Sourced = ReleaseRef & { source?: { version?: string; commit?: string; author?: string; repository?: string; link?: string } };

// Source shows the commit, the author and the link of a release.
export function Source({ of: { source } }: { of: Sourced }): JSX.Element | null {
  if (!source) return null;
  const { version, commit, author, repository, link } = source;
  const address = [link, repository].find(a => /^https?:\/\//.test(a ?? ''));
  // A commit is a long hash, of which people know the beginning.
  const short = commit && (/^[0-9a-f]{12,}$/.test(commit) ? commit.slice(0, 8) : commit);
  const text = [version, short].filter(Boolean).join(' ');
  return (
    <p class="source dim">
      {address ? (
        <a href={address} target="_blank" rel="noopener noreferrer">
          {text || 'change'}
        </a>
      ) : (
        text
      )}
      {author && ` by ${author}`}
    </p>
  );
}
