// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The kinds as the wire spells them.
var (
	rolloutKind      = v1beta1.SchemeGroupVersion.WithKind("Rollout")
	batchReleaseKind = v1beta1.SchemeGroupVersion.WithKind("BatchRelease")
)

// NewRollout is an empty Rollout to watch.
func NewRollout() client.Object { return &v1beta1.Rollout{} }

// NewBatchRelease is an empty BatchRelease to watch.
func NewBatchRelease() client.Object { return &v1beta1.BatchRelease{} }

// OwnedByRollout is the reference of what a Rollout makes.
func OwnedByRollout(r *rollouts.Rollout) metav1.OwnerReference {
	return *metav1.NewControllerRef(r, rolloutKind)
}

// OwnedByBatchRelease is the reference of what a BatchRelease makes or drives.
func OwnedByBatchRelease(b *rollouts.BatchRelease) metav1.OwnerReference {
	return *metav1.NewControllerRef(b, batchReleaseKind)
}

// About is the Rollout as events refer to it.
func About(r *rollouts.Rollout) runtime.Object {
	wire := &v1beta1.Rollout{ObjectMeta: r.ObjectMeta}
	wire.SetGroupVersionKind(rolloutKind)
	return wire
}

// AboutBatch is what events refer to that are about a BatchRelease: its Rollout, where
// people look for them, if it has one.
func AboutBatch(b *rollouts.BatchRelease) runtime.Object {
	about := &corev1.ObjectReference{
		APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: batchReleaseKind.Kind, Namespace: b.Namespace, Name: b.Name, UID: b.UID,
	}
	if ref := metav1.GetControllerOf(b); ref != nil && ref.Kind == rolloutKind.Kind {
		about.Kind, about.Name, about.UID = ref.Kind, ref.Name, ref.UID
	}
	return about
}

// Announce tells what has happened to an object.
func Announce(to events.EventRecorder, about runtime.Object, action string, announced []planner.Event) {
	for _, e := range announced {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		to.Eventf(about, nil, kind, e.Reason, action, "%s", e.Message)
	}
}

// OwnedByDriven takes a pod for one of a workload of the kind, through the set
// between them, whose name begins with the workload's.
func OwnedByDriven(gk schema.GroupKind) KeyFunc {
	return func(o client.Object) []string {
		set := metav1.GetControllerOf(o)
		hash := o.GetLabels()["pod-template-hash"]
		if set == nil || hash == "" || len(set.Name) <= len(hash)+1 {
			return nil
		}
		return eitherKey(gk, set.Name[:len(set.Name)-len(hash)-1])
	}
}
