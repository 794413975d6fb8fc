// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// daemonSets reconciles Advanced DaemonSets: it creates a pod of the live template on each matching
// node without a pod, and replaces old pods on as many nodes as the partition allows. A surge is
// not simulated.
type daemonSets struct{ cloneSets }

var nodeJoinsOrLeaves = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// enqueueAllDaemonSets requeues all DaemonSets when a node joins or leaves.
func enqueueAllDaemonSets(c client.Client) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) (all []reconcile.Request) { //nolint:forbidigo // a test may panic
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(DaemonSetKind)
		if err := c.List(ctx, list); err != nil {
			return nil // the test ends
		}
		for i := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return all
	})
}

// Reconcile creates missing pods or replaces old ones, and updates the status.
func (r *daemonSets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.read(ctx, DaemonSetKind, req.NamespacedName)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	nodes, err := r.nodes(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	moved, err := r.createMissingPods(ctx, s, nodes)
	if err == nil && !moved {
		moved, err = r.refresh(ctx, s)
	}
	if u := s.spec.UpdateStrategy; err == nil && !moved && u.Type == "RollingUpdate" && !u.RollingUpdate.Paused {
		err = r.replaceOldPods(ctx, s, nodes)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.pods, err = r.podsOf(ctx, s.object); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, s, nodes)
}

// nodes returns the names of the nodes that need a pod.
func (r *daemonSets) nodes(ctx context.Context, s *cloneSet) ([]string, error) {
	var list corev1.NodeList
	err := r.List(ctx, &list, client.MatchingLabels(s.spec.Template.Spec.NodeSelector))
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// createMissingPods creates a pod on each node without one, and reports whether it did. A
// terminating pod still occupies its node.
func (r *daemonSets) createMissingPods(ctx context.Context, s *cloneSet, nodes []string) (bool, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(s.object.GetNamespace())); err != nil {
		return false, err
	}
	has, moved := map[string]bool{}, false
	for i := range list.Items {
		if p := &list.Items[i]; metav1.IsControlledBy(p, s.object) {
			has[p.Spec.NodeName] = true
		}
	}
	for _, node := range nodes {
		if has[node] {
			continue
		}
		p := s.newPod(s.update)
		p.Spec.NodeName = node
		if err := r.Create(ctx, p); err != nil {
			return true, fmt.Errorf("creating a pod: %w", err)
		}
		moved = true
	}
	return moved, nil
}

func (s *cloneSet) byNode() map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for i := range s.pods {
		pods[s.pods[i].Spec.NodeName] = &s.pods[i]
	}
	return pods
}

// replaceOldPods replaces old pods on all nodes except as many as the partition: nodes with updated
// pods count first, then those without a pod, then the others by descending name. An unavailable
// pod can be replaced without limit.
func (r *daemonSets) replaceOldPods(ctx context.Context, s *cloneSet, nodes []string) error {
	pods := s.byNode()
	var updated, empty, old []string
	for _, node := range slices.Backward(nodes) {
		switch p := pods[node]; {
		case p == nil:
			empty = append(empty, node)
		case s.updated(p):
			updated = append(updated, node)
		default:
			old = append(old, node)
		}
	}
	u := s.spec.UpdateStrategy.RollingUpdate
	upTo := max(len(nodes)-intstr.ValueOrDefault(u.Partition, intstr.FromInt32(0)).IntValue(), 0)
	may, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(u.MaxUnavailable, intstr.FromInt32(1)), len(nodes), true)
	if err != nil {
		return err
	}
	for _, node := range slices.Concat(updated, empty, old)[:min(upTo, len(nodes))] {
		p := pods[node]
		switch {
		case p == nil || s.updated(p) && !s.available(p):
			may--
		case s.updated(p):
		case !s.available(p):
			err = r.replace(ctx, s, p)
		case may > 0:
			may--
			err = r.replace(ctx, s, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace updates a pod in place if its owner allows it and it is possible, or deletes it.
func (r *daemonSets) replace(ctx context.Context, s *cloneSet, p *corev1.Pod) error {
	if s.spec.UpdateStrategy.RollingUpdate.RollingUpdateType == "InPlaceIfPossible" {
		if images, ok := r.onlyImages(ctx, s, p); ok {
			return r.updateInPlace(ctx, s, p, images)
		}
	}
	return r.Delete(ctx, p)
}

// updateStatus writes the status if it has changed.
func (r *daemonSets) updateStatus(ctx context.Context, s *cloneSet, nodes []string) error {
	var current, readies, available, updated int64
	pods := s.byNode()
	for _, node := range nodes {
		p := pods[node]
		if p == nil {
			continue
		}
		current++
		if ready(p) != nil {
			readies++
		}
		if s.available(p) {
			available++
		}
		if s.updated(p) {
			updated++
		}
	}
	desired := int64(len(nodes))
	status := map[string]any{
		"observedGeneration": s.object.GetGeneration(), "daemonSetHash": s.revisionLabel(s.update),
		"desiredNumberScheduled": desired, "currentNumberScheduled": current, "numberMisscheduled": int64(len(s.pods)) - current,
		"numberReady": readies, "updatedNumberScheduled": updated, "numberAvailable": available, "numberUnavailable": desired - available,
	}
	if stored, _, _ := unstructured.NestedMap(s.object.Object, "status"); equality.Semantic.DeepEqual(stored, status) { // empty before the first revision
		return nil
	}
	s.object.Object["status"] = status
	return r.Status().Update(ctx, s.object)
}
