// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// errConflict means that another actor wrote first: a conflict, an object that exists already, or
// an object that is gone.
var errConflict error = apierrors.NewConflict(schema.GroupResource{}, "it", errors.New("moved"))

type kind string

const (
	kindRollout    kind = "rollout"
	kindBatch      kind = "batch"
	kindDeployment kind = "deployment"
	kindSet        kind = "set"
	kindService    kind = "service"
	kindIngress    kind = "ingress"
	kindHistory    kind = "history"
	kindRouting    kind = "routing"
	kindIndex      kind = "index"

	kindStatefulSet kind = "statefulset"
	kindRevision    kind = "revision"
	kindPod         kind = "pod"

	kindDaemonSet kind = "daemonset"
	kindNode      kind = "node"

	kindCloneSet kind = "cloneset"

	kindScaler kind = "autoscaler"
)

type key struct {
	kind kind
	name string
}

// typedKinds are the kinds that have their own Go type.
var typedKinds = map[reflect.Type]kind{}

func init() {
	for k, o := range map[kind]object.Object{
		kindRollout: &rollouts.Rollout{}, kindBatch: &rollouts.BatchRelease{}, kindRouting: &rollouts.TrafficRouting{}, kindHistory: &rollouts.RolloutHistory{},
		kindDeployment: &appsv1.Deployment{}, kindSet: &appsv1.ReplicaSet{}, kindStatefulSet: &appsv1.StatefulSet{}, kindDaemonSet: &appsv1.DaemonSet{},
		kindCloneSet: &workload.CloneSet{}, kindRevision: &appsv1.ControllerRevision{}, kindPod: &corev1.Pod{}, kindNode: &corev1.Node{},
		kindService: &corev1.Service{}, kindIngress: &networkingv1.Ingress{}, kindIndex: &corev1.ConfigMap{},
		kindScaler: &autoscalingv2.HorizontalPodAutoscaler{},
	} {
		typedKinds[reflect.TypeOf(o)] = k
	}
}

func keyOf(o object.Object) key {
	k, ok := typedKinds[reflect.TypeOf(o)]
	if !ok {
		k = kindOf(o.GetObjectKind().GroupVersionKind().Kind)
	}
	return key{k, o.GetName()}
}

// snapshot contains all objects at one moment. Objects in a snapshot are never changed.
type snapshot map[key]object.Object

// maxCacheLag is the maximum number of moments that a cache may be stale.
const maxCacheLag = 12

// store keeps objects like an API server: every write has a resourceVersion as precondition, status
// and spec are written separately, finalizers delay a deletion, and a write without a change
// creates no new version.
type store struct {
	now     func() time.Time
	objects snapshot
	// past are the last moments, newest last. first is the number of the oldest.
	past  []snapshot
	first int
	// version is the newest resourceVersion of all objects.
	version int64
	// onWrite is called after each write. Either object may be nil.
	onWrite func(old, new object.Object)
	// unready are images whose pods run but do not become ready.
	unready map[string]bool
	// synced are the versions of each StatefulSet and its pods that the native controller has
	// observed.
	synced map[types.UID]string
}

func newStore(now func() time.Time) *store {
	return &store{now: now, objects: snapshot{}, past: []snapshot{{}}, unready: map[string]bool{}, synced: map[types.UID]string{}}
}

// fork returns an independent copy.
func (s *store) fork() *store {
	f := *s
	f.objects, f.past, f.unready = maps.Clone(s.objects), slices.Clone(s.past), maps.Clone(s.unready)
	f.synced = maps.Clone(s.synced)
	return &f
}

// newest returns the number of the current moment.
func (s *store) newest() int { return s.first + len(s.past) - 1 }

// at returns the snapshot of a moment, or the oldest snapshot that is kept.
func (s *store) at(moment int) snapshot { return s.past[max(moment-s.first, 0)] }

func (s *store) put(k key, o object.Object) {
	old := s.objects[k]
	if o == nil {
		delete(s.objects, k)
	} else {
		s.version++
		o.SetResourceVersion(strconv.FormatInt(s.version, 10))
		s.objects[k] = o
	}
	s.beginMoment()
	if s.onWrite != nil {
		s.onWrite(old, o)
	}
}

// beginMoment begins a new moment.
func (s *store) beginMoment() {
	s.past = append(s.past, maps.Clone(s.objects))
	if len(s.past) > maxCacheLag {
		s.past, s.first = s.past[1:], s.first+1
	}
}

func (s *store) create(o object.Object) error {
	k := keyOf(o)
	if s.objects[k] != nil {
		return fmt.Errorf("%w: %s exists", errConflict, k.name)
	}
	o = clone(o)
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
	o.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	o.SetGeneration(1)
	s.put(k, o)
	return nil
}

// update replaces everything except the status, updateStatus only the status, and record both.
func (s *store) update(o object.Object) error       { return s.replace(o, keepStatus) }
func (s *store) updateStatus(o object.Object) error { return s.replace(o, withStatus) }
func (s *store) updateAll(o object.Object) error    { return s.replace(o, withGeneration) }

func (s *store) replace(o object.Object, merge func(old, next object.Object) object.Object) error {
	k := keyOf(o)
	old := s.objects[k]
	if old == nil || old.GetResourceVersion() != o.GetResourceVersion() || old.GetUID() != o.GetUID() {
		return fmt.Errorf("%w: %s is not at version %s", errConflict, k.name, o.GetResourceVersion())
	}
	next := merge(old, clone(o))
	switch {
	case equality.Semantic.DeepEqual(old, next):
	case next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 && k.kind != kindPod:
		s.put(k, nil)
	default:
		s.put(k, next)
	}
	return nil
}

