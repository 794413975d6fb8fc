// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

var autoscaler = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")

// Workload is a workload with the objects that it owns.
type Workload struct {
	Row    workload.Row
	Object object.Object
	Owned  []object.Object
	// Hold is what the store says about the workload.
	Hold workload.Hold
	// NameConflict is an object that has the name of the extra Deployment; nil if the name is free.
	NameConflict object.Object
	pods         *podsRead
}

// Facts returns the facts that a release of the workload is decided by.
func (w *Workload) Facts() planner.Workload {
	return w.Row.Facts(w.Object, w.Owned, w.Hold, w.NameConflict)
}

// Repaired adds the repair of Weir's records on the workload to changes, unless one of them repairs
// the records already.
func (w *Workload) Repaired(changes []object.Change) []object.Change {
	return w.Row.RepairRecords(w.Object, w.Hold, changes)
}

// Is reports whether it is the workload of a name, read for a row.
func (w *Workload) Is(row workload.Row, name string) bool {
	return w != nil && w.Row.GVK == row.GVK && w.Row.Style == row.Style && w.Object.GetName() == name
}

// WithHold returns the same workload with another state in the store.
func (w *Workload) WithHold(known planner.HoldState) *Workload {
	other := *w
	other.Hold = w.Row.HoldOf(w.Object, w.Owned, known)
	return &other
}

// Sized returns the workload for decisions about the sizes of ReplicaSets. These belong to the
// partition style, whatever the style of the release is.
func (w *Workload) Sized(known planner.HoldState) *Workload {
	sized := *w
	if row, ok := workload.Find(w.Row.GVK.GroupVersion().String(), w.Row.GVK.Kind, rollouts.StylePartition); ok {
		sized.Row = row
	}
	return sized.WithHold(known)
}

// Sizing implements release.Sets.
func (w *Workload) Sizing(known planner.HoldState) (sizes.Scaling, bool) {
	sized := w.Sized(known)
	if !sized.Hold.Active() || sized.Hold.IsForAnotherObject(sized.Object) {
		return sizes.Scaling{}, false
	}
	return sized.Row.ObserveScaling(sized.Object, sized.Owned, sized.Hold)
}

// Workload reads the workload of a row, or returns nil when there is none.
func (s Reader) Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*Workload, error) {
	w, err := s.read(ctx, row, namespace, name, known)
	if w == nil || err != nil {
		return w, err
	}
	w.Hold = row.HoldOf(w.Object, w.Owned, known)
	w.NameConflict, err = row.NameConflict(w.Object, w.Owned, w.Hold, func(name string) (object.Object, error) {
		return stored(ctx, s, row.GVK, namespace, name)
	})
	return w, err
}

// CatchUp has passes wait for a cache that shows a workload as it is on the server now.
func (s Reader) CatchUp(ctx context.Context, row workload.Row, namespace, name string) error {
	// weir-controller may list workloads, and not get one
	now, err := items(ctx, s.Live, metadata(row.GVK), client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, err)
	}
	for _, o := range now {
		s.WriteTracker.note(o)
	}
	return nil
}

// Unnamed reads a workload that nothing in the store is about; the annotations on it say whether it
// is held. Unnamed returns nil for the extra Deployment of a release.
func (s Reader) Unnamed(ctx context.Context, row workload.Row, namespace, name string) (*Workload, error) {
	w, err := s.read(ctx, row, namespace, name, planner.HoldState{})
	if w == nil || err != nil || !workload.HasReleaseMark(w.Object) {
		return w, err
	}
	if made, err := madeBeside(ctx, s, w.Object); made || err != nil {
		return nil, err
	}
	return w, nil
}

