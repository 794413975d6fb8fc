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

// wireScheme has the served API versions and their conversions to the hub types.
var wireScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}()

// convert converts an object between a served version and the hub version.
func convert[O any](in object.Object) (*O, error) {
	out := new(O)
	if err := wireScheme.Convert(in, out, nil); err != nil {
		return nil, fmt.Errorf("converting to %T: %w", out, err)
	}
	return out, nil
}

// wireType is the pointer type of a served version.
type wireType[W any] interface {
	*W
	client.Object
}

// getHub reads an object and converts it to the hub version; nil if there is none.
func getHub[H, W any, P wireType[W]](ctx context.Context, from client.Reader, key types.NamespacedName) (*H, error) {
	found, err := get(ctx, from, key.Namespace, key.Name, P(new(W)))
	if found == nil || err != nil {
		return nil, err
	}
	return convert[H](found)
}

// commitStatus stores the status of a hub object and returns the stored object.
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

// NewRollout returns an empty Rollout to watch.
func NewRollout() client.Object { return &v1beta1.Rollout{} }

// NewBatchRelease returns an empty BatchRelease to watch.
func NewBatchRelease() client.Object { return &v1beta1.BatchRelease{} }

// NewTrafficRouting returns an empty TrafficRouting to watch.
func NewTrafficRouting() client.Object { return &v1alpha1.TrafficRouting{} }

// MetadataOf returns an object of a served version that has only the kind and the metadata of a hub object.
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

// OwnerReferenceTo returns a controller reference to an object of Weir's API group.
func OwnerReferenceTo(o object.Object) metav1.OwnerReference {
	return *metav1.NewControllerRef(o, MetadataOf(o).GetObjectKind().GroupVersionKind())
}

// EventTarget returns the object that events about a BatchRelease refer to: its Rollout, where users look for
// events, or the BatchRelease itself if it has no Rollout.
func EventTarget(b *rollouts.BatchRelease) runtime.Object {
	about := &corev1.ObjectReference{
		APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "BatchRelease", Namespace: b.Namespace, Name: b.Name, UID: b.UID,
	}
	if ref := metav1.GetControllerOf(b); ref != nil && ref.Kind == "Rollout" {
		about.Kind, about.Name, about.UID = ref.Kind, ref.Name, ref.UID
	}
	return about
}

// RecordEvents records events about an object.
func RecordEvents(to events.EventRecorder, about runtime.Object, action string, announced []planner.Event) {
	for _, e := range announced {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		to.Eventf(about, nil, kind, e.Reason, action, "%s", e.Message)
	}
}
