// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/patience"
)

// reading is what an outsider reads of a Rollout. The status is the same in
// both versions.
type reading struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase      string        `json:"phase"`
		Message    string        `json:"message"`
		Conditions []condition06 `json:"conditions"`
		Canary     *standing     `json:"canaryStatus"`
		BlueGreen  *standing     `json:"blueGreenStatus"`
	} `json:"status"`
}

// standing is how far a release is. Styles differ in the names of four fields.
type standing struct {
	Observed        int64  `json:"observedWorkloadGeneration"`
	RolloutHash     string `json:"rolloutHash"`
	RolloutID       string `json:"observedRolloutID"`
	StableRevision  string `json:"stableRevision"`
	PodTemplateHash string `json:"podTemplateHash"`
	Step            int32  `json:"currentStepIndex"`
	Next            int32  `json:"nextStepIndex"`
	State           string `json:"currentStepState"`

	CanaryRevision  string `json:"canaryRevision"`
	UpdatedRevision string `json:"updatedRevision"`
	Canary          int32  `json:"canaryReplicas"`
	CanaryReady     int32  `json:"canaryReadyReplicas"`
	Updated         int32  `json:"updatedReplicas"`
	UpdatedReady    int32  `json:"updatedReadyReplicas"`
}

func (r *reading) at() standing {
	switch {
	case r.Status.Canary != nil:
		return *r.Status.Canary
	case r.Status.BlueGreen != nil:
		return *r.Status.BlueGreen
	default:
		return standing{}
	}
}

// revision is that being released.
func (s standing) revision() string { return cmp.Or(s.CanaryRevision, s.UpdatedRevision) }

func (r *reading) condition(kind string) condition06 {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition06{}
}

func (r *reading) String() string {
	p := r.condition("Progressing")
	return fmt.Sprintf("%s %s/%s %q %+v", r.Status.Phase, p.Reason, p.Status, r.Status.Message, r.at())
}

// looks reads the Rollout once.
func (c *outsider) looks() *reading {
	c.t.Helper()
	r, err := c.peeks(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *outsider) peeks(ctx context.Context) (*reading, error) {
	o, r := c.object(), &reading{}
	if err := here.client.Get(ctx, c.key(c.rollout), o); err != nil {
		return nil, err
	}
	return r, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, r)
}

// that asks about the Rollout as it is read.
func (c *outsider) that(so func(*reading) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.peeks(ctx)
		if err == nil && !so(r) {
			err = fmt.Errorf("the Rollout is %s", r)
		}
		return err
	}
}

// paused wants a step to wait.
func paused(step int32) func(*reading) bool {
	return func(r *reading) bool { return r.at().Step == step && r.at().State == "StepPaused" }
}

func inPhase(phase string) func(*reading) bool {
	return func(r *reading) bool { return r.Status.Phase == phase }
}

// pauses waits for a step to wait.
func (c *outsider) pauses(step int32) *reading {
	c.t.Helper()
	c.until(fmt.Sprintf("step %d is paused", step), c.that(paused(step)))
	return c.looks()
}

// after stands for a fixed wait before one look, however slow the machine is: what is looked
// for must become so, and stay until that time is over.
func (c *outsider) after(d time.Duration, what string, ask func(context.Context) error) {
	c.t.Helper()
	begun, been := time.Now(), false
	var last error
	ctx, cancel := patience.Context(c.t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		if last = ask(c.t.Context()); last != nil && been {
			return false, last
		}
		been = last == nil
		return been && time.Since(begun) >= d, nil
	})
	if err != nil {
		c.t.Fatalf("after %s %s: %v; last seen: %v", d, what, err, last)
	}
	if took := time.Since(begun); took > d+d/2 {
		c.t.Logf("after %s rather than %s %s", took, d, what)
	}
}

