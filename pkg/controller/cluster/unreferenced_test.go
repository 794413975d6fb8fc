// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Annotations do not control a canary Deployment. The store knows which Deployments are canary Deployments: an owner
// reference to an object that does not exist does not make one.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	row, _ := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	by := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "BatchRelease", Name: "web", UID: uid, Controller: new(true)}}
	}
	for name, tc := range map[string]struct {
		uid    types.UID
		owners []metav1.OwnerReference
		found  bool
	}{
		"somebody's own":                {"d-1", nil, true},
		"one that names no stored uid":  {"d-1", by("b-9"), true},
		"the store has its uid":         {"d-2", nil, false},
		"its uid is not stored yet":     {"d-1", by("b-1"), false},
		"it has the uid of another one": {"d-2", by("b-9"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-canary-1", UID: tc.uid, OwnerReferences: tc.owners,
				Annotations: map[string]string{rollouts.AnnotationControlInfo: "x", rollouts.AnnotationDeploymentStrategy: `{"partition":"100%"}`},
			}}
			b := &v1beta1.BatchRelease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "b-1"}, Status: v1beta1.BatchReleaseStatus{ExtraUID: "d-2"},
			}
			none := b.DeepCopy()
			none.Name, none.UID, none.Status.ExtraUID = "other", "b-2", ""
			s := cluster.Reader{Client: fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(d, b, none).
				WithIndex(&appsv1.ReplicaSet{}, cluster.ByOwner, cluster.OwnerKeys).Build()}
			w, err := s.UnreferencedWorkload(t.Context(), row, "shop", d.Name)
			if err != nil || (w != nil) != tc.found {
				t.Errorf("%v, %v; found is to be %t", w, err, tc.found)
			}
		})
	}
}
