// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import type { JSX } from 'preact';

import type { ReleaseRef } from './wire';

// Source shows the commit, the author and the link of a release, as far as the owner of the workload names them.
export function Source({ of: { source } }: { of: ReleaseRef }): JSX.Element | null {
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
