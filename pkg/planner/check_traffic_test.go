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

// routeTarget is a revision that requests are sent to.
type routeTarget struct {
	what, hash string
	// able is how many ready pods there are for them.
	able int32
}

// Traffic: what a router or a pinned Service sends requests to has a ready pod.
func (c *invariants) listRouteTargets() []routeTarget {
	var out []routeTarget
	for _, i := range listOf[*networkingv1.Ingress](c.w.store.objects) {
		weight, err := strconv.Atoi(i.Annotations["nginx.ingress.kubernetes.io/canary-weight"])
		if err != nil || weight == 0 {
			continue
		}
		name := backendService(i)
		if i.DeletionTimestamp != nil && name != canaryName(name) {
			continue // it was led back to where all others go
		}
		hash := ""
		if svc := find[*corev1.Service](c.w.store.objects, kindService, name); svc != nil {
			hash = pinnedRevision(svc)
		}
		if name != canaryName(name) {
			hash = c.revisionUnderRelease() // the router tells revisions of one Service apart
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

// backendService is the Service that an Ingress sends requests to.
func backendService(i *networkingv1.Ingress) string {
	return i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name
}

// revisionUnderRelease is the revision that a release under way brings out. A set of it that was deleted
// is made again under the name of the template.
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

// canaryName is the name with the suffix of what is made beside the original.
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
