// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// TestDecodeError checks that the error names the field that cannot be decoded.
func TestDecodeError(t *testing.T) {
	row, _ := workload.Find("apps.example.com/v1", "StatefulSet", rollouts.StylePartition)
	for want, spec := range map[string]map[string]any{
		"the StatefulSet has a value of type string in spec.updateStrategy.rollingUpdate.partition, and is released only with one of type int32 there; write that": {
			"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": "50%"}},
		},
		"the StatefulSet has a value of type object in spec.replicas, and is released only with one of type int32 there; write that": {
			"replicas": map[string]any{},
		},
	} {
		db := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		db.SetGroupVersionKind(row.GVK)
		db.SetNamespace("apps")
		db.SetName("db")
		s := cluster.Reader{Client: fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(db).Build()}
		_, err := s.UnreferencedWorkload(t.Context(), row, "apps", "db")
		var decodeError *cluster.DecodeError
		if !errors.As(err, &decodeError) || decodeError.Reason != want {
			t.Errorf("says %v\nwant %s", err, want)
		}
	}
}