// rebaseOnStatus returns want, which was made from base, at the current version of a Deployment, if
// only the status has changed since (ADR 16).
func (s *store) rebaseOnStatus(base, want object.Object) object.Object {
	old := s.objects[keyOf(base)]
	if _, ok := old.(*appsv1.Deployment); !ok || old.GetLabels()[rollouts.LabelCanaryDeployment] != "" || old.GetUID() != base.GetUID() || old.GetGeneration() != base.GetGeneration() ||
		!maps.Equal(old.GetLabels(), base.GetLabels()) || !maps.Equal(old.GetAnnotations(), base.GetAnnotations()) {
		return want
	}
	want = clone(want)
	want.SetResourceVersion(old.GetResourceVersion())
	return want
}

// remove deletes an object, or sets its deletionTimestamp while it has finalizers.
func (s *store) remove(o object.Object) error {
	k := keyOf(o)
	old := s.objects[k]
	switch {
	case old == nil || old.GetUID() != o.GetUID():
		return nil
	case len(old.GetFinalizers()) == 0 && k.kind != kindPod: // the kubelet ends a pod
		s.put(k, nil)
	case old.GetDeletionTimestamp() == nil:
		next := clone(old)
		at := metav1.NewTime(s.now().Truncate(time.Second))
		next.SetDeletionTimestamp(&at)
		next.SetGeneration(next.GetGeneration() + 1)
		s.put(k, next)
	}
	return nil
}

// removeEndedPod removes a pod that has ended.
func (s *store) removeEndedPod(p *corev1.Pod) { s.put(keyOf(p), nil) }

// removeAtVersion removes an object with its resourceVersion as precondition.
func (s *store) removeAtVersion(o object.Object) error {
	if old := s.objects[keyOf(o)]; old != nil && o.GetResourceVersion() != "" && old.GetResourceVersion() != o.GetResourceVersion() {
		return fmt.Errorf("%w: %s is not at version %s", errConflict, o.GetName(), o.GetResourceVersion())
	}
	return s.remove(o)
}

func clone[T object.Object](o T) T { return o.DeepCopyObject().(T) }

// keepStatus is the strategy of the main resource: a changed spec increments the generation, and a
// Deployment's changed annotations do, too.
func keepStatus(old, next object.Object) object.Object {
	if n, ok := next.(*unstructured.Unstructured); ok {
		setStatus(n, old.(*unstructured.Unstructured))
	} else if field(next, "Status").IsValid() {
		field(next, "Status").Set(field(old, "Status"))
	}
	return withGeneration(old, next)
}

// withGeneration returns next with its generation.
func withGeneration(old, next object.Object) object.Object {
	changed := false
	if n, ok := next.(*unstructured.Unstructured); ok {
		changed = !equality.Semantic.DeepEqual(old.(*unstructured.Unstructured).Object["spec"], n.Object["spec"])
	} else if field(next, "Status").IsValid() {
		changed = !equality.Semantic.DeepEqual(field(old, "Spec").Interface(), field(next, "Spec").Interface())
	}
	if _, ok := next.(*corev1.Pod); ok {
		changed = false
	}
	if _, ok := next.(*appsv1.Deployment); ok {
		changed = changed || !equality.Semantic.DeepEqual(old.GetAnnotations(), next.GetAnnotations())
	}
	next.SetGeneration(old.GetGeneration())
	if changed {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	return next
}

// withStatus returns old with the status of next. For a Deployment it also takes the annotations,
// like the strategy of the API server.
func withStatus(old, next object.Object) object.Object {
	made := clone(old)
	switch n := next.(type) {
	case *unstructured.Unstructured:
		setStatus(made.(*unstructured.Unstructured), n)
	case *appsv1.Deployment:
		made.SetAnnotations(n.Annotations)
		made.(*appsv1.Deployment).Status = n.Status
	default:
		if field(next, "Status").IsValid() {
			field(made, "Status").Set(field(next, "Status"))
		}
	}
	return made
}

// field returns a field of a typed object.
func field(o object.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// find returns the object with a name in a snapshot, or nil. The caller must not change it.
func find[T object.Object](s snapshot, k kind, name string) T {
	o, _ := s[key{k, name}].(T)
	return o
}

// listOf returns the objects of a Go type, sorted by name.
func listOf[T object.Object](s snapshot) []T {
	var out []T
	for _, o := range s {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// listKind returns the objects of a kind, sorted by name.
func listKind(s snapshot, k kind) []object.Object {
	var out []object.Object
	for at, o := range s {
		if at.kind == k {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b object.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// collectGarbage deletes objects whose controller owner is gone.
func (s *store) collectGarbage() {
	alive := map[types.UID]bool{}
	for _, o := range s.objects {
		alive[o.GetUID()] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		o := s.objects[k]
		if ref := metav1.GetControllerOf(o); ref != nil && !alive[ref.UID] {
			_ = s.remove(o) // the object exists, so the deletion cannot fail
		}
		s.finishForegroundDeletion(o)
	}
}

// finishForegroundDeletion removes the finalizer of a set whose pods are gone.
func (s *store) finishForegroundDeletion(o object.Object) {
	if rs, ok := o.(*appsv1.ReplicaSet); ok && rs.DeletionTimestamp != nil && rs.Status.Replicas == 0 {
		next := clone(rs)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == metav1.FinalizerDeleteDependents })
		_ = s.update(next) // it was read in this call, or is gone
	}
}
