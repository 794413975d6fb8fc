// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/forecast"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// ask reads several things at once; what could not be read is noted.
func (m *planning) ask(ctx context.Context, questions ...question) [][]unstructured.Unstructured {
	answers, unknown := make([][]unstructured.Unstructured, len(questions)), make([]string, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		wg.Go(func() { answers[i], unknown[i] = m.read(ctx, q) })
	}
	wg.Wait()
	for _, why := range unknown {
		if why != "" && !slices.Contains(m.status.Unknown, why) {
			m.status.Unknown = append(m.status.Unknown, why)
		}
	}
	return answers
}

// decode is an object in its Go type; nil where it is another.
func decode[T object.Object](u *unstructured.Unstructured, into T) (T, bool) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
	return into, err == nil
}

// observe reads the workload as it would be, and reports whether there is one.
func (m *planning) observe(ctx context.Context, b *rollouts.BatchRelease) bool {
	ref, style := m.r.Spec.WorkloadRef, rollouts.StyleFor(&m.r.Spec.Strategy, m.r.Spec.WorkloadRef)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "validation", Object: ref, Message: fmt.Sprintf("a %s of %s is not released in this style; %s", ref.Kind, ref.APIVersion, workload.Served())})
		return false
	}
	live := m.ask(ctx, question{kind: row.GVK, name: ref.Name})[0]
	if len(live) == 0 && len(m.spec.Workload.Raw) == 0 {
		if len(m.status.Unknown) == 0 {
			m.found(rollouts.Finding{Severity: forecast.Error, Code: "workload", Object: ref, Message: "the workload does not exist", Fix: "create it, or send it as spec.workload"})
		}
		return false
	}
	next, err := m.changed(row, live)
	if err != nil {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "validation", Message: err.Error()})
		return false
	}
	if len(live) == 0 {
		m.facts(row, next, next, nil, b)
		return true
	}
	obj, ok := decode(&live[0], row.New())
	if !ok {
		return false
	}
	obj.GetObjectKind().SetGroupVersionKind(row.GVK)
	m.facts(row, obj, next, m.owned(ctx, row, obj, &live[0]), b)
	return true
}

