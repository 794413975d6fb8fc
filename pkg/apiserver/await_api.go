// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// awaitAPI waits until the APIService of Rollouts refers to a server such as this one. While the API is
// served from CRDs, the store does not contain the current releases.
func awaitAPI(ctx context.Context, client dynamic.Interface) error {
	services := client.Resource(apiServices)
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", v1beta1.SchemeGroupVersion.Version+"."+v1beta1.SchemeGroupVersion.Group).String()
	}
	all := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			only(&o)
			return services.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			only(&o)
			return services.Watch(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, all, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		service, ok := e.Object.(*unstructured.Unstructured)
		return ok && e.Type != watch.Deleted && isServedByServer(service), nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("waiting until the APIService leads to weir-apiserver: %w", err)
	}
	return ctx.Err()
}

// isServedByServer reports whether an APIService refers to a server permanently. kube-apiserver resets
// APIServices that it manages for a CRD.
func isServedByServer(service *unstructured.Unstructured) bool {
	_, managed := service.GetLabels()["kube-aggregator.kubernetes.io/automanaged"]
	_, remote, _ := unstructured.NestedMap(service.Object, "spec", "service")
	return remote && !managed
}
