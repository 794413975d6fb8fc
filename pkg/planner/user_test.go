// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/collision"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Actions of users, through the same path as in a cluster: the strategies of the API server, the
// verbs, and admission.

// app is a workload that a user deploys.
type app struct {
	name     string
	replicas int32
	image    string
	surge    string
	unavail  string
	history  int32
	recreate bool
	// kind is the kind of the workload, a Deployment by default. Controllers of the other kinds
	// create pods directly.
	kind               kind
	parallel, onDelete bool
}

func (w *world) createWorkload(a app) {
	k := cmp.Or(a.kind, kindDeployment)
	w.runAs("user", func() error { return w.store.create(natives[k].newWorkload(a)) })
}

func (deployments) newWorkload(a app) object.Object {
	labels := map[string]string{"app": a.name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: map[string]string{"owner": "team"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &a.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: &a.history,
			Template: podTemplate(a),
		},
	}
	d.Spec.Strategy = rolling(a.surge, a.unavail)
	if a.recreate {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return d
}

func rolling(surge, unavailable string) appsv1.DeploymentStrategy {
	up, down := intstr.Parse(surge), intstr.Parse(unavailable)
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &up, MaxUnavailable: &down},
	}
}

// createService creates a Service for an app.
func (w *world) createService(name string) {
	w.runAs("user", func() error {
		return w.store.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
	})
}

// createIngress creates an Ingress for a Service.
func (w *world) createIngress(name, service string) {
	w.runAs("user", func() error {
		return w.store.create(&networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
				Host: name + ".example.com",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}},
					}}},
				}},
			}}},
		})
	})
}

// createRollout creates a Rollout for the workload of the same name.
func (w *world) createRollout(name string, release rollouts.Release, blueGreen bool) {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{rollouts.FinalizerRollout}}}
	kind := kindDeployment
	if o := appOf(w.store.objects, name); o != nil {
		kind = keyOf(o).kind
	}
	r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: versionOf(kind), Kind: kindNames[kind], Name: name}
	style := rollouts.StyleBlueGreen
	if r.Spec.Strategy.BlueGreen = &release; !blueGreen {
		r.Spec.Strategy, style = rollouts.Strategy{Canary: &release}, rollouts.StylePartition
	}
	r.Status.Phase = rollouts.PhaseInitial
	r.Status.SetActive(style, &rollouts.Progress{})
	r.Annotations = map[string]string{rollouts.AnnotationHash: planner.PlanHash(&release)}
	w.observer.did("creates the rollout")
	w.runAs("user", func() error { return w.store.create(r) })
}

// editRollout changes the spec of a Rollout with the validation of the API server.
func (w *world) editRollout(name string, change func(*rollouts.RolloutSpec)) bool {
	r := find[*rollouts.Rollout](w.store.objects, kindRollout, name)
	if r == nil || r.DeletionTimestamp != nil {
		return false
	}
	w.refused = ""
	next := clone(r)
	change(&next.Spec)
	if err := verb.ValidateEdit(r, &next.Spec); err != nil {
		w.observer.did("edits the rollout: " + err.Error())
		w.refused = err.Error()
		return true
	}
	_, release := next.Spec.Strategy.Active()
	w.observer.did(fmt.Sprintf("edits the rollout: paused %t, disabled %t, %d steps", next.Spec.Strategy.Paused, next.Spec.Disabled, len(release.Steps)))
	next.Annotations[rollouts.AnnotationHash] = planner.PlanHash(release)
	w.runAs("user", func() error { return w.store.update(next) })
	return true
}

// annotateRollout sets an annotation of Weir on a Rollout.
func (w *world) annotateRollout(name, annotation, value string) {
	r := find[*rollouts.Rollout](w.store.objects, kindRollout, name)
	if r == nil || r.DeletionTimestamp != nil {
		return
	}
	next := clone(r)
	next.Annotations[rollouts.GroupName+"/"+annotation] = value
	w.observer.did("annotates the rollout with " + annotation)
	w.runAs("user", func() error { return w.store.update(next) })
}

// applyVerb applies a verb and returns the answer to the client.
func (w *world) applyVerb(name string, c verb.Command) string {
	r := find[*rollouts.Rollout](w.store.objects, kindRollout, name)
	if r == nil {
		return "not found"
	}
	next := clone(r)
	c.Now = metav1.NewTime(w.now.Truncate(time.Second))
	warning, err := verb.Apply(next, c)
	w.observer.did(fmt.Sprintf("%s, full %t: %s %v", c.Verb, c.Full, warning, err))
	switch {
	case err != nil:
		return "refused, " + err.Error()
	case warning != "":
		return "warning, " + warning
	}
	w.runAs("user", func() error { return w.store.updateStatus(next) })
	w.check.noteAcceptedVerb(c.Verb, r)
	return "accepted"
}

// updateWorkload updates a workload through admission and returns the verdict.
func (w *world) updateWorkload(name string, mutate func(object.Object)) string {
	d := appOf(w.store.objects, name)
	if d == nil {
		return "not found"
	}
	next := clone(d)
	mutate(next)
	said := w.admitUpdate(d, next)
	w.observer.did("applies " + tagOf(templateOf(next)) + ", " + said)
	if strings.HasPrefix(said, "refused") {
		return said
	}
	if tagOf(templateOf(next)) != tagOf(templateOf(d)) {
		w.check.promises.abortedImage = ""
	}
	w.runAs("user", func() error { return w.store.update(next) })
	return said
}

