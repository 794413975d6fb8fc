// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// routeTarget is a revision that receives requests.
type routeTarget struct {
	what, hash string
	// able is the number of ready pods of the revision.
	able int32
}

// listRouteTargets returns the revisions that routers and pinned Services send requests to. The
// invariant "traffic" requires a ready pod of each.
func (c *invariants) listRouteTargets() []routeTarget {
	var out []routeTarget
	for _, i := range listOf[*networkingv1.Ingress](c.w.store.objects) {
		weight, err := strconv.Atoi(i.Annotations["nginx.ingress.kubernetes.io/canary-weight"])
		if err != nil || weight == 0 {
			continue
		}
		name := backendService(i)
		if i.DeletionTimestamp != nil && name != canaryName(name) {
			continue // it leads to the stable Service again
		}
		hash := ""
		if svc := find[*corev1.Service](c.w.store.objects, kindService, name); svc != nil {
			hash = pinnedRevision(svc)
		}
		if name != canaryName(name) {
			hash = c.revisionUnderRelease() // the router distinguishes the revisions behind one Service
		}
		out = append(out, routeTarget{fmt.Sprintf("ingress sends %d%% to service %s, revision %q", weight, name, hash), hash, c.countReadyPodsOf(hash)})
	}
	out = append(out, c.listRouterTargets()...)
	for _, s := range listOf[*corev1.Service](c.w.store.objects) {
		if hash := pinnedRevision(s); hash != "" && s.Name != canaryName(s.Name) {
			out = append(out, routeTarget{fmt.Sprintf("service %s is pinned to %s", s.Name, hash), hash, c.countReadyPodsOf(hash)})
		}
	}
	return out
}

// backendService returns the Service that an Ingress sends requests to.
func backendService(i *networkingv1.Ingress) string {
	return i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name
}

// revisionUnderRelease returns the revision of the current release. If its set was deleted, the new
// set has the name that the template gives.
func (c *invariants) revisionUnderRelease() string {
	for _, r := range listOf[*rollouts.Rollout](c.w.store.objects) {
		switch p := r.Status.Active(); {
		case p == nil || p.PodTemplateHash == "":
		case c.setOfRevision(p.PodTemplateHash) == nil && c.setOfRevision(p.UpdateRevision) != nil:
			return p.UpdateRevision
		default:
			return p.PodTemplateHash
		}
	}
	return ""
}

// canaryName returns the name with the suffix of canary objects.
func canaryName(name string) string {
	if n := len(name) - len(rollouts.CanarySuffix); n > 0 && name[n:] == rollouts.CanarySuffix {
		return name
	}
	return name + rollouts.CanarySuffix
}

// countReadyPodsOf counts the ready pods of a revision.
func (c *invariants) countReadyPodsOf(hash string) int32 {
	n := servingPods(c.setOfRevision(hash))
	for _, p := range podsIn(c.w.store.objects) {
		if hash != "" && p.Labels[ordinalKey] == hash && !isUnavailable(p) {
			n++
		}
	}
	return n
}

func (c *invariants) setOfRevision(hash string) *appsv1.ReplicaSet {
	for _, rs := range listOf[*appsv1.ReplicaSet](c.w.store.objects) {
		if hash != "" && rs.Labels[hashKey] == hash && rs.DeletionTimestamp == nil {
			return rs
		}
	}
	return nil
}
