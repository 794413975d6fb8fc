// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { render } from 'preact';

import { ask, get, server } from './api';
import { ReleasePage } from './release';
import { page } from './state';

// Host is what Argo CD and Headlamp offer to their extensions: React and a place in the page of a resource. Headlamp
// also sends requests to its clusters.
interface Host {
  createElement(type: unknown, props: object): unknown;
  useEffect(effect: () => () => void, on: unknown[]): void;
  useRef(at: null): { current: HTMLElement | null };
}
type Named = { namespace: string; name: string; uid: string };
type Tabbed = { resource: { metadata: Named }; application: { metadata: Named; spec: { project?: string } } };
type Detailed = { resource: { kind: string; cluster?: string; metadata: Named; jsonData: { apiVersion?: string } } };
type Rollouts = { items: { metadata: Named; spec: { workloadRef: { apiVersion: string } } }[] };

declare const React: Host;
declare const extensionsAPI: {
  registerResourceExtension(tab: (shown: Tabbed) => unknown, group: string, kind: string, title: string, options: { icon: string }): void;
};
declare const pluginLib: {
  React: Host;
  MuiMaterial: { useTheme(): { palette: { mode: string } } };
  ApiProxy: { request(path: string, how: RequestInit & { cluster?: string; isJSON: boolean }): Promise<Response> };
  registerDetailsViewSection(section: (shown: Detailed) => unknown): void;
};

// A Place is where a release is shown. It is drawn again when its key changes.
interface Place {
  key: string;
  dark(at: HTMLElement): boolean;
  reach: Partial<typeof server>;
  find(signal: AbortSignal): Promise<Named | undefined>;
}

// registerTab registers the page with the program that has loaded it, and reports whether there is such a program.
export function registerTab(): boolean {
  if (typeof extensionsAPI !== 'undefined') {
    extensionsAPI.registerResourceExtension(shows(React, inArgo), 'rollouts.kruise.io', 'Rollout', 'Weir', { icon: 'fa-water' });
  } else if (typeof pluginLib !== 'undefined') {
    const section = shows(pluginLib.React, inHeadlamp);
    const released = /^(apps|apps\.kruise\.io|rollouts\.kruise\.io)\//;
    pluginLib.registerDetailsViewSection(shown => released.test(shown.resource?.jsonData.apiVersion ?? '') && pluginLib.React.createElement(section, shown));
  } else return false;
  return true;
}

const inArgo = ({ resource, application: { metadata, spec } }: Tabbed): Place => ({
  key: resource.metadata.uid,
  dark: at => at.closest('.theme-dark') !== null,
  reach: {
    pages: new URL('extensions/weir/apis/rollouts.kruise.io/v1beta1/ui/', document.baseURI),
    headers: { 'Argocd-Application-Name': `${metadata.namespace}:${metadata.name}`, 'Argocd-Project-Name': spec.project || 'default' },
  },
  find: () => Promise.resolve(resource.metadata),
});

// inHeadlamp shows the page of the Rollout that names a workload.
function inHeadlamp({ resource: { kind, cluster, metadata, jsonData } }: Detailed): Place {
  const { mode } = pluginLib.MuiMaterial.useTheme().palette;
  const group = (version = '') => version.split('/')[0];
  const fieldSelector = `spec.workloadRef.kind=${kind},spec.workloadRef.name=${metadata.name}`;
  return {
    key: `${cluster} ${metadata.uid} ${mode}`,
    dark: () => mode === 'dark',
    reach: {
      pages: new URL('headlamp:/apis/rollouts.kruise.io/v1beta1/ui/'),
      headers: {},
      send: (url, how) =>
        pluginLib.ApiProxy.request(url.pathname + url.search, { ...how, isJSON: false, ...(cluster && { cluster }) }).catch((err: Error & { status?: number }) => {
          how.signal?.throwIfAborted();
          return new Response(err.message, { status: err.status ?? 502 });
        }),
    },
    find: async signal => {
      if (group(jsonData.apiVersion) === 'rollouts.kruise.io') return metadata;
      const { items } = await get<Rollouts>(`namespaces/${metadata.namespace}/rollouts`, { signal, query: { fieldSelector, limit: '10' } });
      return items.find(({ spec }) => group(spec.workloadRef.apiVersion) === group(jsonData.apiVersion))?.metadata;
    },
  };
}

function shows<Shown>({ useRef, useEffect, createElement }: Host, where: (shown: Shown) => Place): (shown: Shown) => unknown {
  return shown => {
    const at = useRef(null);
    const place = where(shown);
    useEffect(() => show(at.current!, place), [place.key]);
    return createElement('div', { ref: at });
  };
}

// All requests use the same address, so a page ends when another release is shown.
let end = () => {};

// show draws a release below an element, without the styles of the page around it. It returns a function that removes
// the release.
function show(at: HTMLElement, { dark, reach, find }: Place): () => void {
  end();
  Object.assign(server, reach);
  Object.assign(page, { within: true, document: at.ownerDocument });
  const over = new AbortController();
  const place = at.appendChild(page.document.createElement('div'));
  place.dataset['theme'] = dark(at) ? 'dark' : 'light';
  const shadow = place.attachShadow({ mode: 'open' });
  const style = new CSSStyleSheet();
  shadow.adoptedStyleSheets = [style];
  const draw = (found: Named | undefined) => {
    if (!found || over.signal.aborted) return;
    render(
      <div id="app">
        <p class="unseen" role="status" ref={region => void (page.announcer = region)} />
        <ReleasePage namespace={found.namespace} name={found.name} uid={found.uid} about={{}} />
      </div>,
      shadow,
    );
    void ask('app.css', {}, '').then(async answer => style.replace(await answer.text()));
  };
  void find(over.signal).then(draw, () => undefined);
  return (end = () => {
    over.abort();
    render(null, shadow);
    place.remove();
  });
}
