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
	// Hold is the state of the hold according to the store.
	Hold workload.Hold
	// NameConflict is an object that has the name of the extra Deployment; nil if the name is free.
	NameConflict object.Object
	pods         *podCache
}

// Facts returns the facts that a release of the workload is decided by.
func (w *Workload) Facts() planner.Workload {
	return w.Row.Facts(w.Object, w.Owned, w.Hold, w.NameConflict)
}

// WithRepair adds the repair of Weir's records on the workload to changes, unless one of them repairs
// the records already.
func (w *Workload) WithRepair(changes []object.Change) []object.Change {
	return w.Row.RepairRecords(w.Object, w.Hold, changes)
}

// IsFor reports whether w is the workload with the name and was read for the row.
func (w *Workload) IsFor(row workload.Row, name string) bool {
	return w != nil && w.Row.GVK == row.GVK && w.Row.Style == row.Style && w.Object.GetName() == name
}

// WithHold returns the same workload with another state in the store.
func (w *Workload) WithHold(known planner.HoldState) *Workload {
	other := *w
	other.Hold = w.Row.HoldOf(w.Object, w.Owned, known)
	return &other
}

// ForScaling returns the workload for decisions about the sizes of ReplicaSets. These belong to the
// partition style, whatever the style of the release is.
func (w *Workload) ForScaling(known planner.HoldState) *Workload {
	sized := *w
	if row, ok := workload.Find(w.Row.GVK.GroupVersion().String(), w.Row.GVK.Kind, rollouts.StylePartition); ok {
		sized.Row = row
	}
	return sized.WithHold(known)
}

// Sizing implements planner.ReplicaSetScaler.
func (w *Workload) Sizing(known planner.HoldState) (sizes.Scaling, bool) {
	sized := w.ForScaling(known)
	if !sized.Hold.Active() || sized.Hold.IsForAnotherObject(sized.Object) {
		return sizes.Scaling{}, false
	}
	return sized.Row.ObserveScaling(sized.Object, sized.Owned, sized.Hold)
}

// Workload reads the workload of a row, or returns nil when there is none.
func (s Reader) Workload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*Workload, error) {
	w, err := s.readWorkload(ctx, row, namespace, name, known)
	if w == nil || err != nil {
		return w, err
	}
	w.Hold = row.HoldOf(w.Object, w.Owned, known)
	w.NameConflict, err = row.NameConflict(w.Object, w.Owned, w.Hold, func(name string) (object.Object, error) {
		return getStored(ctx, s, row.GVK, namespace, name)
	})
	return w, err
}

// RequireFreshWorkload makes passes wait until the cache shows a workload as it is on the server now.
func (s Reader) RequireFreshWorkload(ctx context.Context, row workload.Row, namespace, name string) error {
	// weir-controller has permission to list workloads, but not to get one.
	now, err := listObjects(ctx, s.Live, newMetadataList(row.GVK), client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, err)
	}
	for _, o := range now {
		s.WriteTracker.recordWrite(o)
	}
	return nil
}

// UnreferencedWorkload reads a workload that nothing in the store is about; the annotations on it say whether it
// is held. It returns nil for the extra Deployment of a release.
func (s Reader) UnreferencedWorkload(ctx context.Context, row workload.Row, namespace, name string) (*Workload, error) {
	w, err := s.readWorkload(ctx, row, namespace, name, planner.HoldState{})
	if w == nil || err != nil || !workload.HasReleaseMark(w.Object) {
		return w, err
	}
	if made, err := isExtraWorkload(ctx, s, w.Object); made || err != nil {
		return nil, err
	}
	return w, nil
}

