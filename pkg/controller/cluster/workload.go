// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Indexes of the caches.
const (
	// ByOwner finds objects by the uid of their controller.
	ByOwner = "metadata.controller.uid"
	// ByWorkload finds Rollouts and BatchReleases by what they release.
	ByWorkload = "spec.workloadRef"
	// ByGroup finds them by the group of its kind, and of those of their routers.
	ByGroup = "spec.groups"
	// ByScaled finds autoscalers by the name of what they scale, disabled or not.
	ByScaled = "spec.scaleTargetRef.name"
	// ByNetwork finds Rollouts by the Services and routers that they change.
	ByNetwork = "spec.strategy.trafficRoutings"
)

var autoscaler = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")

// Workload is a workload, seen by what the store knows of it, with what it owns.
type Workload struct {
	Row workload.Row
	workload.Seen
	Owned []object.Object
}

// Facts are those of the workload as it is seen.
func (w *Workload) Facts() planner.Workload { return w.Row.Facts(w.Seen, w.Owned) }

// Workload reads the workload of a row, or returns nil when there is none.
func (s Server) Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.Known) (*Workload, error) {
	w, err := s.read(ctx, row, namespace, name, known)
	if w == nil || err != nil {
		return w, err
	}
	w.Seen = row.See(w.Object, w.Owned, known)
	w.Rival, err = row.Rival(w.Object, w.Owned, s.named(ctx, row.GVK, namespace))
	return w, err
}

// CatchUp has passes wait for a cache that shows a workload as it is on the server now.
func (s Server) CatchUp(ctx context.Context, row workload.Row, namespace, name string) error {
	now := &metav1.PartialObjectMetadataList{} // weir-controller may list workloads, and not get one
	now.SetGroupVersionKind(row.GVK.GroupVersion().WithKind(row.GVK.Kind + "List"))
	if err := s.Live.List(ctx, now, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
		return fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, err)
	}
	for i := range now.Items {
		s.WriteTracker.note(&now.Items[i])
	}
	return nil
}

// Unnamed reads a workload that nothing in the store is about, as it is; nil if it was
// made beside another one, whatever somebody wrote there.
func (s Server) Unnamed(ctx context.Context, row workload.Row, namespace, name string) (*Workload, error) {
	w, err := s.read(ctx, row, namespace, name, planner.Known{})
	if w == nil || err != nil || !workload.Marked(w.Object) {
		return w, err
	}
	if made, err := s.made(ctx, w.Object); made || err != nil {
		return nil, err
	}
	return w, nil
}

