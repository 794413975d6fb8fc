// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Definitions are the CRDs, with the fields that the tests need.
//
//go:embed crds.yaml
var Definitions []byte

// The kinds whose controllers are simulated.
var (
	CloneSetKind    = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	StatefulSetKind = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"}
	DaemonSetKind   = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "DaemonSet"}
	// LookAlikeKind is a kind of no project, with the fields of a StatefulSet that Weir needs.
	LookAlikeKind = schema.GroupVersionKind{Group: "apps.example.com", Version: "v1", Kind: "StatefulSet"}
)

// Start simulates the controllers until the context ends. Their kinds must be served.
func Start(ctx context.Context, at *rest.Config) error {
	ctrl.SetLogger(logr.Discard()) // conflicts are expected
	at = rest.CopyConfig(at)
	at.QPS = -1
	// Reads must not be cached, otherwise the controllers would create pods twice.
	live, err := client.New(at, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mgr, err := ctrl.NewManager(at, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		// A test may run twice, with the same controller names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	for gvk, r := range map[schema.GroupVersionKind]reconcile.Reconciler{
		CloneSetKind: &cloneSets{live}, DaemonSetKind: &daemonSets{cloneSets{live}},
		StatefulSetKind: &statefulSets{cloneSets{live}, StatefulSetKind}, LookAlikeKind: &statefulSets{cloneSets{live}, LookAlikeKind},
	} {
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(gvk)
		owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), kind, handler.OnlyControllerOwner())
		b := ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(gvk.GroupKind().String())).For(kind)
		if gvk == DaemonSetKind {
			b = b.Watches(&corev1.Node{}, enqueueAllDaemonSets(live), builder.WithPredicates(nodeJoinsOrLeaves))
		}
		err = b.Watches(&corev1.Pod{}, owner).
			Watches(&appsv1.ControllerRevision{}, owner).
			WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
			Complete(r)
		if err != nil {
			return fmt.Errorf("setting up: %w", err)
		}
	}
	go func() { _ = mgr.Start(ctx) }() // the manager ends with the test
	return nil
}
