// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
)

// reader reads objects of the cluster for views. artifacts/base/rbac-views.yaml allows it.
type reader struct{ client dynamic.Interface }

func newReader(cluster *restclient.Config) (*reader, error) {
	config := restclient.CopyConfig(cluster)
	config.QPS = -1 // the cluster's own fairness is enough
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for views: %w", err)
	}
	return &reader{client: client}, nil
}

func (r *reader) of(kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return r.client.Resource(resource).Namespace(namespace)
}

// Get implements view.Cluster.
func (r *reader) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	found, err := r.of(kind, namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// List implements view.Cluster.
func (r *reader) List(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	list, err := r.of(kind, namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
