// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/object"
)

// Ready pods of an extra Deployment stay while the Deployment itself has too few available pods.
// Scenario: the stable ReplicaSet was deleted, or the stable pods are unready, and then the
// release is aborted, cancelled or superseded, or its Rollout is disabled or deleted. Without
// this rule the last ready pods would be deleted before any other pod could serve.
//
//   - Extra pods of the live template stay until the Deployment has replicas minus
//     maxUnavailable available pods (the floor).
//   - Extra pods of another template stay until the Deployment has as many available pods as
//     there are ready extra pods, or the floor if that is smaller. So one unready stable pod
//     does not keep an aborted version running.
//   - During an abort the second rule applies to extra pods of the live template, too. Ready
//     extra pods of superseded templates then count as available pods of the Deployment.

// availability has the numbers that decide which extra Deployments requests still need.
type availability struct {
	d     *appsv1.Deployment
	owned []object.Object
	hold  Hold
	// available is the number of available pods of the Deployment. floor is the number that it
	// must have at least: replicas minus maxUnavailable, but at least 1.
	available, floor int32
}

func availabilityOf(d *appsv1.Deployment, owned []object.Object, hold Hold) availability {
	_, unavailable := ownerLimits(d, hold)
	s := availability{d: d, owned: owned, hold: hold}
	if n := replicas(d); n > 0 {
		s.floor = max(n-unavailable, 1)
	}
	r := findRevisions(d, owned, hold)
	for _, rs := range r.all {
		if rs == r.stable {
			// These pods served before the release. A minReadySeconds that somebody raised since
			// must not make them count as unavailable.
			s.available += setFacts(rs).Ready
		} else {
			s.available += setFacts(rs).Available
		}
	}
	return s
}

// countReady counts the ready pods of an extra Deployment.
func (s availability) countReady(e *appsv1.Deployment) int32 {
	var n int32
	for _, rs := range replicaSets(s.owned) {
		if metav1.IsControlledBy(rs, e) && rs.DeletionTimestamp == nil {
			n += setFacts(rs).Ready
		}
	}
	return n
}

// isNeeded reports whether requests still need the pods of an extra Deployment. until is the number
// of other pods that must be available before the extra pods may be removed.
func (s availability) isNeeded(e *appsv1.Deployment, abort bool) (needed bool, until int32) {
	ready, available, until := s.countReady(e), s.available, s.floor
	if live := s.isLive(e); !live || abort {
		until = min(until, ready)
	}
	if abort && s.isLive(e) {
		for _, other := range extraDeployments(s.owned) {
			if other != e {
				available += s.countReady(other)
			}
		}
	}
	return ready > 0 && available < until, until
}

// unneededExtras returns the extra Deployments whose pods no request needs.
func (s availability) unneededExtras() []*appsv1.Deployment {
	return slices.DeleteFunc(extraDeployments(s.owned), func(e *appsv1.Deployment) bool {
		needed, _ := s.isNeeded(e, s.hold.aborting())
		return needed
	})
}

// supersededExtras returns the unneeded extra Deployments of other templates than the live one.
func (s availability) supersededExtras() []*appsv1.Deployment {
	return slices.DeleteFunc(s.unneededExtras(), s.isLive)
}

// isLive reports whether an extra Deployment belongs to the live template. It compares names as
// well as templates: a user may have edited the template, which Weir then corrects.
func (s availability) isLive(e *appsv1.Deployment) bool {
	return e == findExtra(s.d, s.owned, s.hold.revision()) || samePodSpec(&e.Spec.Template, &s.d.Spec.Template)
}

// explainNeeded returns the message why extra pods stay; empty if requests need none of them.
func (s availability) explainNeeded() string {
	for _, e := range remainingExtras(s.owned) {
		if needed, until := s.isNeeded(e, s.hold.aborting()); needed {
			return fmt.Sprintf("deployment %s has %d of %d pods available, so the pods of deployment %s stay until %d are", s.d.Name, s.available, replicas(s.d), e.Name, until)
		}
	}
	return ""
}

// minReadyReason returns the message that ready pods of a ReplicaSet are not yet available because
// of minReadySeconds; empty if they are available. In the canary style the step waits for available
// pods, as in OpenKruise. In the partition style old pods stay until then. In the blue-green style
// Weir itself sets minReadySeconds to foreverReady, so the message would explain nothing.
func minReadyReason(rs *appsv1.ReplicaSet) string {
	if s := rs.Spec.MinReadySeconds; s == 0 || s == foreverReady || rs.Status.ReadyReplicas <= rs.Status.AvailableReplicas {
		return ""
	}
	return fmt.Sprintf("new pods are ready, and count when they have been ready for %d seconds (spec.minReadySeconds)", rs.Spec.MinReadySeconds)
}
