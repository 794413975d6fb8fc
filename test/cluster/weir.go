// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/weir-rollouts/weir/artifacts"
)

const weirNamespace = "weir-system"

// notHere are kinds that place Weir's processes into a cluster. Ours run beside
// it; their pods would be made by kwok and do nothing.
var notHere = []string{
	"Deployment", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim", "ServiceMonitor",
}

// startWeir installs Weir from its manifests and runs its processes as the
// service accounts they have there, so that missing permissions are found.
func (c *Cluster) startWeir(ctx context.Context) error {
	if err := c.applyArtifacts(ctx); err != nil {
		return err
	}
	for _, name := range []string{WeirAPIServer, WeirController} {
		if err := c.writeServiceAccountKubeconfig(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range []string{WeirAPIServer, WeirController} {
		if err := c.run(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) weirAPIServerArgs() []string {
	kubeconfig := c.path(WeirAPIServer + ".kubeconfig")
	return append([]string{
		"--bind-address=127.0.0.1", "--secure-port=" + c.port(WeirAPIServer),
		"--webhook-port=" + c.port(weirWebhook),
		"--tls-cert-file=" + c.pki.file(WeirAPIServer+".crt"),
		"--tls-private-key-file=" + c.pki.file(WeirAPIServer+".key"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		// The directory may well be in memory; nothing here has to survive a reboot.
		"--data-dir=" + c.path("weir-data"), "--ephemeral",
	}, c.opts.WeirApiserverArgs...)
}

func (c *Cluster) weirControllerArgs() []string {
	return append([]string{
		"--kubeconfig=" + c.path(WeirController+".kubeconfig"),
		"--leader-elect", "--leader-election-namespace=" + weirNamespace,
		"--health-probe-bind-address=127.0.0.1:" + c.port(controllerHealth),
		"--metrics-bind-address=127.0.0.1:" + c.port(controllerMetrics),
	}, c.opts.WeirControllerArgs...)
}

// applyArtifacts applies artifacts/base, adapted to processes beside the cluster.
func (c *Cluster) applyArtifacts(ctx context.Context) error {
	objects, err := readManifests(artifacts.Base)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, object := range objects {
		if err := c.adapt(object); err != nil {
			return fmt.Errorf("adapting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("finding the resource of %s: %w", gvk.Kind, err)
		}
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: "weir-cluster", Force: true})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", gvk.Kind, object.GetName(), err)
		}
	}
	return nil
}

// readManifests reads all objects that are to be applied, the namespace first.
func readManifests(files fs.FS) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "base/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		if strings.HasSuffix(name, "kustomization.yaml") {
			continue
		}
		read, err := readManifest(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		objects = append(objects, read...)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return rank(a.GetKind()) - rank(b.GetKind())
	})
	return objects, nil
}

func readManifest(files fs.FS, name string) ([]*unstructured.Unstructured, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 && !slices.Contains(notHere, object.GetKind()) {
			objects = append(objects, object)
		}
	}
}

func rank(kind string) int {
	if kind == "Namespace" {
		return 0
	}
	return 1
}

// adapt points at processes on loopback what points at pods in the manifests.
func (c *Cluster) adapt(object *unstructured.Unstructured) error {
	caBundle := base64.StdEncoding.EncodeToString(c.pki.ca.pem)
	switch object.GetKind() {
	case "Service":
		// kube-apiserver resolves an ExternalName itself; EndpointSlices may not
		// contain loopback addresses.
		return unstructured.SetNestedMap(object.Object, map[string]any{
			"type": "ExternalName", "externalName": "localhost",
		}, "spec")
	case "APIService":
		port := int64(c.ports[WeirAPIServer].number)
		return errors.Join(
			unstructured.SetNestedField(object.Object, port, "spec", "service", "port"),
			unstructured.SetNestedField(object.Object, caBundle, "spec", "caBundle"),
		)
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return c.adaptWebhooks(object, caBundle)
	}
	return nil
}

func (c *Cluster) adaptWebhooks(object *unstructured.Unstructured, caBundle string) error {
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, webhook := range webhooks {
		fields, ok := webhook.(map[string]any)
		if !ok {
			return errors.New("a webhook is not an object")
		}
		path, _, err := unstructured.NestedString(fields, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		to := url.URL{Scheme: "https", Host: "localhost:" + strconv.Itoa(c.ports[weirWebhook].number), Path: path}
		fields["clientConfig"] = map[string]any{"url": to.String(), "caBundle": caBundle}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// writeServiceAccountKubeconfig makes a token for the service account of that
// name, as the kubelet does for a pod.
func (c *Cluster) writeServiceAccountKubeconfig(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	seconds := int64(30 * 24 * 60 * 60) // nobody renews it, and a cluster may be left up for days
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(weirNamespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a token for %s: %w", name, err)
	}
	return c.writeKubeconfig(c.path(name+".kubeconfig"), credentials{token: token.Status.Token})
}

// weirReady asks the process first, since kube-apiserver takes seconds to notice
// that an APIService has gone or come back, and then through kube-apiserver.
func (c *Cluster) weirReady(ctx context.Context) error {
	if err := httpOK("https://" + c.Address(WeirAPIServer) + "/readyz")(ctx); err != nil {
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

// remoteAPIServices are the ones that kube-apiserver does not serve itself.
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
		return nil, errors.New("there is no APIService of ours")
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
