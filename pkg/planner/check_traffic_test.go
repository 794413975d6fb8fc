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
func (c *invariants) targets() []routeTarget {
	var out []routeTarget
	for _, i := range each[*networkingv1.Ingress](c.w.store.objects) {
		weight, err := strconv.Atoi(i.Annotations["nginx.ingress.kubernetes.io/canary-weight"])
		if err != nil || weight == 0 {
			continue
		}
		name := leadsTo(i)
		if i.DeletionTimestamp != nil && name != canary(name) {
			continue // it was led back to where all others go
		}
		hash := ""
		if svc := find[*corev1.Service](c.w.store.objects, kindService, name); svc != nil {
			hash = pinned(svc)
		}
		if name != canary(name) {
			hash = c.released() // the router tells revisions of one Service apart
		}
		out = append(out, routeTarget{fmt.Sprintf("ingress sends %d%% to service %s, revision %q", weight, name, hash), hash, c.able(hash)})
	}
	out = append(out, c.routeTargets()...)
	for _, s := range each[*corev1.Service](c.w.store.objects) {
		if hash := pinned(s); hash != "" && s.Name != canary(s.Name) {
			out = append(out, routeTarget{fmt.Sprintf("service %s is pinned to %s", s.Name, hash), hash, c.able(hash)})
		}
	}
	return out
}

// leadsTo is the Service that an Ingress sends requests to.
func leadsTo(i *networkingv1.Ingress) string {
	return i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name
}

// released is the revision that a release under way brings out. A set of it that was deleted
// is made again under the name of the template.
func (c *invariants) released() string {
	for _, r := range each[*rollouts.Rollout](c.w.store.objects) {
		switch p := r.Status.Active(); {
		case p == nil || p.PodTemplateHash == "":
		case c.set(p.PodTemplateHash) == nil && c.set(p.UpdateRevision) != nil:
			return p.UpdateRevision
		default:
			return p.PodTemplateHash
		}
	}
	return ""
}

// canary is the name with the suffix of what is made beside the original.
func canary(name string) string {
	if n := len(name) - len(rollouts.CanarySuffix); n > 0 && name[n:] == rollouts.CanarySuffix {
		return name
	}
	return name + rollouts.CanarySuffix
}

// able counts the ready pods of a revision.
func (c *invariants) able(hash string) int32 {
	n := servingPods(c.set(hash))
	for _, p := range podsIn(c.w.store.objects) {
		if hash != "" && p.Labels[ordinalKey] == hash && !missing(p) {
			n++
		}
	}
	return n
}

func (c *invariants) set(hash string) *appsv1.ReplicaSet {
	for _, rs := range each[*appsv1.ReplicaSet](c.w.store.objects) {
		if hash != "" && rs.Labels[hashKey] == hash && rs.DeletionTimestamp == nil {
			return rs
		}
	}
	return nil
}
