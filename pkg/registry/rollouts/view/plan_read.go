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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/view"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// maxReplicas limits the size of the workload in a request.
const maxReplicas = 1_000_000

// observe reads the workload and its surroundings, and reports whether there is a workload.
func (m *planBuilder) observe(ctx context.Context, b *rollouts.BatchRelease) bool {
	ref := m.r.Spec.WorkloadRef
	row, ok := workload.Find(ref.APIVersion, ref.Kind, rollouts.StyleFor(&m.r.Spec.Strategy, ref))
	if !ok {
		m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "validation", Object: ref, Message: fmt.Sprintf("a %s of %s is not released in this style; %s", ref.Kind, ref.APIVersion, workload.DescribeKinds())})
		return false
	}
	seen := view.NewObserved(m.r, view.QuotaRead)
	seen.Answers[seen.BatchRead()] = view.Answer{} // the BatchRelease was read before
	fetch.ReadAll(ctx, seen, m.LiveReader(m.r.Namespace), func(r view.Read) bool { return m.MayRead(ctx, r) })
	m.status.Unknown = seen.UnreadReasons()
	live, isSeen := seen.StoredWorkload(row)
	if live == nil && len(m.spec.Workload.Raw) == 0 {
		if isSeen {
			m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "workload", Object: ref, Message: "the workload does not exist", Fix: "create it, or send it as spec.workload"})
		}
		return false
	}
	next, err := m.changedWorkload(row, live)
	if err != nil {
		m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "validation", Message: err.Error()})
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
	m.setFacts(row, obj, next, owned, b)
	m.observeSurroundings(row, seen)
	return true
}

// observeSurroundings sets what the release depends on: quotas, budgets, autoscalers and the route.
func (m *planBuilder) observeSurroundings(row workload.Row, seen *view.Observed) {
	m.around.Quotas = view.ObjectsAs[*corev1.ResourceQuota](seen.Answers[view.QuotaRead])
	m.around.Budgets = view.ObjectsAs[*policyv1.PodDisruptionBudget](seen.Answers[view.BudgetRead])
	m.around.Scalers = seen.Scalers()
	_, plan := m.r.Spec.Strategy.Active()
	network, route := seen.Network(row, m.around.New.Labels, plan.Steps)
	if !slices.ContainsFunc(network.Routers, func(r traffic.Router) bool { return !r.HasProvider() }) { // a Lua script routes unknown routers
		m.around.Route = route
	}
}

// changedWorkload returns the workload with the changes of the request.
func (m *planBuilder) changedWorkload(row workload.Row, live object.Object) (object.Object, error) {
	u, err := m.requestedWorkload(live)
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

// requestedWorkload returns the stored workload with the manifest and the size of the request.
func (m *planBuilder) requestedWorkload(live object.Object) (*unstructured.Unstructured, error) {
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

// setFacts sets the facts with which a release of the workload begins.
func (m *planBuilder) setFacts(row workload.Row, obj, next object.Object, owned []object.Object, b *rollouts.BatchRelease) {
	another := obj == next || row.ReplacesPods(obj, next)
	m.around.IsLiveTemplate = !another && (len(m.spec.Images) > 0 || len(m.spec.Workload.Raw) > 0)
	if m.begin.UnderWay && another {
		m.around.IsCancelled = row.Facts(next, owned, row.HoldOf(next, owned, planner.HoldStateOf(m.r, b)), nil).HasStableTemplate
	}
	if m.around.IsCancelled {
		// The pods of the release in progress are removed, and the release ends.
		m.begin.RollingBack, m.begin.StaysAborted, next = true, false, obj
	}
	m.around.New, m.around.Old = row.Template(next), row.Template(obj).DeepCopy()
	switch {
	case m.around.IsCancelled:
	case m.begin.UnderWay && another:
		// A new release replaces the current one, also one that was aborted.
		m.begin.UnderWay, m.begin.RollingBack, m.begin.Batch, b = false, false, nil, nil
	case !m.begin.UnderWay && !another:
		// Without a change, the plan is about the next template, which differs in an unknown way.
		row.Template(next).Annotations = map[string]string{rollouts.AnnotationHash: "next"}
	}
	known := planner.HoldStateOf(m.r, b)
	if known.Holder == "" {
		known.Holder, known.Releasing = m.r.Name, true
	}
	m.begin.Workload = row.Facts(next, owned, row.HoldOf(next, owned, known), nil)
	m.begin.Surge, _ = row.OwnerLimits(next)
	m.countPods(row)
	if m.begin.UnderWay {
		m.useStableTemplate(row, owned)
	}
}

// useStableTemplate uses the template of the stable revision as the old one, if a ReplicaSet still has it.
func (m *planBuilder) useStableTemplate(row workload.Row, owned []object.Object) {
	for _, o := range owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && rs.Labels[row.RevisionKey] == m.begin.Workload.StableRevision {
			m.around.Old = &rs.Spec.Template
		}
	}
}

// countPods sets the current numbers of pods.
func (m *planBuilder) countPods(row workload.Row) {
	b, w := &m.begin, m.begin.Workload
	b.Update, b.Others, b.Stable = w.UpdatedReplicas, w.SupersededReplicas, w.StableReplicas-w.SupersededReplicas
	p := m.r.Status.Active()
	switch {
	case !b.UnderWay:
		b.Stable, b.Update = max(w.Replicas-b.Others, 0), 0 // the workload is scaled before the release begins
	case row.UsesExtraDeployment && p != nil:
		b.Update = p.UpdateReplicas // the new pods belong to another Deployment
	}
}
