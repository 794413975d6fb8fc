// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"

	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// lookupResources are the kinds that can be looked up, each in the API version that every cluster with the kind
// serves: all workloads, and the objects that a plan may reference for traffic.
// artifacts/base/rbac-apiserver.yaml grants the permission to get them.
var lookupResources = func() map[schema.GroupKind]schema.GroupVersionResource {
	all := map[schema.GroupKind]schema.GroupVersionResource{
		{Kind: "Service"}: {Version: "v1", Resource: "services"},
		{Group: "networking.k8s.io", Kind: "Ingress"}:           {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}: {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
	}
	for _, row := range workload.Kinds() {
		all[row.GVK.GroupKind()], _ = meta.UnsafeGuessKindToResource(row.GVK)
	}
	return all
}()

// finder looks up objects in the cluster. It reads only their metadata.
type finder struct{ client metadata.Interface }

func newFinder(cluster *restclient.Config) (*finder, error) {
	config := restclient.CopyConfig(cluster)
	config.QPS = -1 // kube-apiserver limits requests by priority and fairness
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client of metadata: %w", err)
	}
	return &finder{client: client}, nil
}

// Exists implements rollout.Finder. A kind that the cluster does not serve has no objects.
func (f *finder) Exists(ctx context.Context, namespace string, ref hub.ObjectRef) (bool, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	resource, ok := lookupResources[kind]
	if !ok {
		return false, fmt.Errorf("looking for a %s, which is not looked up", kind)
	}
	_, err := f.client.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
