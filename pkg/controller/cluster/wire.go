// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// wireScheme are those between the hub and the versions of the wire.
var wireScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}()

// convert is an object of the wire as the hub has it, or the other way round.
func convert[O any](in object.Object) (*O, error) {
	out := new(O)
	if err := wireScheme.Convert(in, out, nil); err != nil {
		return nil, fmt.Errorf("converting to %T: %w", out, err)
	}
	return out, nil
}

// wireType is a type of the wire.
type wireType[W any] interface {
	*W
	client.Object
}

// getHub reads an object of the wire as the hub has it; nil when there is none.
func getHub[H, W any, P wireType[W]](ctx context.Context, from client.Reader, key types.NamespacedName) (*H, error) {
	found, err := get(ctx, from, key.Namespace, key.Name, P(new(W)))
	if found == nil || err != nil {
		return nil, err
	}
	return convert[H](found)
}

// commitStatus stores the status of an object of the hub and returns what is stored.
func commitStatus[H, W any, P wireType[W]](ctx context.Context, s Server, next object.Object) (*H, error) {
	sent, err := convert[W](next)
	if err != nil {
		return nil, err
	}
	if err := s.recordIfWritten(P(sent), s.Status().Update(ctx, P(sent))); err != nil {
		return nil, err
	}
	return convert[H](P(sent))
}

// NewRollout is an empty Rollout to watch.
func NewRollout() client.Object { return &v1beta1.Rollout{} }

// NewBatchRelease is an empty BatchRelease to watch.
func NewBatchRelease() client.Object { return &v1beta1.BatchRelease{} }

// NewTrafficRouting is an empty TrafficRouting to watch.
func NewTrafficRouting() client.Object { return &v1alpha1.TrafficRouting{} }

// MetadataOf is an object of our group as the wire refers to it: its kind and its metadata.
func MetadataOf(o object.Object) client.Object {
	var about client.Object
	switch o := o.(type) {
	case *rollouts.Rollout:
		about = &v1beta1.Rollout{ObjectMeta: *o.ObjectMeta.DeepCopy()}
	case *rollouts.BatchRelease:
		about = &v1beta1.BatchRelease{ObjectMeta: *o.ObjectMeta.DeepCopy()}
	case *rollouts.TrafficRouting:
		about = &v1alpha1.TrafficRouting{ObjectMeta: *o.ObjectMeta.DeepCopy()}
	}
	kind, err := apiutil.GVKForObject(about, wireScheme)
	utilruntime.Must(err) // nothing else is of our group
	about.GetObjectKind().SetGroupVersionKind(kind)
	return about
}

// OwnerReferenceTo is the reference of what an object of our group makes or drives.
func OwnerReferenceTo(o object.Object) metav1.OwnerReference {
	return *metav1.NewControllerRef(o, MetadataOf(o).GetObjectKind().GroupVersionKind())
}

// EventTarget is what events refer to that are about a BatchRelease: its Rollout, where
// people look for them, if it has one.
func EventTarget(b *rollouts.BatchRelease) runtime.Object {
	about := &corev1.ObjectReference{
		APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "BatchRelease", Namespace: b.Namespace, Name: b.Name, UID: b.UID,
	}
	if ref := metav1.GetControllerOf(b); ref != nil && ref.Kind == "Rollout" {
		about.Kind, about.Name, about.UID = ref.Kind, ref.Name, ref.UID
	}
	return about
}

// RecordEvents tells what has happened to an object.
func RecordEvents(to events.EventRecorder, about runtime.Object, action string, announced []planner.Event) {
	for _, e := range announced {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		to.Eventf(about, nil, kind, e.Reason, action, "%s", e.Message)
	}
}
