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

// rolloutReading is the part of a Rollout that a client of OpenKruise reads. The status is the same
// in both API versions.
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

// releaseStatus is the progress of a release. Four fields have different names in the styles.
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

// revision returns the revision that is being released.
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

// rolloutSatisfies returns a check of the Rollout.
func (c *kruiseClient) rolloutSatisfies(so func(*rolloutReading) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.tryReadRollout(ctx)
		if err == nil && !so(r) {
			err = fmt.Errorf("the Rollout is %s", r)
		}
		return err
	}
}

// stepPaused returns a check that a step is paused.
func stepPaused(step int32) func(*rolloutReading) bool {
	return func(r *rolloutReading) bool {
		return r.releaseStatus().Step == step && r.releaseStatus().State == "StepPaused"
	}
}

func inPhase(phase string) func(*rolloutReading) bool {
	return func(r *rolloutReading) bool { return r.Status.Phase == phase }
}

// awaitPausedStep waits until a step is paused.
func (c *kruiseClient) awaitPausedStep(step int32) *rolloutReading {
	c.t.Helper()
	c.eventually(fmt.Sprintf("step %d is paused", step), c.rolloutSatisfies(stepPaused(step)))
	return c.readRollout()
}

// checkAfter waits for a fixed time, as such a client does, before it looks once. On a slow machine
// the condition has more time. The condition must become true, and stay true until the time has
// passed.
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

// activeReplicaSets returns the hash labels of the ReplicaSets of a Deployment that have replicas,
// oldest first.
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

// awaitAllUpdated waits until the Deployment's status counts every pod as updated and ready.
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
		return fmt.Errorf("of %d pods %d are updated, %d exist, %d are ready, generation %d of %d",
			want, s.UpdatedReplicas, s.Replicas, s.ReadyReplicas, s.ObservedGeneration, d.Generation)
	}
	return nil
}

// isPausedAtOldVersion returns an error unless the Deployment is paused and all its pods run the
// old version.
func (c *kruiseClient) isPausedAtOldVersion(ctx context.Context) error {
	d, err := c.getDeployment(ctx)
	if s := d.Status; err == nil && (!d.Spec.Paused || s.UpdatedReplicas != 0 || s.Replicas != c.plan.replicas || s.ReadyReplicas != c.plan.replicas) {
		err = fmt.Errorf("paused %t, %+v", d.Spec.Paused, s)
	}
	return err
}

// extraName is the name of the canary Service and the canary Ingress.
const extraName = name + "-canary"

// selectedRevision returns the revision that a Service selects; empty if it selects any.
func (c *kruiseClient) selectedRevision(service string) string {
	c.t.Helper()
	s := &corev1.Service{}
	if err := testEnv.client.Get(c.t.Context(), c.key(service), s); err != nil {
		c.t.Fatal(err)
	}
	return s.Spec.Selector["pod-template-hash"]
}

// checkServicesPinned checks that the stable and the canary Service each select their own revision
// only.
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

// checkCanaryWeight checks the weight of the canary Ingress.
func (c *kruiseClient) checkCanaryWeight(weight int) {
	c.t.Helper()
	c.checkServicesPinned()
	c.checkNow(c.hasCanaryWeight(strconv.Itoa(weight)))
	if got := c.canaryRules()["canary"]; got != "true" {
		c.t.Errorf("canary is %q", got)
	}
}

// canaryRules returns the annotations of the canary Ingress, without their prefix.
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

// checkNetworkRestored checks that Service and Ingress are as before the release.
func (c *kruiseClient) checkNetworkRestored() {
	c.t.Helper()
	if got := c.selectedRevision(name); got != "" {
		c.t.Errorf("the Service still selects %q", got)
	}
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		c.checkNow(c.isGone(o, extraName))
	}
}

// checkReleaseEnded waits for the end of the release, and then checks all objects once.
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

// checkDeploymentComplete checks that the Deployment is no longer paused and completely runs the
// version.
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

// checkFinalConditions checks the conditions at the end of a release.
func (c *kruiseClient) checkFinalConditions(succeeded string) {
	c.t.Helper()
	r := c.readRollout()
	if p := r.condition("Progressing"); p.Reason != "Completed" || p.Status != "False" || r.condition("Succeeded").Status != succeeded {
		c.t.Errorf("Progressing %s %s, Succeeded %q, want %s", p.Status, p.Reason, r.condition("Succeeded").Status, succeeded)
	}
}

// awaitObservedGeneration waits until the Rollout has observed the newest generation of the
// Deployment.
func (c *kruiseClient) awaitObservedGeneration() {
	c.t.Helper()
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the generation is observed", c.rolloutSatisfies(func(r *rolloutReading) bool { return r.releaseStatus().Observed == d.Generation }))
}

// addPod adds a pod while no release is in progress. This must not start a release.
func (c *kruiseClient) addPod() {
	c.t.Helper()
	c.refreshDeployment()
	c.setReplicas(c.plan.replicas + 1)
	c.awaitObservedGeneration()
	c.checkNow(c.rolloutSatisfies(inPhase("Healthy")))
}

// checkProgress checks the revisions of a paused step in the status, and the plan that the step
// belongs to.
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

// checkBatchLabels waits until this many pods have the label of each batch of this release, and no
// other pods have one.
func (c *kruiseClient) checkBatchLabels(pods ...int) {
	c.t.Helper()
	want := map[string]int{}
	for i, n := range pods {
		want[strconv.Itoa(i+1)] = n
	}
	r := c.readRollout()
	c.eventually("pods have the labels of their batches", c.podsHaveBatchLabels(r.releaseStatus().RolloutID, want))
}

// checkNoBatchLabels checks that no pod has the label of a batch.
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
