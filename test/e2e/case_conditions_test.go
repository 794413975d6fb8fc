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

// rolloutReading is what an outsider reads of a Rollout. The status is the same in
// both versions.
type rolloutReading struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase      string         `json:"phase"`
		Message    string         `json:"message"`
		Conditions []condition06  `json:"conditions"`
		Canary     *releaseStatus `json:"canaryStatus"`
		BlueGreen  *releaseStatus `json:"blueGreenStatus"`
	} `json:"status"`
}

// releaseStatus is how far a release is. Styles differ in the names of four fields.
type releaseStatus struct {
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

func (r *rolloutReading) releaseStatus() releaseStatus {
	switch {
	case r.Status.Canary != nil:
		return *r.Status.Canary
	case r.Status.BlueGreen != nil:
		return *r.Status.BlueGreen
	default:
		return releaseStatus{}
	}
}

// revision is that being released.
func (s releaseStatus) revision() string { return cmp.Or(s.CanaryRevision, s.UpdatedRevision) }

func (r *rolloutReading) condition(kind string) condition06 {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition06{}
}

func (r *rolloutReading) String() string {
	p := r.condition("Progressing")
	return fmt.Sprintf("%s %s/%s %q %+v", r.Status.Phase, p.Reason, p.Status, r.Status.Message, r.releaseStatus())
}

// readRollout reads the Rollout once.
func (c *kruiseClient) readRollout() *rolloutReading {
	c.t.Helper()
	r, err := c.tryReadRollout(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *kruiseClient) tryReadRollout(ctx context.Context) (*rolloutReading, error) {
	o, r := c.newRolloutObject(), &rolloutReading{}
	if err := testEnv.client.Get(ctx, c.key(c.rollout), o); err != nil {
		return nil, err
	}
	return r, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, r)
}

// rolloutSatisfies asks about the Rollout as it is read.
func (c *kruiseClient) rolloutSatisfies(so func(*rolloutReading) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.tryReadRollout(ctx)
		if err == nil && !so(r) {
			err = fmt.Errorf("the Rollout is %s", r)
		}
		return err
	}
}

// stepPaused wants a step to wait.
func stepPaused(step int32) func(*rolloutReading) bool {
	return func(r *rolloutReading) bool {
		return r.releaseStatus().Step == step && r.releaseStatus().State == "StepPaused"
	}
}

func inPhase(phase string) func(*rolloutReading) bool {
	return func(r *rolloutReading) bool { return r.Status.Phase == phase }
}

// awaitPausedStep waits for a step to wait.
func (c *kruiseClient) awaitPausedStep(step int32) *rolloutReading {
	c.t.Helper()
	c.eventually(fmt.Sprintf("step %d is paused", step), c.rolloutSatisfies(stepPaused(step)))
	return c.readRollout()
}

