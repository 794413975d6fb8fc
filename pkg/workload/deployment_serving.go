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

// Ready pods of an extra Deployment stay while the Deployment itself has too few. Its
// stable ReplicaSet may have been deleted, or its pods may be unready, when the release is
// aborted, cancelled, superseded, or its Rollout is disabled or deleted. Without this rule
// the last ready pods would go before the first other pod could serve.
//
//   - Extra pods of the live template stay until the Deployment has as many available pods
//     as its owner asks for, less maxUnavailable.
//   - Extra pods of another template stay until the Deployment has as many available pods
//     as they are, or as many as that. So one unready stable pod does not keep a version
//     that was aborted.
//   - An abort treats those of the live template in the same way. Extra pods that a
//     superseded template left count as the Deployment's own then.

// availability is what decides which extra Deployments requests still need.
type availability struct {
	d     *appsv1.Deployment
	owned []object.Object
	// available counts the available pods of the Deployment, and floor is how many its owner
	// wants at least.
	available, floor int32
}

func availabilityOf(d *appsv1.Deployment, owned []object.Object) availability {
	_, unavailable := ownersLimits(d)
	s := availability{d: d, owned: owned}
	if n := replicas(d); n > 0 {
		s.floor = max(n-unavailable, 1)
	}
	for _, rs := range findRevisions(d, owned).all {
		s.available += facts(rs).Available
	}
	return s
}

// ready counts the ready pods of an extra Deployment.
func (s availability) ready(e *appsv1.Deployment) int32 {
	var n int32
	for _, rs := range replicaSets(s.owned) {
		if metav1.IsControlledBy(rs, e) && rs.DeletionTimestamp == nil {
			n += facts(rs).Ready
		}
	}
	return n
}

// needs reports whether requests still need the pods of an extra Deployment, and how many
// other pods must be available before they go.
func (s availability) needs(e *appsv1.Deployment, abort bool) (needed bool, until int32) {
	ready, available, until := s.ready(e), s.available, s.floor
	if live := s.isLive(e); !live || abort {
		until = min(until, ready)
	}
	if abort && s.isLive(e) {
		for _, other := range extras(s.owned) {
			if other != e {
				available += s.ready(other)
			}
		}
	}
	return ready > 0 && available < until, until
}

// surplus are the extra Deployments whose pods no request needs.
func (s availability) surplus() []*appsv1.Deployment {
	return slices.DeleteFunc(extras(s.owned), func(e *appsv1.Deployment) bool {
		needed, _ := s.needs(e, aborting(s.d))
		return needed
	})
}

// superseded are the extra Deployments of other templates that requests do not need.
func (s availability) superseded() []*appsv1.Deployment {
	return slices.DeleteFunc(s.surplus(), s.isLive)
}

// isLive reports whether an extra Deployment is that of the live template. Somebody may have
// edited its template, which is then corrected.
func (s availability) isLive(e *appsv1.Deployment) bool {
	return e == extraOf(s.d, s.owned, drivenTo(s.d)) || runsSame(&e.Spec.Template, &s.d.Spec.Template)
}

// explain says why extra pods stay; empty if requests need none of them.
func (s availability) explain() string {
	for _, e := range remaining(s.owned) {
		if needed, until := s.needs(e, aborting(s.d)); needed {
			return fmt.Sprintf("deployment %s has %d of %d pods available, so that those of deployment %s stay until %d are", s.d.Name, s.available, replicas(s.d), e.Name, until)
		}
	}
	return ""
}

// availableLater says that ready pods of a set count only when they have been ready for
// minReadySeconds: in the canary style the step waits for that, as in OpenKruise, and in the
// partition style old pods stay until then. In the blue-green style Weir writes the field.
func availableLater(rs *appsv1.ReplicaSet) string {
	if s := rs.Spec.MinReadySeconds; s == 0 || s == foreverReady || rs.Status.ReadyReplicas <= rs.Status.AvailableReplicas {
		return ""
	}
	return fmt.Sprintf("new pods are ready, and count when they have been ready for %d seconds (spec.minReadySeconds)", rs.Spec.MinReadySeconds)
}