// read reads a workload as it is stored.
func (s Server) read(ctx context.Context, row workload.Row, namespace, name string, known planner.Known) (*Workload, error) {
	stored := s.Stored(row.GVK)
	if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, stored); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, err)
	}
	w := &Workload{Row: row, Seen: workload.Seen{Object: stored}}
	if u, ok := stored.(*unstructured.Unstructured); ok {
		w.Object = row.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, w.Object); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, decodeError(u, row.New(), err))
		}
	}
	w.Object.GetObjectKind().SetGroupVersionKind(row.GVK)
	w.Stored = w.Object
	var err error
	if w.Owned, err = s.ownedBy(ctx, row, w.Object, known); err != nil {
		return nil, err
	}
	for _, o := range append([]object.Object{w.Object}, w.Owned...) {
		if err := s.WriteTracker.shown(o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// ownedBy are the objects that a row wants to see beside its workload: what that
// owns, and what was made for its release, each by its uid.
func (s Server) ownedBy(ctx context.Context, row workload.Row, obj object.Object, known planner.Known) ([]object.Object, error) {
	var all []object.Object
	list := func(kind schema.GroupVersionKind, beside metav1.Object, which client.ListOption) ([]object.Object, error) {
		found, err := s.listed(ctx, kind, beside, which)
		all = append(all, found...)
		return found, err
	}
	owners := []object.Object{obj}
	if row.Extra && known.Batch != "" {
		extras, err := s.extras(ctx, row, obj, known)
		if err != nil {
			return nil, err
		}
		all, owners = append(all, extras...), append(owners, extras...)
	}
	for _, kind := range row.Owns {
		for _, owner := range owners {
			if _, err := list(kind, owner, client.MatchingFields{ByOwner: string(owner.GetUID())}); err != nil {
				return nil, err
			}
		}
	}
	if row.Scalers {
		if _, err := list(autoscaler, obj, client.MatchingFields{ByScaled: obj.GetName()}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listed are the objects of a kind beside another one.
func (s Server) listed(ctx context.Context, kind schema.GroupVersionKind, beside metav1.Object, which ...client.ListOption) ([]object.Object, error) {
	list, err := s.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("making a list of %s: %w", kind.Kind, err)
	}
	objects, ok := list.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("making a list of %s: %T is none", kind.Kind, list)
	}
	if err := s.List(ctx, objects, append(which, client.InNamespace(beside.GetNamespace()))...); err != nil {
		return nil, fmt.Errorf("listing %s of %s: %w", kind.Kind, beside.GetName(), err)
	}
	var out []object.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(object.Object); ok {
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

// Stored makes an empty object as the caches have it: typed where the scheme has
// the kind, else as it comes.
func (s Server) Stored(gvk schema.GroupVersionKind) client.Object {
	if o, err := s.Scheme().New(gvk); err == nil {
		if typed, ok := o.(client.Object); ok {
			return typed
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// WorkloadKey is how a workload is found in an index, whatever its version.
func WorkloadKey(gk schema.GroupKind, name string) string { return gk.String() + "/" + name }

// WorkloadKeys indexes Rollouts and BatchReleases.
func WorkloadKeys(o client.Object) []string {
	if gk, name := released(o); name != "" {
		return []string{WorkloadKey(gk, name)}
	}
	return nil
}

// GroupKeys indexes them, too, and TrafficRoutings.
func GroupKeys(o client.Object) []string {
	groups := sets.New[string]()
	if gk, name := released(o); name != "" {
		groups.Insert(gk.Group)
	}
	for _, ref := range routingsOf(o) {
		for _, router := range traffic.Routers(ref, "") {
			groups.Insert(router.Kind.Group)
		}
	}
	return sets.List(groups)
}

// Released is the kind of what a Rollout or a BatchRelease releases.
func Released(o client.Object) schema.GroupKind {
	gk, _ := released(o)
	return gk
}

// ReleasedAs is the name of the workload of a kind that a Rollout or a BatchRelease
// releases; empty if it is of another kind.
func ReleasedAs(o client.Object, kind schema.GroupKind) string {
	gk, name := released(o)
	if gk != kind {
		return ""
	}
	return name
}

// released is what a Rollout or a BatchRelease releases; no name if nothing.
func released(o client.Object) (gk schema.GroupKind, name string) {
	var ref v1beta1.ObjectRef
	switch o := o.(type) {
	case *v1beta1.Rollout:
		ref = o.Spec.WorkloadRef
	case *v1beta1.BatchRelease:
		if o.Spec.WorkloadRef != nil {
			ref = *o.Spec.WorkloadRef
		}
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}, ""
	}
	return gv.WithKind(ref.Kind).GroupKind(), ref.Name
}

// ScaledKeys indexes autoscalers.
func ScaledKeys(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	return []string{workload.Scaled(h)}
}

// ScaledBy names what an autoscaler scales, or would if it were not disabled.
func ScaledBy(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	ref := h.Spec.ScaleTargetRef
	return []string{WorkloadKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), workload.Scaled(h))}
}

// OwnerKeys indexes anything by its controller.
func OwnerKeys(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// NetworkKey is how a Service or a router is found in an index. What is made
// beside the original counts as the original.
func NetworkKey(kind, name string) string { return kind + "/" + name }

// NetworkKeys indexes Rollouts and TrafficRoutings.
func NetworkKeys(o client.Object) []string {
	return networkKeys(routingsOf(o))
}

// routingsOf is what a Rollout or a TrafficRouting routes by, of which one counts.
func routingsOf(o client.Object) []rollouts.TrafficRoutingRef {
	var refs []rollouts.TrafficRoutingRef
	if routing, ok := o.(*v1alpha1.TrafficRouting); ok {
		hub := &rollouts.TrafficRouting{}
		if err := v1alpha1.Convert_v1alpha1_TrafficRouting_To_rollouts_TrafficRouting(routing.DeepCopy(), hub, nil); err != nil {
			return nil
		}
		refs = hub.Spec.ObjectRef
	} else if release := releaseOf(o); release != nil {
		refs = release.TrafficRoutings
	}
	return refs[:min(len(refs), 1)]
}

// releaseOf is the release that a Rollout asks for, or nil.
func releaseOf(o client.Object) *rollouts.Release {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return nil
	}
	hub := &rollouts.Rollout{}
	if err := v1beta1.Convert_v1beta1_Rollout_To_rollouts_Rollout(r, hub, nil); err != nil {
		return nil
	}
	_, release := hub.Spec.Strategy.Active()
	return release
}

func networkKeys(refs []rollouts.TrafficRoutingRef) []string {
	var keys []string
	for _, t := range refs {
		keys = append(keys, NetworkKey("Service", t.Service), NetworkKey("Service", t.Service+rollouts.CanarySuffix))
		for _, router := range traffic.Routers(t, "") {
			keys = append(keys, NetworkKey(router.Kind.Kind, router.Name))
			if router.Ingress() {
				keys = append(keys, NetworkKey(router.Kind.Kind, router.Name+rollouts.CanarySuffix))
			}
		}
	}
	return keys
}

// Mark labels pods. Their status changes all the time, so that the version is
// not compared; the uid is, and a pod that is gone needs no label.
func (s Server) Mark(ctx context.Context, namespace string, marks []planner.Mark) error {
	for _, m := range marks {
		meta := map[string]any{"metadata": map[string]any{"uid": m.UID, "labels": workload.Labels(m)}}
		patch, err := json.Marshal(meta)
		if err != nil {
			return fmt.Errorf("labelling pod %s: %w", m.Pod, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Pod}}
		if err := client.IgnoreNotFound(s.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))); err != nil {
			return err
		}
	}
	return nil
}

// Named reports whether a Rollout or a BatchRelease which counts names the workload.
// The caches may be behind, so where they know none the server is asked.
func (s Server) Named(ctx context.Context, w *Workload, counts func(client.Object) bool) (bool, error) {
	key := WorkloadKey(w.Row.GVK.GroupKind(), w.Object.GetName())
	here := client.InNamespace(w.Object.GetNamespace())
	if found, err := naming(ctx, s, key, counts, here, client.MatchingFields{ByWorkload: key}, client.UnsafeDisableDeepCopy); found || err != nil {
		return found, err
	}
	return naming(ctx, s.Live, key, counts, here)
}

func naming(ctx context.Context, from client.Reader, key string, counts func(client.Object) bool, which ...client.ListOption) (bool, error) {
	for _, list := range []client.ObjectList{Rollouts(), BatchReleases()} {
		if err := from.List(ctx, list, which...); err != nil {
			return false, fmt.Errorf("listing who names %s: %w", key, err)
		}
		found := false
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			found = found || ok && slices.Contains(WorkloadKeys(o), key) && counts(o)
			return nil
		})
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Live reports whether an object ends the hold of the workload that it names. A
// Rollout at rest that is disabled does not, and neither does one that is over.
func Live(o client.Object) bool {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return true
	}
	return (r.Status.Phase != v1beta1.PhaseDisabled || !r.Spec.Disabled) && !over(r)
}
