// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replaceKey is the label of pods that must be replaced.
const replaceKey = "apps.kruise.io/specified-delete"

// cloneSets reconciles CloneSets.
type cloneSets struct{ client.Client }

// cloneSet is a stored workload with its active pods: neither completed nor being deleted.
type cloneSet struct {
	object *unstructured.Unstructured
	spec   spec
	pods   []corev1.Pod
	// current and update are the revisions of the stable and of the live template.
	current, update *appsv1.ControllerRevision
	now             time.Time
}

type spec struct {
	Replicas             *int32                 `json:"replicas"`
	Template             corev1.PodTemplateSpec `json:"template"`
	RevisionHistoryLimit *int32                 `json:"revisionHistoryLimit"`
	MinReadySeconds      int32                  `json:"minReadySeconds"`
	ReserveOrdinals      []int                  `json:"reserveOrdinals"`
	ScaleStrategy        struct {
		PodsToDelete []string `json:"podsToDelete"`
	} `json:"scaleStrategy"`
	UpdateStrategy struct {
		Type           string              `json:"type"`
		Partition      *intstr.IntOrString `json:"partition"`
		MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		MaxSurge       *intstr.IntOrString `json:"maxSurge"`
		Paused         bool                `json:"paused"`
		// RollingUpdate is set for StatefulSets and DaemonSets.
		RollingUpdate struct {
			Partition         *intstr.IntOrString `json:"partition"`
			PodUpdatePolicy   string              `json:"podUpdatePolicy"`
			RollingUpdateType string              `json:"rollingUpdateType"`
			MaxUnavailable    *intstr.IntOrString `json:"maxUnavailable"`
			Paused            bool                `json:"paused"`
		} `json:"rollingUpdate"`
	} `json:"updateStrategy"`
}

// Reconcile carries out at most one move, and updates the status.
func (r *cloneSets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.read(ctx, CloneSetKind, req.NamespacedName)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	moved, err := r.scale(ctx, s)
	if err == nil && !moved {
		err = r.update(ctx, s)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.pods, err = r.podsOf(ctx, s.object); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.updateStatus(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if wait := s.spec.MinReadySeconds; wait > 0 && wait < 60 {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// read reads a workload with its pods and revisions; nil if it is deleted or being deleted.
func (r *cloneSets) read(ctx context.Context, kind schema.GroupVersionKind, name types.NamespacedName) (*cloneSet, error) {
	s := &cloneSet{object: &unstructured.Unstructured{}, now: time.Now()}
	s.object.SetGroupVersionKind(kind)
	if err := r.Get(ctx, name, s.object); err != nil || s.object.GetDeletionTimestamp() != nil {
		return nil, client.IgnoreNotFound(err)
	}
	content, _, err := unstructured.NestedMap(s.object.Object, "spec")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s.spec)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	if err := r.reconcileRevisions(ctx, s); err != nil {
		return nil, err
	}
	s.pods, err = r.podsOf(ctx, s.object)
	return s, err
}

func (r *cloneSets) podsOf(ctx context.Context, o client.Object) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.List(ctx, &list, client.InNamespace(o.GetNamespace()))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return !metav1.IsControlledBy(&p, o) || p.DeletionTimestamp != nil ||
			p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	}), err
}

// podTally counts the pods of the update revision, or of all other revisions.
type podTally struct{ all, toReplace, unavailable int }

func (s *cloneSet) tallyPods(updated bool) (t podTally) {
	for i := range s.pods {
		p := &s.pods[i]
		if s.updated(p) != updated {
			continue
		}
		t.all++
		if s.isToReplace(p) {
			t.toReplace++
		} else if !s.available(p) {
			t.unavailable++
		}
	}
	return t
}

func (s *cloneSet) updated(p *corev1.Pod) bool {
	return p.Labels[appsv1.ControllerRevisionHashLabelKey] == s.revisionLabel(s.update)
}

func (s *cloneSet) isToReplace(p *corev1.Pod) bool {
	return p.Labels[replaceKey] == "true" || slices.Contains(s.spec.ScaleStrategy.PodsToDelete, p.Name)
}

func ready(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func (s *cloneSet) available(p *corev1.Pod) bool {
	c := ready(p)
	return c != nil && !s.now.Before(c.LastTransitionTime.Add(time.Duration(s.spec.MinReadySeconds)*time.Second))
}

func (s *cloneSet) replicas() int {
	if s.spec.Replicas == nil {
		return 1
	}
	return int(*s.spec.Replicas)
}

func (s *cloneSet) scaled(v *intstr.IntOrString, otherwise string, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.Parse(otherwise)), s.replicas(), up)
	if err != nil {
		return 0
	}
	return n
}

// partition is the number of pods that stay at the old revision. A percentage below 100% leaves at
// least one pod to update.
func (s *cloneSet) partition() int {
	p := s.spec.UpdateStrategy.Partition
	n := min(s.scaled(p, "0", true), s.replicas())
	if p != nil && p.Type == intstr.String && !strings.HasPrefix(p.StrVal, "100") && s.replicas() > 1 {
		n = min(n, s.replicas()-1)
	}
	return n
}

