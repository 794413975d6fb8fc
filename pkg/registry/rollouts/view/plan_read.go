// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/forecast"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/view"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// maxReplicas bounds a workload that is looked at.
const maxReplicas = 1_000_000

// observe reads the workload as it would be and what it meets, and reports whether there is
// one.
func (m *planning) observe(ctx context.Context, b *rollouts.BatchRelease) bool {
	ref := m.r.Spec.WorkloadRef
	row, ok := workload.Find(ref.APIVersion, ref.Kind, rollouts.StyleFor(&m.r.Spec.Strategy, ref))
	if !ok {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "validation", Object: ref, Message: fmt.Sprintf("a %s of %s is not released in this style; %s", ref.Kind, ref.APIVersion, workload.Served())})
		return false
	}
	seen := view.NewObserved(m.r, view.QuotaRead)
	seen.Answers[seen.BatchRead()] = view.Answer{} // it is known
	look.All(ctx, seen, m.Live(m.r.Namespace), func(r view.Read) bool { return m.May(ctx, r) })
	m.status.Unknown = seen.UnreadReasons()
	live, isSeen := seen.StoredWorkload(row)
	if live == nil && len(m.spec.Workload.Raw) == 0 {
		if isSeen {
			m.found(rollouts.Finding{Severity: forecast.Error, Code: "workload", Object: ref, Message: "the workload does not exist", Fix: "create it, or send it as spec.workload"})
		}
		return false
	}
	next, err := m.changed(row, live)
	if err != nil {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "validation", Message: err.Error()})
		return false
	}
	obj := next
	var owned []object.Object
	if live != nil {
		if obj = seen.Workload(row); obj == nil {
			return false
		}
		owned = seen.OwnedObjects(row, obj)
	}
	m.facts(row, obj, next, owned, b)
	m.surround(row, seen)
	return true
}

// surround is what the release meets.
func (m *planning) surround(row workload.Row, seen *view.Observed) {
	m.around.Quotas = view.ObjectsAs[*corev1.ResourceQuota](seen.Answers[view.QuotaRead])
	m.around.Budgets = view.ObjectsAs[*policyv1.PodDisruptionBudget](seen.Answers[view.BudgetRead])
	m.around.Scalers = seen.Scalers()
	_, plan := m.r.Spec.Strategy.Active()
	network, route := seen.Network(row, m.around.New.Labels, plan.Steps)
	if !slices.ContainsFunc(network.Routers, func(r traffic.Router) bool { return !r.HasProvider() }) { // a script routes it
		m.around.Route = route
	}
}

// changed is the workload as the request would have it.
func (m *planning) changed(row workload.Row, live object.Object) (object.Object, error) {
	u, err := m.sent(live)
	if err != nil {
		return nil, err
	}
	if n, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); err == nil && (n < 0 || n > maxReplicas) {
		return nil, fmt.Errorf("spec.replicas: %d is not between 0 and %d", n, maxReplicas)
	}
	next := view.DecodeWorkload(row, u)
	if next == nil {
		return nil, fmt.Errorf("spec.workload: this is not a %s of %s", row.GVK.Kind, row.GVK.GroupVersion())
	}
	template := row.Template(next)
	for _, name := range slices.Sorted(maps.Keys(m.spec.Images)) {
		i := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("spec.images: the workload has no container %q", name)
		}
		template.Spec.Containers[i].Image = m.spec.Images[name]
	}
	return next, nil
}

// sent is the workload as it is stored, with the manifest and the size of the request.
func (m *planning) sent(live object.Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if stored, ok := live.(*unstructured.Unstructured); ok {
		u = stored.DeepCopy()
	}
	if raw := m.spec.Workload.Raw; len(raw) > 0 {
		var manifest struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(raw, &manifest); err != nil {
			return nil, fmt.Errorf("spec.workload: %w", err)
		}
		u.Object["spec"] = manifest.Spec
	}
	u.SetName(m.r.Spec.WorkloadRef.Name)
	u.SetNamespace(m.r.Namespace)
	if n := m.spec.Replicas; n != nil {
		if err := unstructured.SetNestedField(u.Object, int64(*n), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("spec.replicas: %w", err)
		}
	}
	return u, nil
}

// facts are those that a release of the workload begins with.
func (m *planning) facts(row workload.Row, obj, next object.Object, owned []object.Object, b *rollouts.BatchRelease) {
	m.around.New, m.around.Old = row.Template(next), row.Template(obj).DeepCopy()
	another := obj == next || row.Rolls(obj, next)
	m.around.IsStableTemplate = !another && (len(m.spec.Images) > 0 || len(m.spec.Workload.Raw) > 0)
	switch {
	case m.begin.UnderWay && another:
		m.begin.UnderWay, m.begin.Batch, b = false, nil, nil // another release takes its place
	case !m.begin.UnderWay && !another:
		// The next template is another one, whatever it will be.
		row.Template(next).Annotations = map[string]string{rollouts.AnnotationHash: "next"}
	}
	known := planner.KnownOf(m.r, b)
	if known.Holder == "" {
		known.Holder, known.Releasing = m.r.Name, true
	}
	m.begin.Workload = row.Facts(next, owned, row.HoldOf(next, owned, known), nil)
	m.begin.Surge, _ = row.Limits(next)
	m.pods(row)
	if m.begin.UnderWay {
		m.stable(row, owned)
	}
}

// stable has the template of the stable revision for the old one, where a set keeps it.
func (m *planning) stable(row workload.Row, owned []object.Object) {
	for _, o := range owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && rs.Labels[row.RevisionKey] == m.begin.Workload.StableRevision {
			m.around.Old = &rs.Spec.Template
		}
	}
}

// pods are those that there are.
func (m *planning) pods(row workload.Row) {
	b, w := &m.begin, m.begin.Workload
	b.Update, b.Others, b.Stable = w.UpdatedReplicas, w.SupersededReplicas, w.StableReplicas-w.SupersededReplicas
	p := m.r.Status.Active()
	switch {
	case !b.UnderWay:
		b.Stable, b.Update = max(w.Replicas-b.Others, 0), 0 // another size comes first
	case row.Extra && p != nil:
		b.Update = p.UpdateReplicas // beside the workload
	}
}
