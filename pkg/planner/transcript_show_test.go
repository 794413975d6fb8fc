// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/routing"
)

// show prints the state of the world.
func (t *transcript) show() {
	for _, r := range listOf[*rollouts.Rollout](t.w.store.objects) {
		p := progressOf(r.Status)
		place := placeOf(r.Status, p, stepsOf(r))
		if place != "" {
			place = ", " + place
		}
		pods := ""
		if p.UpdateReadyReplicas < p.UpdateReplicas {
			pods = fmt.Sprintf(", %d of %d ready", p.UpdateReadyReplicas, p.UpdateReplicas)
		}
		t.printUnder("rollout", "%s%s; stable %s, update %s%s", headOf(r.Status), place, p.StableRevision, p.UpdateRevision, pods)
		if c := r.Status.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledDeadline) {
			what := planner.WaitingFor(r).Text
			t.printUnder("stalled", "waiting for %s", what)
		}
		for _, d := range r.Status.Decisions {
			t.printUnder("decision", "%d %s by %s at step %d%s: %s%s", d.ID, d.Verb, d.User, d.Step, scopeOf(d), d.Outcome, overriddenChecks(d))
		}
	}
	for _, b := range listOf[*rollouts.BatchRelease](t.w.store.objects) {
		t.printUnder("batch", "%s, batch %d %s", b.Status.Phase, b.Status.CurrentBatch, b.Status.BatchState)
	}
	for _, o := range workloads(t.w.store.objects) {
		t.printUnder("workload", "%s, %d x %s, %s", o.GetName(), replicasOf(o), tagOf(templateOf(o)), nativeOf(o).describeStrategy(o))
	}
	for _, rs := range byAge(listOf[*appsv1.ReplicaSet](t.w.store.objects)) {
		batches := ""
		if t.showsPodLabels() {
			batches = t.w.describePodLabels(rs)
		}
		if rs.DeletionTimestamp != nil {
			batches += ", being deleted"
		}
		t.printUnder("set", "%s %d of %d ready%s", rs.Name, rs.Status.ReadyReplicas, *rs.Spec.Replicas, batches)
	}
	t.showPods()
	t.showNetwork()
	// During a release this list is long.
	for _, r := range listOf[*rollouts.Rollout](t.w.store.objects) {
		if r.Status.Phase == rollouts.PhaseProgressing {
			return
		}
	}
	for _, trace := range listTraces(t.w.store.objects) {
		t.printUnder("trace", "%s", trace)
	}
}

func (t *transcript) showPods() {
	for _, p := range podsIn(t.w.store.objects) {
		what := podTag(p)
		if isUnavailable(p) {
			what += ", not ready"
		}
		if id := p.Labels[rollouts.LabelRolloutID]; id != "" && t.showsPodLabels() {
			what += ", " + id + "/" + p.Labels[rollouts.LabelRolloutBatchID]
		}
		t.printUnder("pod", "%s of %s", p.Name, what)
	}
}

func (t *transcript) showNetwork() {
	t.showRoutings()
	for _, s := range listOf[*corev1.Service](t.w.store.objects) {
		to := "all pods"
		if hash := pinnedRevision(s); hash != "" {
			to = hash
		}
		t.printUnder("service", "%s to %s", s.Name, to)
	}
	for _, i := range listOf[*networkingv1.Ingress](t.w.store.objects) {
		if strings.HasSuffix(i.Name, rollouts.CanarySuffix) {
			kept := ""
			if i.DeletionTimestamp != nil {
				kept = ", being deleted, to " + backendService(i)
			}
			t.printUnder("ingress", "%s with weight %s%s", i.Name, i.Annotations["nginx.ingress.kubernetes.io/canary-weight"], kept)
		}
	}
	t.showRoutes()
}

// listTraces lists the objects, finalizers, labels, and annotations of Weir on objects of others.
func listTraces(s snapshot) []string {
	var found []string
	note := func(o object.Object, what string, m map[string]string) {
		for k := range m {
			if strings.Contains(k, rollouts.GroupName) && k != rollouts.LabelRolloutID { // the owner sets this label
				found = append(found, fmt.Sprintf("%s %s of %s", what, k, o.GetName()))
			}
		}
	}
	for _, o := range s {
		switch keyOf(o).kind {
		case kindRollout, kindHistory, kindPod: // Weir's labels stay on these
		case kindRouting:
			if r := o.(*rollouts.TrafficRouting); routing.IsInUse(r) || r.Status.Phase == rollouts.PhaseProgressing {
				found = append(found, "use of trafficrouting "+o.GetName())
			}
		case kindBatch:
			found = append(found, "batchrelease "+o.GetName())
		case kindIndex:
			for k := range o.(*corev1.ConfigMap).Data {
				found = append(found, "entry "+k)
			}
		default:
			note(o, "annotation", o.GetAnnotations())
			note(o, "label", o.GetLabels())
			if strings.HasSuffix(o.GetName(), rollouts.CanarySuffix) {
				found = append(found, string(keyOf(o).kind)+" "+o.GetName())
			}
		}
		if svc, ok := o.(*corev1.Service); ok && pinnedRevision(svc) != "" {
			found = append(found, "selector of "+svc.Name)
		}
	}
	slices.Sort(found)
	return found
}

// scopeOf describes which steps a decision concerns in addition to the current one.
func scopeOf(d rollouts.Decision) string {
	switch {
	case d.Full:
		return " and all remaining steps"
	case d.ToStep != 0:
		return fmt.Sprintf(" to step %d", d.ToStep)
	default:
		return ""
	}
}

// overriddenChecks names the checks that a decision overrode.
func overriddenChecks(d rollouts.Decision) string {
	var checks []string
	for _, c := range d.OverriddenChecks {
		checks = append(checks, strings.TrimSpace(fmt.Sprintf("%s of step %d %s", c.Name, c.Step, c.Result)))
	}
	if checks == nil {
		return ""
	}
	return ", overrode " + strings.Join(checks, ", ")
}