// readWorkload reads a workload as it is stored.
func (s Reader) readWorkload(ctx context.Context, row workload.Row, namespace, name string, known planner.HoldState) (*Workload, error) {
	found, err := getStored(ctx, s, row.GVK, namespace, name)
	if found == nil || err != nil {
		return nil, err
	}
	w := &Workload{Row: row, Object: found, pods: &podCache{}}
	if u, ok := found.(*unstructured.Unstructured); ok {
		if w.Object, err = row.FromContent(u.Object); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", row.GVK.Kind, name, decodeError(u, row.New(), err))
		}
	}
	w.Object.GetObjectKind().SetGroupVersionKind(row.GVK)
	w.Hold = workload.HoldFromRecords(w.Object)
	if w.Owned, err = readOwned(ctx, s, row, w.Object, known); err != nil {
		return nil, err
	}
	for _, o := range append([]object.Object{w.Object}, w.Owned...) {
		if err := s.WriteTracker.checkFresh(o); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// readOwned reads the objects that a pass needs with its workload: the extra workload, the objects that both
// own, and the autoscalers.
func readOwned(ctx context.Context, s Reader, row workload.Row, obj object.Object, known planner.HoldState) ([]object.Object, error) {
	var owned []object.Object
	if row.UsesExtraDeployment && known.Batch != "" {
		extras, err := readExtraWorkloads(ctx, s, row, obj, known)
		if err != nil {
			return nil, err
		}
		owned = extras
	}
	owners := append([]object.Object{obj}, owned...)
	for _, kind := range row.Owns {
		for _, owner := range owners {
			// There may be many, with large templates. Nothing modifies them, so that the cache need not copy them.
			found, err := listInNamespaceOf(ctx, s, kind, owner, client.MatchingFields{ByOwner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy)
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

// Autoscalers returns the autoscalers of the workload with the name, including those that Weir has disabled.
func (s Reader) Autoscalers(ctx context.Context, namespace, name string) ([]object.Object, error) {
	return listInNamespaceOf(ctx, s, autoscaler, &metav1.ObjectMeta{Namespace: namespace, Name: name}, client.MatchingFields{ByScaleTarget: name})
}

// LabelPods labels pods. The patch has no resourceVersion, because the status of pods changes all the time. It
// has the uid, so that a recreated pod is not labelled. A deleted pod needs no label.
func (s Server) LabelPods(ctx context.Context, namespace string, marks []planner.PodLabel) error {
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

// IsReferenced reports whether a Rollout or BatchRelease for which counts returns true references the workload.
// If the caches have none, IsReferenced asks the server, because the caches may be stale.
func (s Reader) IsReferenced(ctx context.Context, w *Workload, counts func(client.Object) bool) (bool, error) {
	key := WorkloadKey(w.Row.GVK.GroupKind(), w.Object.GetName())
	here := client.InNamespace(w.Object.GetNamespace())
	if found, err := isReferencedIn(ctx, s, key, counts, here, client.MatchingFields{ByWorkload: key}, client.UnsafeDisableDeepCopy); found || err != nil {
		return found, err
	}
	// Verify before and after the reads: CRDs may take over the API in between.
	if err := VerifyServedByWeir(s.API); err != nil {
		return false, err
	}
	if found, err := isReferencedIn(ctx, s.Live, key, counts, here); found || err != nil {
		return found, err
	}
	return false, VerifyServedByWeir(s.API)
}

func isReferencedIn(ctx context.Context, from client.Reader, key string, counts func(client.Object) bool, which ...client.ListOption) (bool, error) {
	for _, list := range []client.ObjectList{NewRolloutList(), NewBatchReleaseList()} {
		found, err := listObjects(ctx, from, list, which...)
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
		return "", nil // the Rollout exists and references another workload
	case !IsNotFound(err):
		return "", fmt.Errorf("reading Rollout %s: %w", name, err)
	case errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.UID != "":
		return "", nil // weir-apiserver remembers the uid of the deleted Rollout
	}
	return name, VerifyServedByWeir(s.API)
}

// ManagesWorkload reports whether a Rollout or BatchRelease is responsible for the workload that it references,
// and so for ending its hold. A disabled Rollout without a release is not, and neither is one that has restored
// its workload for good.
func ManagesWorkload(o client.Object) bool {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return true
	}
	return (r.Status.Phase != v1beta1.PhaseDisabled || !r.Spec.Disabled) && !isFinalized(r)
}

// DecodeError is the error for a workload that has a value of an unexpected type in a field. Only a
// CustomResourceDefinition whose kind looks like a StatefulSet can allow such a value.
type DecodeError struct {
	// Reason is a message for users.
	Reason string
}

func (m *DecodeError) Error() string { return m.Reason }

// decodeError returns an error that names the field that could not be decoded, which err does not name.
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
	return &DecodeError{Reason: fmt.Sprintf("the %s has a value of type %s in %s, and is released only with one of type %s there; write that",
		u.GetKind(), wrong.Value, field, wrong.Type)}
}
