// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from 'preact/hooks';

import { ask } from './api';

// About describes the program that serves the pages: its version, and the cluster that it serves.
export interface About {
  version?: string;
  cluster?: string;
}

export function useAbout(): About {
  const [about, set] = useState<About>({});
  useEffect(() => {
    ask('about.json', {}, '')
      .then(async answer => set((await answer.json()) as About))
      .catch(() => undefined); // the pages work without it
  }, []);
  return about;
}
