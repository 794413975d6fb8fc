// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

import { render } from 'preact';

import { server } from './api';
import { ReleasePage } from './release';
import { page } from './state';

// What Argo CD has for its extensions: React, and a place in the panel of a resource.
interface Host {
  React: {
    createElement(type: string, props: object): unknown;
    useEffect(effect: () => () => void, on: unknown[]): void;
    useRef(at: null): { current: HTMLElement | null };
  };
  extensionsAPI?: {
    registerResourceExtension(component: (shown: Shown) => unknown, group: string, kind: string, title: string, options: { icon: string }): void;
  };
}

type Named = { metadata: { namespace: string; name: string; uid: string } };
type Shown = { resource: Named; application: Named & { spec: { project?: string } } };

// registerTab has Argo CD show releases in a tab, and reports whether this is Argo CD.
export function registerTab(): boolean {
  const { React, extensionsAPI } = window as unknown as Host;
  if (!extensionsAPI) return false;
  const Tab = (shown: Shown) => {
    const at = React.useRef(null);
    React.useEffect(() => show(at.current!, shown), [shown.resource.metadata.uid]);
    return React.createElement('div', { ref: at });
  };
  extensionsAPI.registerResourceExtension(Tab, 'rollouts.kruise.io', 'Rollout', 'Weir', { icon: 'fa-water' });
  return true;
}

// show draws a release below an element, apart from the styles of the page. It returns what
// ends it.
function show(at: HTMLElement, { resource, application }: Shown): () => void {
  const { namespace, name, uid } = resource.metadata;
  server.pages = new URL('extensions/weir/apis/rollouts.kruise.io/v1beta1/ui/', document.baseURI);
  server.headers = {
    'Argocd-Application-Name': `${application.metadata.namespace}:${application.metadata.name}`,
    'Argocd-Project-Name': application.spec.project || 'default',
  };
  page.within = true;
  const place = at.appendChild(document.createElement('div'));
  place.dataset['theme'] = at.closest('.theme-dark') ? 'dark' : 'light';
  const shadow = place.attachShadow({ mode: 'open' });
  const style = new CSSStyleSheet();
  shadow.adoptedStyleSheets = [style];
  void fetch(new URL('app.css', server.pages), { headers: server.headers }).then(async answer => style.replace(await answer.text()));
  render(
    <div id="app">
      <p class="unseen" role="status" ref={region => void (page.announcer = region)} />
      <ReleasePage namespace={namespace} name={name} uid={uid} />
    </div>,
    shadow,
  );
  return () => {
    render(null, shadow);
    place.remove();
  };
}