// read reads a workload as it is stored.
func (s Reader) read(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*Workload, error) {
	found, err := stored(ctx, s, row.GVK, namespace, name)
	if found == nil || err != nil {
		return nil, err
	}
	w := &Workload{Row: row, Object: found, pods: &podsRead{}}
	if u, ok := found.(*unstructured.Unstructured); ok {
		if w.Object, err = row.FromContent(u.Object); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, decodeError(u, row.New(), err))
		}
	}
	w.Object.GetObjectKind().SetGroupVersionKind(row.GVK)
	w.Hold = workload.HoldFromRecords(w.Object)
	if w.Owned, err = ownedBy(ctx, s, row, w.Object, known); err != nil {
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
func ownedBy(ctx context.Context, s Reader, row workload.Row, obj object.Object, known planner.HoldState) ([]object.Object, error) {
	var owned []object.Object
	if row.UsesExtraDeployment && known.Batch != "" {
		extras, err := extrasOf(ctx, s, row, obj, known)
		if err != nil {
			return nil, err
		}
		owned = extras
	}
	owners := append([]object.Object{obj}, owned...)
	for _, kind := range row.Owns {
		for _, owner := range owners {
			// There may be many, with large templates, and nothing changes them.
			found, err := listed(ctx, s, kind, owner, client.MatchingFields{ByOwner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy)
			if err != nil {
				return nil, err
			}
			owned = append(owned, found...)
		}
	}
	if row.OwnsAutoscalers {
		scalers, err := s.Autoscalers(ctx, obj.GetNamespace(), obj.GetName())
		if err != nil {
			return nil, err
		}
		owned = append(owned, scalers...)
	}
	return owned, nil
}

// Autoscalers are those that scale a name, or would if they were not disabled.
func (s Reader) Autoscalers(ctx context.Context, namespace, name string) ([]object.Object, error) {
	return listed(ctx, s, autoscaler, &metav1.ObjectMeta{Namespace: namespace, Name: name}, client.MatchingFields{ByScaled: name})
}

// Mark labels pods. Their status changes all the time, so that the version is
// not compared; the uid is, and a pod that is gone needs no label.
func (s Server) Mark(ctx context.Context, namespace string, marks []planner.PodLabel) error {
	for _, m := range marks {
		meta := map[string]any{"metadata": map[string]any{"uid": m.UID, "labels": workload.BatchLabels(m)}}
		patch, err := json.Marshal(meta)
		if err != nil {
			return fmt.Errorf("labelling pod %s: %w", m.Pod, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Pod}}
		if err := ignoreNotFound(s.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))); err != nil {
			return err
		}
	}
	return nil
}

// Named reports whether a Rollout or a BatchRelease which counts names the workload.
// The caches may be behind, so where they know none the server is asked.
func (s Reader) Named(ctx context.Context, w *Workload, counts func(client.Object) bool) (bool, error) {
	key := WorkloadKey(w.Row.GVK.GroupKind(), w.Object.GetName())
	here := client.InNamespace(w.Object.GetNamespace())
	if found, err := namedIn(ctx, s, key, counts, here, client.MatchingFields{ByWorkload: key}, client.UnsafeDisableDeepCopy); found || err != nil {
		return found, err
	}
	// Verify before and after the reads: CRDs may take over the API in between.
	if err := VerifyServedByWeir(s.API); err != nil {
		return false, err
	}
	if found, err := namedIn(ctx, s.Live, key, counts, here); found || err != nil {
		return found, err
	}
	return false, VerifyServedByWeir(s.API)
}

func namedIn(ctx context.Context, from client.Reader, key string, counts func(client.Object) bool, which ...client.ListOption) (bool, error) {
	for _, list := range []client.ObjectList{Rollouts(), BatchReleases()} {
		found, err := items(ctx, from, list, which...)
		if err != nil {
			return false, fmt.Errorf("listing who names %s: %w", key, err)
		}
		if slices.ContainsFunc(found, func(o object.Object) bool { return slices.Contains(WorkloadKeys(o), key) && counts(o) }) {
			return true, nil
		}
	}
	return false, nil
}

// LostRollout returns the name of the Rollout that holds a workload, if weir-apiserver neither has
// the Rollout nor remembers its deletion. Then the data of weir-apiserver is new, or was restored
// from a snapshot without the Rollout. A workload without Weir's label was not held for a Rollout.
func (s Reader) LostRollout(ctx context.Context, w *Workload) (string, error) {
	name := workload.HolderOf(w.Object)
	if name == "" || w.Object.GetLabels()[rollouts.LabelWorkloadType] == "" {
		return "", nil
	}
	r := &metav1.PartialObjectMetadata{}
	r.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("Rollout"))
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: w.Object.GetNamespace(), Name: name}, r)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return "", nil // it names another workload
	case !NotFound(err):
		return "", fmt.Errorf("reading Rollout %s: %w", name, err)
	case errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.UID != "":
		return "", nil // the uid of the one that was deleted
	}
	return name, VerifyServedByWeir(s.API)
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

// DecodeError is a workload that has something else in a field than its kind's view
// in Go, which only the definition of a kind that we do not know can allow.
type DecodeError struct {
	// Why is for people.
	Why string
}

func (m *DecodeError) Error() string { return m.Why }

// decodeError names the field for which the object could not be read, which err does not.
func decodeError(u *unstructured.Unstructured, view object.Object, err error) error {
	data, unreadable := u.MarshalJSON()
	if unreadable != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(utiljson.Unmarshal(data, view), &wrong) {
		return err
	}
	field := strings.TrimPrefix(wrong.Field, reflect.TypeFor[appsv1.StatefulSet]().Name()+".") // embedded in workload.StatefulSetLike
	return &DecodeError{Why: fmt.Sprintf("the %s has a value of type %s in %s, and is released only with one of type %s there; write that",
		u.GetKind(), wrong.Value, field, wrong.Type)}
}
