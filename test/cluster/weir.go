// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const weirNamespace = "weir-system"

// startWeir installs Weir from its manifests and runs its processes with their service accounts, so
// that missing permissions are found.
func (c *Cluster) startWeir(ctx context.Context) error {
	if err := c.install(ctx); err != nil {
		return err
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(c.accounts))) {
		if err := c.writeServiceAccountKubeconfig(ctx, name); err != nil {
			return err
		}
	}
	if c.replicated() {
		return c.startReplicas(ctx)
	}
	for _, name := range slices.Compact([]string{WeirAPIServer, c.processOf(WeirController)}) {
		if err := c.run(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// weirAPIServerArgs are the arguments of the manifests, and those that differ for a process outside
// of the cluster. A later flag overrides an earlier one.
func (c *Cluster) weirAPIServerArgs(name string) []string {
	kubeconfig := c.path(c.accounts[WeirAPIServer] + ".kubeconfig")
	var controllers, webhook []string
	if c.hasWebhookPort() {
		webhook = []string{"--webhook-port=" + c.port(replicaPort(weirWebhook, name))}
	}
	if !c.opts.Apart {
		controllers = append(c.addressesOfController(name), c.opts.WeirControllerArgs...)
	}
	return slices.Concat(c.withEtcdServers(name, slices.Clone(c.installed[WeirAPIServer])), []string{
		"--bind-address=127.0.0.1", "--secure-port=" + c.port(name),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}, webhook, controllers, c.opts.WeirApiserverArgs)
}

// hasWebhookPort reports whether the manifests give the webhook a port of its own, as those of versions
// up to 0.4 do.
func (c *Cluster) hasWebhookPort() bool {
	return slices.ContainsFunc(c.installed[WeirAPIServer], func(arg string) bool { return strings.HasPrefix(arg, "--webhook-port=") })
}

func (c *Cluster) addressesOfController(name string) []string {
	return []string{
		"--health-probe-bind-address=127.0.0.1:" + c.port(replicaPort(controllerHealth, name)),
		"--metrics-bind-address=127.0.0.1:" + c.port(replicaPort(controllerMetrics, name)),
	}
}

func (c *Cluster) weirControllerArgs(name string) []string {
	return slices.Concat(c.installed[WeirController], []string{
		"--kubeconfig=" + c.path(c.accounts[WeirController]+".kubeconfig"),
	}, c.addressesOfController(name), c.opts.WeirControllerArgs)
}

// adapt replaces references to pods with the addresses of the processes on loopback. weir-apiserver
// itself publishes its CA bundle.
func (c *Cluster) adapt(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "Deployment":
		return unstructured.SetNestedField(object.Object, int64(0), "spec", "replicas")
	case "Service":
		// kube-apiserver resolves an ExternalName itself; EndpointSlices may not
		// contain loopback addresses.
		return unstructured.SetNestedMap(object.Object, map[string]any{
			"type": "ExternalName", "externalName": "localhost",
		}, "spec")
	case "APIService":
		port := int64(c.ports[WeirAPIServer].number)
		return unstructured.SetNestedField(object.Object, port, "spec", "service", "port")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return c.adaptWebhooks(object)
	}
	return nil
}

func (c *Cluster) adaptWebhooks(object *unstructured.Unstructured) error {
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	port := int64(c.ports[WeirAPIServer].number)
	if c.hasWebhookPort() {
		port = int64(c.ports[weirWebhook].number)
	}
	for _, webhook := range webhooks {
		fields, ok := webhook.(map[string]any)
		if !ok {
			return errors.New("a webhook is not an object")
		}
		if err := unstructured.SetNestedField(fields, port, "clientConfig", "service", "port"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// writeServiceAccountKubeconfig creates a token for a service account, as the kubelet does for a
// pod.
func (c *Cluster) writeServiceAccountKubeconfig(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	seconds := int64(30 * 24 * 60 * 60) // the token is not renewed, and a cluster may run for days
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(weirNamespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a token for %s: %w", name, err)
	}
	return c.writeKubeconfig(c.path(name+".kubeconfig"), credentials{token: token.Status.Token})
}

// weirReady first checks the process, because kube-apiserver takes seconds to observe a change of
// an APIService, and then the API through kube-apiserver.
func (c *Cluster) weirReady(ctx context.Context, name string) error {
	if err := httpOK("https://" + c.Address(name) + "/readyz")(ctx); err != nil {
		return err
	}
	services, err := c.remoteAPIServices(ctx)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for _, service := range services {
		if err := available(service); err != nil {
			return err
		}
		version, group, _ := strings.Cut(service.GetName(), ".")
		api := "/apis/" + group + "/" + version
		// kubectl explain needs the schema, which kube-apiserver fetches a second later.
		for _, path := range []string{api, "/openapi/v3" + api} {
			if err := get(ctx, client, "https://"+c.Address(KubeAPIServer)+path); err != nil {
				return err
			}
		}
	}
	return nil
}

// remoteAPIServices are the APIServices that kube-apiserver does not serve itself.
func (c *Cluster) remoteAPIServices(ctx context.Context) ([]*unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var remote []*unstructured.Unstructured
	for i := range list.Items {
		if _, found, _ := unstructured.NestedMap(list.Items[i].Object, "spec", "service"); found {
			remote = append(remote, &list.Items[i])
		}
	}
	if len(remote) == 0 {
		return nil, errors.New("there is no APIService of Weir")
	}
	return remote, nil
}

func available(service *unstructured.Unstructured) error {
	conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
	if err != nil {
		return err
	}
	message := "no condition yet"
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != "Available" {
			continue
		}
		if condition["status"] == "True" {
			return nil
		}
		message = fmt.Sprint(condition["message"])
	}
	return fmt.Errorf("APIService %s is not available: %s", service.GetName(), message)
}
