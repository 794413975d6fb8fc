// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statefulSets reconciles Advanced StatefulSets: pods are created in order, each ready before the
// next, and replaced one at a time, from the highest ordinal down to the partition.
type statefulSets struct {
	cloneSets
	kind schema.GroupVersionKind
}

// Reconcile carries out at most one move, and updates the status.
func (r *statefulSets) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.read(ctx, r.kind, req.NamespacedName)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	s.spec.UpdateStrategy.Partition = s.spec.UpdateStrategy.RollingUpdate.Partition
	refreshed, err := r.refresh(ctx, s)
	if err == nil && !refreshed {
		err = r.reconcilePods(ctx, s)
	}
	// A terminating pod has the name of its replacement: its deletion triggers the next reconcile.
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.pods, err = r.podsOf(ctx, s.object); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, s)
}

// ordinal is the name of a pod, without reserved ordinals.
func (s *cloneSet) ordinal(i int) string {
	n := -1
	for range i + 1 {
		for n++; slices.Contains(s.spec.ReserveOrdinals, n); n++ {
		}
	}
	return fmt.Sprintf("%s-%d", s.object.GetName(), n)
}

func (r *statefulSets) reconcilePods(ctx context.Context, s *cloneSet) error {
	pods := map[string]*corev1.Pod{}
	for i := range s.pods {
		pods[s.pods[i].Name] = &s.pods[i]
	}
	n, keep := s.replicas(), s.partition()
	for i := range n {
		p := pods[s.ordinal(i)]
		if p == nil {
			return r.createPod(ctx, s, i, i < keep)
		}
		delete(pods, p.Name)
	}
	for _, p := range pods {
		return r.Delete(ctx, p) // above the replicas
	}
	for i := range s.pods {
		if ready(&s.pods[i]) == nil || s.spec.UpdateStrategy.RollingUpdate.Paused {
			return nil
		}
	}
	for i := n - 1; i >= keep; i-- {
		for j := range s.pods {
			if p := &s.pods[j]; p.Name == s.ordinal(i) && !s.updated(p) {
				return r.replace(ctx, s, p)
			}
		}
	}
	return nil
}

func (r *statefulSets) createPod(ctx context.Context, s *cloneSet, i int, old bool) error {
	revision := s.update
	if old {
		revision = s.current
	}
	p := s.newPod(revision)
	p.GenerateName, p.Name = "", s.ordinal(i)
	p.Labels[appsv1.StatefulSetPodNameLabel] = p.Name
	return r.Create(ctx, p)
}

// replace updates a pod in place if its owner allows it and it is possible, or deletes it.
func (r *statefulSets) replace(ctx context.Context, s *cloneSet, p *corev1.Pod) error {
	if strings.HasPrefix(s.spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy, "InPlace") {
		if images, ok := r.onlyImages(ctx, s, p); ok {
			return r.updateInPlace(ctx, s, p, images)
		}
	}
	return r.Delete(ctx, p)
}