// active are the hash labels of the ReplicaSets of a Deployment that want pods, oldest first.
func (c *outsider) active(of string) []string {
	c.t.Helper()
	sets, err := c.sets(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(sets, func(a, b appsv1.ReplicaSet) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	var hashes []string
	for i := range sets {
		if owner := metav1.GetControllerOf(&sets[i]); owner != nil && owner.Name == of && *sets[i].Spec.Replicas > 0 && sets[i].DeletionTimestamp == nil {
			hashes = append(hashes, sets[i].Labels["pod-template-hash"])
		}
	}
	return hashes
}

// allReady waits until the Deployment says that every pod is new and ready.
func (c *outsider) allReady() {
	c.t.Helper()
	c.until("all pods are ready", c.complete)
}

func (c *outsider) complete(ctx context.Context) error {
	d, err := c.deployment(ctx)
	if err != nil {
		return err
	}
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.ReadyReplicas != want {
		return fmt.Errorf("of %d pods are %d updated, %d there, %d ready, generation %d of %d",
			want, s.UpdatedReplicas, s.Replicas, s.ReadyReplicas, s.ObservedGeneration, d.Generation)
	}
	return nil
}

// holdsStill wants the Deployment to be paused with all pods of the old version.
func (c *outsider) holdsStill(ctx context.Context) error {
	d, err := c.deployment(ctx)
	if s := d.Status; err == nil && (!d.Spec.Paused || s.UpdatedReplicas != 0 || s.Replicas != c.plan.replicas || s.ReadyReplicas != c.plan.replicas) {
		err = fmt.Errorf("paused %t, %+v", d.Spec.Paused, s)
	}
	return err
}

// ours is what belongs to the Rollout beside the workload.
const extraName = name + "-canary"

// selects is the revision that a Service selects; empty for none.
func (c *outsider) selects(service string) string {
	c.t.Helper()
	s := &corev1.Service{}
	if err := here.client.Get(c.t.Context(), c.key(service), s); err != nil {
		c.t.Fatal(err)
	}
	return s.Spec.Selector["pod-template-hash"]
}

// pinned wants either Service to select its revision only.
func (c *outsider) pinned() {
	c.t.Helper()
	at := c.looks().at()
	if got := c.selects(name); got == "" || got != at.StableRevision {
		c.t.Errorf("the Service selects %q, want %q", got, at.StableRevision)
	}
	if got := c.selects(extraName); got == "" || got != at.PodTemplateHash {
		c.t.Errorf("the canary Service selects %q, want %q", got, at.PodTemplateHash)
	}
}

// sends wants the share of requests that a step names to go to the new version.
func (c *outsider) sends(weight int) {
	c.t.Helper()
	c.pinned()
	c.sees(c.weight(strconv.Itoa(weight)))
	if got := c.rules()["canary"]; got != "true" {
		c.t.Errorf("canary is %q", got)
	}
}

// rules are the annotations of the canary Ingress, without the prefix.
func (c *outsider) rules() map[string]string {
	c.t.Helper()
	ingress := &networkingv1.Ingress{}
	if err := here.client.Get(c.t.Context(), c.key(extraName), ingress); err != nil {
		c.t.Fatal(err)
	}
	const prefix = "nginx.ingress.kubernetes.io/"
	rules := map[string]string{}
	for key, value := range ingress.Annotations {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix {
			rules[key[len(prefix):]] = value
		}
	}
	return rules
}

// restored wants the network to be as it was before.
func (c *outsider) restored() {
	c.t.Helper()
	if got := c.selects(name); got != "" {
		c.t.Errorf("the Service still selects %q", got)
	}
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		c.sees(c.gone(o, extraName))
	}
}

// done wants a release to have ended, with one look at everything.
func (c *outsider) done(version, succeeded string) {
	c.t.Helper()
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	if c.plan.routed {
		c.restored()
	}
	c.runsOnly(version)
	c.concluded(succeeded)
	c.follows()
}

// runsOnly wants the Deployment to be released and complete, now.
func (c *outsider) runsOnly(version string) {
	c.t.Helper()
	c.sees(c.complete)
	d, err := c.deployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("paused %t, template of %s, want %s", d.Spec.Paused, versionOf(&d.Spec.Template.Spec), version)
	}
}

// concluded wants the conditions of a release that has ended.
func (c *outsider) concluded(succeeded string) {
	c.t.Helper()
	r := c.looks()
	if p := r.condition("Progressing"); p.Reason != "Completed" || p.Status != "False" || r.condition("Succeeded").Status != succeeded {
		c.t.Errorf("Progressing %s %s, Succeeded %q, want %s", p.Status, p.Reason, r.condition("Succeeded").Status, succeeded)
	}
}

// follows wants the Rollout to have seen the newest Deployment.
func (c *outsider) follows() {
	c.t.Helper()
	d, err := c.deployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.until("the generation is observed", c.that(func(r *reading) bool { return r.at().Observed == d.Generation }))
}

// grows adds a pod when no release is under way, and none may start.
func (c *outsider) grows() {
	c.t.Helper()
	c.rereads()
	c.resizes(c.plan.replicas + 1)
	c.follows()
	c.sees(c.that(inPhase("Healthy")))
}

// progress wants the Rollout to say of a step that waits which revisions are
// stable and new, and to which plan the step belongs.
func (c *outsider) progress(step int32, next int32, stable, hash string) *reading {
	c.t.Helper()
	r := c.pauses(step)
	at := r.at()
	if r.Status.Phase != "Progressing" || at.StableRevision != stable || at.PodTemplateHash != hash || hash == stable ||
		at.revision() == "" || at.Next != next || at.RolloutHash == "" || at.RolloutHash != r.Annotations["rollouts.kruise.io/hash"] {
		c.t.Errorf("want step %d, next %d, stable %s, new %s: %s", step, next, stable, hash, r)
	}
	return r
}

// brought wants so many pods, in the end, to say that a batch of this release
// brought them, and no others to say so of any.
func (c *outsider) brought(pods ...int) {
	c.t.Helper()
	want := map[string]int{}
	for i, n := range pods {
		want[strconv.Itoa(i+1)] = n
	}
	r := c.looks()
	c.until("pods have the labels of their batches", c.labelled(r.at().RolloutID, want))
}

// unmarked wants no pod to have the label of a batch.
func (c *outsider) unmarked() {
	c.t.Helper()
	c.until("no pod is of a batch", func(ctx context.Context) error {
		var pods corev1.PodList
		err := here.client.List(ctx, &pods, client.InNamespace(c.namespace), client.HasLabels{"rollouts.kruise.io/rollout-batch-id"})
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				err = fmt.Errorf("%s is of batch %s", pods.Items[i].Name, pods.Items[i].Labels["rollouts.kruise.io/rollout-batch-id"])
			}
		}
		return err
	})
}