// admitUpdate admits an update like the webhook.
func (w *world) admitUpdate(before, update object.Object) string {
	label := before.GetLabels()[rollouts.LabelWorkloadType]
	style := rollouts.StylePartition
	var named []*rollouts.Rollout
	for _, r := range listOf[*rollouts.Rollout](w.store.objects) {
		if ref := r.Spec.WorkloadRef; ref != nil && ref.Name == before.GetName() {
			named = append(named, r)
			style = rollouts.StyleFor(&r.Spec.Strategy, ref)
		}
	}
	row, ok := workload.Find(versionOf(keyOf(before).kind), kindNames[keyOf(before).kind], style)
	if !ok || label == "" && update.GetLabels()[rollouts.LabelWorkloadType] == "" {
		return "not asked"
	}
	verdict := planner.Admit(planner.Admission{
		Held: row.Held(before), Changed: row.StartsRelease(before, update), UnholdableReason: row.RefusalReason(before, update, row.Held(before)), Rollouts: named,
	})
	said := "as it is"
	switch {
	case verdict.Refusal != "":
		return "refused: " + verdict.Refusal
	case verdict.KeepRecords:
		workload.KeepRecords(before, update)
	case verdict.KeepHold:
		row.PreserveHold(before, update)
		said = "kept as held"
	case verdict.Hold:
		row.HoldUpdate(before, update, verdict.RolloutName)
		said = "held by rollout/" + verdict.RolloutName
	}
	if slices.ContainsFunc(named, planner.HoldsOnTemplateChange) {
		update.SetLabels(withKey(update.GetLabels(), rollouts.LabelWorkloadType, label))
	}
	return said
}

// withKey returns m with key set to value. An empty value changes nothing.
func withKey(m map[string]string, key, value string) map[string]string {
	if value == "" {
		return m
	}
	out := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func withoutKey(m map[string]string, key string) map[string]string {
	m = maps.Clone(m)
	delete(m, key)
	return m
}

// setImage sets the image. A tag such as twin-of-v2 also gives the template the same short hash as
// the template with the tag v2.
func setImage(tag string) func(object.Object) {
	return func(o object.Object) {
		t := templateOf(o)
		delete(t.Annotations, collision.Annotation)
		of, isTwin := strings.CutPrefix(tag, "twin-of-")
		base := t.DeepCopy()
		base.Spec.Containers[0].Image = "echo:" + of
		t.Spec.Containers[0].Image = "echo:" + tag
		if isTwin {
			*t = *collision.Of(base, t)
		}
	}
}

// setName sets the name of the release.
func setName(id string) func(object.Object) {
	return func(o object.Object) { o.SetLabels(withKey(o.GetLabels(), rollouts.LabelRolloutID, id)) }
}

// scaleWorkload scales a workload through the scale subresource, like an autoscaler.
func (w *world) scaleWorkload(name string, replicas int32) bool {
	o := appOf(w.store.objects, name)
	if o == nil {
		return false
	}
	next := clone(o)
	*nativeOf(next).size(next) = replicas
	w.observer.did(fmt.Sprintf("scales to %d", replicas))
	w.runAs("user", func() error { return w.store.update(next) })
	return true
}

// deleteObject deletes an object by kind and name.
func (w *world) deleteObject(k kind, name string) bool {
	o := w.store.objects[key{k, name}]
	if o == nil {
		return false
	}
	w.observer.did("deletes the " + string(k))
	clear(w.check.promises.keptUntil) // the promise may depend on this object
	w.runAs("user", func() error { return w.store.remove(o) })
	return true
}

// recreateWorkload deletes a workload and creates it again before any controller acts.
func (w *world) recreateWorkload(a app) {
	w.deleteObject(cmp.Or(a.kind, kindDeployment), a.name)
	w.check.excusesPodFailures = true
	w.runAs("gc", func() error { w.store.collectGarbage(); return nil })
	w.createWorkload(a)
}

// orphanSets removes the owner references of a workload's sets, like the garbage collector for a
// deletion with the orphan policy.
func (w *world) orphanSets(k key) {
	for _, rs := range listOf[*appsv1.ReplicaSet](w.store.objects) {
		if o := w.store.objects[k]; o != nil && metav1.IsControlledBy(rs, o) {
			next := clone(rs)
			next.OwnerReferences = nil
			w.runAs("user", func() error { return w.store.update(next) })
		}
	}
}

// deleteSets deletes ReplicaSets. The consequences are excused.
func (w *world) deleteSets(which func(*appsv1.ReplicaSet) bool, finalizers ...string) {
	for _, rs := range listOf[*appsv1.ReplicaSet](w.store.objects) {
		if rs.DeletionTimestamp == nil && which(rs) {
			w.check.excusesPodFailures, w.check.excusesLostStable, w.check.damagedAt = true, true, w.store.newest()+1
			clear(w.check.promises.keptUntil)
			w.observer.did("deletes " + rs.Name)
			w.runAs("user", func() error {
				next := clone(rs)
				next.Finalizers = append(next.Finalizers, finalizers...)
				return errors.Join(w.store.update(next), w.store.remove(next))
			})
		}
	}
}

// deleteHistories deletes all histories.
func (w *world) deleteHistories() {
	for _, h := range listOf[*rollouts.RolloutHistory](w.store.objects) {
		w.runAs("user", func() error { return w.store.remove(h) })
	}
}

// planStep builds one step of a plan.
func planStep(replicas, traffic string, pause time.Duration, timed bool) rollouts.Step {
	share := intstr.Parse(replicas)
	s := rollouts.Step{Replicas: &share}
	if traffic != "" {
		s.Traffic = &traffic
	}
	if timed {
		seconds := int32(pause / time.Second)
		s.Pause.Duration = &seconds
	}
	return s
}

func ingressOf(service string, grace time.Duration) []rollouts.TrafficRoutingRef {
	return routingBy(kindIngress, service, grace)
}

func (a app) String() string { return fmt.Sprintf("%s, %d x %s", a.name, a.replicas, a.image) }