// nextMove is the next action on the pods.
type nextMove struct {
	create, createOld, remove, removeOld int
	// readyMayGo is how many available pods may be deleted now.
	readyMayGo int
	// update is how many pods should be updated, and unavailableMayBe how many may be unavailable
	// meanwhile.
	update, unavailableMayBe int
}

func (s *cloneSet) decideMove() nextMove {
	was, is := s.tallyPods(false), s.tallyPods(true)
	n, keep, total := s.replicas(), s.partition(), len(s.pods)
	maxSurge := s.scaled(s.spec.UpdateStrategy.MaxSurge, "0", true)
	if s.spec.UpdateStrategy.Paused {
		maxSurge = 0
	}
	maxUnavailable := s.scaled(s.spec.UpdateStrategy.MaxUnavailable, "20%", maxSurge == 0)
	unavailable, dying := was.unavailable+is.unavailable, was.toReplace+is.toReplace
	update := min(max(was.all-keep, 0), max(n-keep-is.all, 0))

	replacing := min(max(unavailable+dying-maxUnavailable, 0), dying)
	surge, surgeOld := min(maxSurge, max(replacing, update)), 0
	if replacing >= update {
		surgeOld = min(surge, max(replacing-is.toReplace, 0))
	}
	return nextMove{
		create: n + surge - total, createOld: max(keep+surgeOld-was.all, 0),
		remove: total - dying - n - surge, removeOld: max(was.all-was.toReplace-keep-surgeOld, 0),
		readyMayGo: max(maxUnavailable+total-n-unavailable, 0),
		update:     update, unavailableMayBe: maxUnavailable + total - n,
	}
}

// scale creates and deletes pods, and reports whether it changed anything.
func (r *cloneSets) scale(ctx context.Context, s *cloneSet) (bool, error) {
	m := s.decideMove()
	if m.create > 0 {
		for i := range m.create {
			revision := s.update
			if i < m.createOld {
				revision = s.current
			}
			if err := r.Create(ctx, s.newPod(revision)); err != nil {
				return true, fmt.Errorf("creating a pod: %w", err)
			}
		}
		return true, nil
	}
	going := s.podsToRemove()
	for _, p := range going {
		if err := r.Delete(ctx, p); err != nil {
			return true, fmt.Errorf("deleting a pod: %w", err)
		}
	}
	return len(going) > 0, nil
}

// podsToRemove returns the pods to delete now: those marked for replacement, otherwise surplus
// pods. A ready pod is deleted only if it may be missing.
func (s *cloneSet) podsToRemove() []*corev1.Pod {
	m := s.decideMove()
	all := s.podsByDeletionOrder(s.isToReplace)
	if len(all) == 0 && m.remove > 0 {
		old := min(m.removeOld, m.remove)
		all = s.podsByDeletionOrder(func(p *corev1.Pod) bool { return !s.updated(p) })
		all = all[:min(old, len(all))]
		others := s.podsByDeletionOrder(s.updated)
		all = append(all, others[:min(m.remove-old, len(others))]...)
	}
	return slices.DeleteFunc(all, func(p *corev1.Pod) bool {
		if ready(p) == nil {
			return false
		}
		m.readyMayGo--
		return m.readyMayGo < 0
	})
}

// podsByDeletionOrder sorts pods in the order of their deletion: the least useful ones first.
func (s *cloneSet) podsByDeletionOrder(which func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range s.pods {
		if which(&s.pods[i]) {
			out = append(out, &s.pods[i])
		}
	}
	rank := func(p *corev1.Pod) int {
		switch {
		case s.isToReplace(p):
			return 0
		case ready(p) == nil:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return out
}

// update updates pods to the update revision, in place or by deleting them.
func (r *cloneSets) update(ctx context.Context, s *cloneSet) error {
	if refreshed, err := r.refresh(ctx, s); refreshed || err != nil || s.spec.UpdateStrategy.Paused {
		return err
	}
	for _, p := range s.podsToUpdate() {
		if err := r.updatePod(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// podsToUpdate returns the pods to update now. Neither of all pods nor of those of the update
// revision may more than a limit be unavailable; an unavailable pod does not count again among all
// pods.
func (s *cloneSet) podsToUpdate() []*corev1.Pod {
	m := s.decideMove()
	all, updated := 0, 0
	for i := range s.pods {
		if p := &s.pods[i]; !s.available(p) {
			all++
			if s.updated(p) {
				updated++
			}
		}
	}
	waiting := s.podsByDeletionOrder(func(p *corev1.Pod) bool { return !s.updated(p) })
	for i, p := range waiting {
		if i == m.update || updated+i >= m.unavailableMayBe || s.available(p) && all >= m.unavailableMayBe {
			return waiting[:i]
		}
		if s.available(p) {
			all++
		}
	}
	return waiting
}