// changed is the workload as the request would have it.
func (m *planning) changed(row workload.Row, live []unstructured.Unstructured) (object.Object, error) {
	u := &unstructured.Unstructured{}
	if len(live) > 0 {
		u = live[0].DeepCopy()
	}
	if raw := m.spec.Workload.Raw; len(raw) > 0 {
		var sent struct {
			Spec map[string]any `json:"spec"`
		}
		if err := json.Unmarshal(raw, &sent); err != nil {
			return nil, fmt.Errorf("spec.workload: %w", err)
		}
		if u.Object == nil {
			u.Object = map[string]any{}
		}
		u.Object["spec"] = sent.Spec
	}
	u.SetName(m.r.Spec.WorkloadRef.Name)
	u.SetNamespace(m.r.Namespace)
	if n := m.spec.Replicas; n != nil {
		if err := unstructured.SetNestedField(u.Object, int64(*n), "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("spec.replicas: %w", err)
		}
	}
	next, ok := decode(u, row.New())
	if !ok {
		return nil, fmt.Errorf("spec.workload: this is not a %s of %s", row.GVK.Kind, row.GVK.GroupVersion())
	}
	next.GetObjectKind().SetGroupVersionKind(row.GVK)
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

// facts are those that a release of the workload begins with.
func (m *planning) facts(row workload.Row, obj, next object.Object, owned []object.Object, b *rollouts.BatchRelease) {
	m.around.New, m.around.Old = row.Template(next), row.Template(obj).DeepCopy()
	another := obj == next || row.Rolls(obj, next)
	m.around.Same = !another && (len(m.spec.Images) > 0 || len(m.spec.Workload.Raw) > 0)
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
	m.begin.Workload = row.Facts(row.See(next, owned, known), owned)
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

// owned are the revisions of the workload, and its pods where no ReplicaSet owns them.
func (m *planning) owned(ctx context.Context, row workload.Row, obj object.Object, live *unstructured.Unstructured) []object.Object {
	var spec struct {
		Selector *metav1.LabelSelector `json:"selector"`
	}
	fields, _, err := unstructured.NestedMap(live.Object, "spec")
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec) != nil || spec.Selector == nil {
		return nil
	}
	selector := metav1.FormatLabelSelector(spec.Selector)
	var questions []question
	for _, kind := range row.Owns {
		questions = append(questions, question{kind: kind, selector: selector})
	}
	makes := map[string]func() object.Object{
		"ReplicaSet":         func() object.Object { return &appsv1.ReplicaSet{} },
		"ControllerRevision": func() object.Object { return &appsv1.ControllerRevision{} },
		"Pod":                func() object.Object { return &corev1.Pod{} },
	}
	var owned []object.Object
	for i, answer := range m.ask(ctx, questions...) {
		for j := range answer {
			o, ok := decode(&answer[j], makes[questions[i].kind.Kind]())
			if ok && metav1.IsControlledBy(o, obj) {
				owned = append(owned, o)
			}
		}
	}
	return owned
}

// surround reads what the release meets.
func (m *planning) surround(ctx context.Context) {
	core, autoscaling := corev1.SchemeGroupVersion, schema.GroupVersion{Group: "autoscaling", Version: "v2"}
	answers := m.ask(ctx,
		question{kind: core.WithKind("ResourceQuota")},
		question{kind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")},
		question{kind: autoscaling.WithKind("HorizontalPodAutoscaler")},
	)
	for i := range answers[0] {
		if q, ok := decode(&answers[0][i], &corev1.ResourceQuota{}); ok {
			m.around.Quotas = append(m.around.Quotas, *q)
		}
	}
	for i := range answers[1] {
		if p, ok := decode(&answers[1][i], &policyv1.PodDisruptionBudget{}); ok {
			m.around.Budgets = append(m.around.Budgets, *p)
		}
	}
	ref := m.r.Spec.WorkloadRef
	for i := range answers[2] {
		h, ok := decode(&answers[2][i], &autoscalingv2.HorizontalPodAutoscaler{})
		if ok && h.Spec.ScaleTargetRef.Kind == ref.Kind && workload.Scaled(h) == ref.Name {
			m.around.Scalers = append(m.around.Scalers, *h)
		}
	}
	m.network(ctx)
}

// network asks what routers could do for the steps.
func (m *planning) network(ctx context.Context) {
	owner := *metav1.NewControllerRef(m.r, v1beta1.SchemeGroupVersion.WithKind("Rollout"))
	o, ref := traffic.OfRollout(m.r, owner)
	if ref == nil {
		return
	}
	before := len(m.status.Unknown)
	questions := []question{{kind: corev1.SchemeGroupVersion.WithKind("Service"), name: ref.Service}}
	for _, r := range o.Routers {
		version := r.Version
		if version == "" {
			version = "v1"
		}
		questions = append(questions, question{kind: r.Kind.WithVersion(version), name: r.Name})
		if !r.Known() {
			return // a script of its owner routes it
		}
	}
	o.Stable.Namespace, o.Stable.Name = m.r.Namespace, ref.Service
	o.RevisionKey, o.Template = appsv1.DefaultDeploymentUniqueLabelKey, m.around.New.Labels
	for i, answer := range m.ask(ctx, questions...) {
		if len(answer) == 0 {
			continue
		}
		switch {
		case i == 0:
			o.Service, _ = decode(&answer[0], &corev1.Service{})
		case o.Routers[i-1].Ingress():
			o.Routers[i-1].Object, _ = decode(&answer[0], &networkingv1.Ingress{})
		default:
			o.Routers[i-1].Object = &answer[0]
		}
	}
	if len(m.status.Unknown) > before {
		return
	}
	_, plan := m.r.Spec.Strategy.Active()
	route := traffic.ObserveSteps(o, *ref, plan.Steps)
	m.around.Route = &route
}
