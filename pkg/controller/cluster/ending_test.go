// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// TestNamespaceEnds tells what cannot be made any more from what may not be made.
func TestNamespaceEnds(t *testing.T) {
	t.Parallel()
	answer := apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New("it is being terminated"))
	server := cluster.Server{Reader: cluster.Reader{Client: interceptor.NewClient(newServer(t).WithWatch, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return answer },
	})}}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	if err := server.Create(t.Context(), made); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want what the server says", err)
	}
	answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if err := server.Create(t.Context(), made); err != nil {
		t.Error(err)
	}
}
