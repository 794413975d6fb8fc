// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

// environment is the control plane, the proxy and the pods.
type environment struct {
	cluster *cluster.Cluster
	client  client.Client
	http    *http.Client
	proxy   *proxy
	pods    *podServers
	quit    context.CancelFunc
}

// open starts everything. After an error, end stops what was started.
func (w *environment) open(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), weir.AddToScheme(scheme)); err != nil {
		return err
	}
	config := w.cluster.Config()
	config.WarningHandler = rest.NoWarnings{}
	var err error
	if w.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if w.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, w.quit = context.WithCancel(ctx)
	if w.pods, err = openPods(ctx, typed); err != nil {
		return err
	}
	if err := errors.Join(w.installGatewayAPI(ctx), w.createGateway(ctx)); err != nil {
		return err
	}
	if w.proxy, err = startProxy(w.cluster); err != nil {
		return err
	}
	return w.awaitGateway(ctx)
}

// end may be called for an incomplete environment.
func (w *environment) end() {
	if w.quit != nil {
		w.quit()
	}
	if w.proxy != nil {
		w.proxy.stop()
	}
}

// installGatewayAPI creates the CRDs of the Gateway API from its release.
func (w *environment) installGatewayAPI(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(w.cluster.Bin(), "..", "traefik", "crds", "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("there are none: run hack/traefik.sh")
	}
	if err != nil {
		return fmt.Errorf("finding the CRDs of the Gateway API: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a CRD: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := w.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// createGateway creates the Gateway as soon as its kind is served.
func (w *environment) createGateway(ctx context.Context) error {
	class := gatewayObject("GatewayClass", "", "traefik", map[string]any{"controllerName": "traefik.io/gateway-controller"})
	gateway := gatewayObject("Gateway", metav1.NamespaceDefault, gatewayName, map[string]any{
		"gatewayClassName": "traefik",
		"listeners":        []any{listener("plain", plainPort), listener("retrying", retryingPort)},
	})
	for _, object := range []*unstructured.Unstructured{class, gateway} {
		err := w.eventually(ctx, "creating the "+object.GetKind(), func(ctx context.Context) error { return w.client.Create(ctx, object) })
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitGateway waits until the proxy reports that it serves the Gateway.
func (w *environment) awaitGateway(ctx context.Context) error {
	gateway := gatewayObject("Gateway", metav1.NamespaceDefault, gatewayName, nil)
	return w.eventually(ctx, "waiting for the Gateway", func(ctx context.Context) error {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(gateway), gateway); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(gateway.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Programmed" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("the Gateway is not programmed: %v", conditions)
	})
}

func gatewayObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion("gateway.networking.k8s.io/v1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func listener(name string, port int64) map[string]any {
	return map[string]any{
		"name": name, "port": port, "protocol": "HTTP",
		"allowedRoutes": map[string]any{"namespaces": map[string]any{"from": "All"}},
	}
}

// eventually waits until the condition returns nil.
func (w *environment) eventually(ctx context.Context, doing string, ask func(context.Context) error) error {
	ctx, cancel := patience.Context(ctx, patience.Long)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = ask(ctx)
		if w.proxy != nil {
			// Without the proxy the condition cannot become true.
			return last == nil, w.proxy.checkRunning()
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w; last seen: %w", doing, err, last)
	}
	return nil
}
