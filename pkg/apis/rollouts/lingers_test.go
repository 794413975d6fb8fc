// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The message about an object in the way says what to do, also when its owner does not exist any
// more, as after a restore of the store.
func TestTaken(t *testing.T) {
	controller := true
	owned := func(apiVersion, kind string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "shop", Name: "web-canary-x", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "u1", Controller: &controller},
		}}
	}
	for _, tt := range []struct {
		kind string
		o    metav1.Object
		want string
	}{
		{"deployment", &metav1.ObjectMeta{Name: "web-canary-x"}, "deployment web-canary-x exists, and Weir needs this name; delete it, or recreate it under another name"},
		{
			"deployment", owned("rollouts.kruise.io/v1beta1", "BatchRelease"),
			"deployment web-canary-x exists and belongs to BatchRelease web (uid u1); wait until its release ends. " +
				"If no BatchRelease has this uid, as after a restore, and no route leads to its pods, delete it: kubectl delete deployment web-canary-x -n shop",
		},
		{
			"service", owned("rollouts.kruise.io/v1beta1", "Rollout"),
			"service web-canary-x exists and belongs to Rollout web (uid u1); wait until its release ends, or use a separate service for each Rollout. " +
				"If no Rollout has this uid, as after a restore, and no route leads to its pods, delete it: kubectl delete service web-canary-x -n shop",
		},
		{
			"ingress", owned("rollouts.kruise.io/v1alpha1", "Rollout"),
			"ingress web-canary-x exists and belongs to Rollout web (uid u1); wait until its release ends, or use a separate ingress for each Rollout. " +
				"If no Rollout has this uid, as after a restore, delete it: kubectl delete ingress web-canary-x -n shop",
		},
		{
			"service", owned("example.com/v1", "Mesh"),
			"service web-canary-x exists and belongs to Mesh web (uid u1); wait until its release ends, or use a separate service for each Rollout",
		},
	} {
		if got := rollouts.Taken(tt.kind, tt.o); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