// checkAfter stands for a fixed wait before one look, however slow the machine is: what is looked
// for must become so, and stay until that time is over.
func (c *kruiseClient) checkAfter(d time.Duration, what string, ask func(context.Context) error) {
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

// activeReplicaSets are the hash labels of the ReplicaSets of a Deployment that want pods, oldest first.
func (c *kruiseClient) activeReplicaSets(of string) []string {
	c.t.Helper()
	sets, err := c.replicaSets(c.t.Context())
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

// awaitAllUpdated waits until the Deployment says that every pod is new and ready.
func (c *kruiseClient) awaitAllUpdated() {
	c.t.Helper()
	c.eventually("all pods are ready", c.isComplete)
}

func (c *kruiseClient) isComplete(ctx context.Context) error {
	d, err := c.getDeployment(ctx)
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

// isPausedAtOldVersion wants the Deployment to be paused with all pods of the old version.
func (c *kruiseClient) isPausedAtOldVersion(ctx context.Context) error {
	d, err := c.getDeployment(ctx)
	if s := d.Status; err == nil && (!d.Spec.Paused || s.UpdatedReplicas != 0 || s.Replicas != c.plan.replicas || s.ReadyReplicas != c.plan.replicas) {
		err = fmt.Errorf("paused %t, %+v", d.Spec.Paused, s)
	}
	return err
}

// ours is what belongs to the Rollout beside the workload.
const extraName = name + "-canary"

// selectedRevision is the revision that a Service selects; empty for none.
func (c *kruiseClient) selectedRevision(service string) string {
	c.t.Helper()
	s := &corev1.Service{}
	if err := testEnv.client.Get(c.t.Context(), c.key(service), s); err != nil {
		c.t.Fatal(err)
	}
	return s.Spec.Selector["pod-template-hash"]
}

// checkServicesPinned wants either Service to select its revision only.
func (c *kruiseClient) checkServicesPinned() {
	c.t.Helper()
	at := c.readRollout().releaseStatus()
	if got := c.selectedRevision(name); got == "" || got != at.StableRevision {
		c.t.Errorf("the Service selects %q, want %q", got, at.StableRevision)
	}
	if got := c.selectedRevision(extraName); got == "" || got != at.PodTemplateHash {
		c.t.Errorf("the canary Service selects %q, want %q", got, at.PodTemplateHash)
	}
}

// checkCanaryWeight wants the share of requests that a step names to go to the new version.
func (c *kruiseClient) checkCanaryWeight(weight int) {
	c.t.Helper()
	c.checkServicesPinned()
	c.checkNow(c.hasCanaryWeight(strconv.Itoa(weight)))
	if got := c.canaryRules()["canary"]; got != "true" {
		c.t.Errorf("canary is %q", got)
	}
}

// canaryRules are the annotations of the canary Ingress, without the prefix.
func (c *kruiseClient) canaryRules() map[string]string {
	c.t.Helper()
	ingress := &networkingv1.Ingress{}
	if err := testEnv.client.Get(c.t.Context(), c.key(extraName), ingress); err != nil {
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

// checkNetworkRestored wants the network to be as it was before.
func (c *kruiseClient) checkNetworkRestored() {
	c.t.Helper()
	if got := c.selectedRevision(name); got != "" {
		c.t.Errorf("the Service still selects %q", got)
	}
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		c.checkNow(c.isGone(o, extraName))
	}
}

// checkReleaseEnded wants a release to have ended, with one look at everything.
func (c *kruiseClient) checkReleaseEnded(version, succeeded string) {
	c.t.Helper()
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	if c.plan.withTraffic {
		c.checkNetworkRestored()
	}
	c.checkDeploymentComplete(version)
	c.checkFinalConditions(succeeded)
	c.awaitObservedGeneration()
}

// checkDeploymentComplete wants the Deployment to be released and complete, now.
func (c *kruiseClient) checkDeploymentComplete(version string) {
	c.t.Helper()
	c.checkNow(c.isComplete)
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("paused %t, template of %s, want %s", d.Spec.Paused, versionOf(&d.Spec.Template.Spec), version)
	}
}

// checkFinalConditions wants the conditions of a release that has ended.
func (c *kruiseClient) checkFinalConditions(succeeded string) {
	c.t.Helper()
	r := c.readRollout()
	if p := r.condition("Progressing"); p.Reason != "Completed" || p.Status != "False" || r.condition("Succeeded").Status != succeeded {
		c.t.Errorf("Progressing %s %s, Succeeded %q, want %s", p.Status, p.Reason, r.condition("Succeeded").Status, succeeded)
	}
}

// awaitObservedGeneration wants the Rollout to have seen the newest Deployment.
func (c *kruiseClient) awaitObservedGeneration() {
	c.t.Helper()
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the generation is observed", c.rolloutSatisfies(func(r *rolloutReading) bool { return r.releaseStatus().Observed == d.Generation }))
}

// addPod adds a pod when no release is under way, and none may start.
func (c *kruiseClient) addPod() {
	c.t.Helper()
	c.refreshDeployment()
	c.setReplicas(c.plan.replicas + 1)
	c.awaitObservedGeneration()
	c.checkNow(c.rolloutSatisfies(inPhase("Healthy")))
}

// checkProgress wants the Rollout to say of a step that waits which revisions are
// stable and new, and to which plan the step belongs.
func (c *kruiseClient) checkProgress(step int32, next int32, stable, hash string) *rolloutReading {
	c.t.Helper()
	r := c.awaitPausedStep(step)
	at := r.releaseStatus()
	if r.Status.Phase != "Progressing" || at.StableRevision != stable || at.PodTemplateHash != hash || hash == stable ||
		at.revision() == "" || at.Next != next || at.RolloutHash == "" || at.RolloutHash != r.Annotations["rollouts.kruise.io/hash"] {
		c.t.Errorf("want step %d, next %d, stable %s, new %s: %s", step, next, stable, hash, r)
	}
	return r
}

// checkBatchLabels wants so many pods, in the end, to say that a batch of this release
// brought them, and no others to say so of any.
func (c *kruiseClient) checkBatchLabels(pods ...int) {
	c.t.Helper()
	want := map[string]int{}
	for i, n := range pods {
		want[strconv.Itoa(i+1)] = n
	}
	r := c.readRollout()
	c.eventually("pods have the labels of their batches", c.podsHaveBatchLabels(r.releaseStatus().RolloutID, want))
}

// checkNoBatchLabels wants no pod to have the label of a batch.
func (c *kruiseClient) checkNoBatchLabels() {
	c.t.Helper()
	c.eventually("no pod is of a batch", func(ctx context.Context) error {
		var pods corev1.PodList
		err := testEnv.client.List(ctx, &pods, client.InNamespace(c.namespace), client.HasLabels{"rollouts.kruise.io/rollout-batch-id"})
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				err = fmt.Errorf("%s is of batch %s", pods.Items[i].Name, pods.Items[i].Labels["rollouts.kruise.io/rollout-batch-id"])
			}
		}
		return err
	})
}
