// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// These objects are what OpenKruise leaves when it is stopped during a release, according to its
// documentation.

const (
	// openKruiseRevision is the revision hash that OpenKruise computes for the new version.
	openKruiseRevision = "5c4b6d7f98"
	// openKruisePlanHash is the hash that OpenKruise computes for the plan.
	openKruisePlanHash = "bfc9dd2wz4vkbfc9dd2wz4vkbfc9dd2wz4vkbfc9dd2wz4vkbfc9dd2wz4vkbfc9"
)

// openKruiseRelease is an application of version v1 with a Rollout and a BatchRelease.
type openKruiseRelease struct {
	*app
	rollout *v1beta1.Rollout
	batch   *v1beta1.BatchRelease
	stable  appsv1.ReplicaSet
}

// newOpenKruiseRelease creates the application and the objects that OpenKruise creates at the start
// of a release.
func (c *crdInstallation) newOpenKruiseRelease(t *testing.T, p plan, style v1beta1.Style, step int32) *openKruiseRelease {
	t.Helper()
	o := &openKruiseRelease{app: newNamespace(t)}
	a := o.app
	a.plan = p
	d := a.newDeployment()
	a.create(d)
	a.create(a.newService())
	a.create(a.newIngress())
	a.eventually("the Deployment is ready", a.runs(versions{"v1": p.replicas}))
	a.before = a.readOriginals()
	a.guard = watchPods(a)
	a.guard.atLeast(p.replicas - p.unavailable)
	sets, err := a.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.stable = sets[0]

	o.rollout = a.newRollout()
	o.rollout.Finalizers = []string{"rollouts.kruise.io/rollout"}
	o.rollout.Annotations = map[string]string{"rollouts.kruise.io/hash": openKruisePlanHash}
	a.create(o.rollout)
	o.batch = &v1beta1.BatchRelease{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{"rollouts.kruise.io/batch-release-finalizer"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.rollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"))},
		},
		Spec: v1beta1.BatchReleaseSpec{
			WorkloadRef: &o.rollout.Spec.WorkloadRef,
			ReleasePlan: v1beta1.ReleasePlan{
				BatchPartition: new(step - 1), RolloutID: openKruiseRevision, RollingStyle: style,
				EnableExtraWorkloadForCanary: style == "Canary", PatchPodTemplateMetadata: o.rollout.Spec.Strategy.Canary.PatchPodTemplateMetadata,
			},
		},
	}
	for _, s := range p.steps {
		o.batch.Spec.ReleasePlan.Batches = append(o.batch.Spec.ReleasePlan.Batches, v1beta1.Batch{CanaryReplicas: *s.Replicas})
	}
	a.create(o.batch)
	return o
}

// controlAnnotation is the annotation by which a workload references its BatchRelease.
func (o *openKruiseRelease) controlAnnotation() string {
	data, err := json.Marshal(metav1.NewControllerRef(o.batch, v1beta1.SchemeGroupVersion.WithKind("BatchRelease")))
	if err != nil {
		o.t.Fatal(err)
	}
	return string(data)
}

// editDeployment changes the Deployment in one write.
func (o *openKruiseRelease) editDeployment(change func(d *appsv1.Deployment)) {
	o.t.Helper()
	d, err := o.getDeployment(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	was := d.DeepCopy()
	d.Labels["rollouts.kruise.io/workload-type"] = "deployment"
	d.Labels["rollouts.kruise.io/stable-revision"] = o.stable.Labels["pod-template-hash"]
	d.Annotations["rollouts.kruise.io/in-progressing"] = `{"rolloutName":"web"}`
	d.Annotations["batchrelease.rollouts.kruise.io/control-info"] = o.controlAnnotation()
	d.Spec.Template.Spec.Containers[0].Image = image("v2")
	d.Spec.Paused = true
	change(d)
	if err := testEnv.client.Patch(o.t.Context(), d, client.StrategicMergeFrom(was)); err != nil {
		o.t.Fatal(err)
	}
}

// routeTraffic sends a share of the requests to the new version.
func (o *openKruiseRelease) routeTraffic(hash, weight string) {
	o.t.Helper()
	owner := *metav1.NewControllerRef(o.rollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"))
	s := o.newService()
	s.Name, s.OwnerReferences = name+"-canary", []metav1.OwnerReference{owner}
	s.Spec.Selector = map[string]string{"app": name, "pod-template-hash": hash}
	o.create(s)
	i := o.newIngress()
	i.Name, i.OwnerReferences = name+"-canary", []metav1.OwnerReference{owner}
	i.Annotations = map[string]string{"nginx.ingress.kubernetes.io/canary": "true", "nginx.ingress.kubernetes.io/canary-weight": weight}
	i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = name + "-canary"
	o.create(i)
	pin := fmt.Sprintf(`{"spec":{"selector":{"pod-template-hash":%q}}}`, o.stable.Labels["pod-template-hash"])
	stable := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name}}
	if err := testEnv.client.Patch(o.t.Context(), stable, client.RawPatch(client.Merge.Type(), []byte(pin))); err != nil {
		o.t.Fatal(err)
	}
}

// setWaitingStatus writes the status of a release that waits for approval.
func (o *openKruiseRelease) setWaitingStatus(step, pods int32, hash string) *app {
	o.t.Helper()
	d, err := o.getDeployment(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	now := metav1.Now().Rfc3339Copy()
	r := o.mustGetRollout(name)
	message := fmt.Sprintf("Rollout is in step(%d/%d), and you need manually confirm to enter the next step", step, len(o.plan.steps))
	r.Status = v1beta1.RolloutStatus{
		ObservedGeneration: r.Generation, Phase: "Progressing", Message: message, CurrentStepIndex: step, CurrentStepState: "StepPaused",
		Conditions: []v1beta1.Condition{{
			Type: "Progressing", Status: "True", Reason: "InRolling", Message: "Rollout is in Progressing",
			LastUpdateTime: now, LastTransitionTime: now,
		}},
		Canary: &v1beta1.CanaryStatus{
			Progress: v1beta1.Progress{
				ObservedWorkloadGeneration: d.Generation, ObservedRolloutID: openKruiseRevision, RolloutHash: openKruisePlanHash,
				StableRevision: o.stable.Labels["pod-template-hash"], PodTemplateHash: hash, CurrentStepIndex: step, NextStepIndex: step + 1,
				State: "StepPaused", LastUpdateTime: &now,
			},
			CanaryRevision: openKruiseRevision, CanaryReplicas: pods, CanaryReadyReplicas: pods,
		},
	}
	b := &v1beta1.BatchRelease{}
	if err := testEnv.client.Get(o.t.Context(), o.key(name), b); err != nil {
		o.t.Fatal(err)
	}
	b.Status = v1beta1.BatchReleaseStatus{
		Phase: "Progressing", ObservedGeneration: b.Generation, ObservedRolloutID: openKruiseRevision, ObservedReleasePlanHash: openKruisePlanHash,
		ObservedWorkloadReplicas: o.plan.replicas, StableRevision: o.stable.Labels["pod-template-hash"], UpdateRevision: openKruiseRevision,
		CanaryStatus: v1beta1.BatchStatus{BatchState: "Ready", CurrentBatch: step - 1, BatchReadyTime: &now, UpdatedReplicas: pods, UpdatedReadyReplicas: pods},
	}
	for _, object := range []client.Object{r, b} {
		if err := testEnv.client.Status().Update(o.t.Context(), object); err != nil {
			o.t.Fatal(err)
		}
	}
	return o.app
}

// partitionReleaseAtStep2 is a release in the partition style that is paused at step 2 of 3, with
// half of the pods and half of the traffic.
func (c *crdInstallation) partitionReleaseAtStep2(t *testing.T) *app {
	t.Helper()
	o := c.newOpenKruiseRelease(t, defaultPlan(), "Partition", 2)
	o.editDeployment(func(d *appsv1.Deployment) {
		d.Labels["rollouts.kruise.io/controlled-by-advanced-deployment-controller"] = "true"
		d.Annotations["rollouts.kruise.io/deployment-strategy"] = `{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":1,"maxSurge":2},"partition":"50%"}`
		d.Annotations["rollouts.kruise.io/deployment-extra-status"] = `{"updatedReadyReplicas":3,"expectedUpdatedReplicas":3}`
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	update := o.stable.DeepCopy()
	update.ObjectMeta = metav1.ObjectMeta{
		Name: name + "-" + openKruiseRevision, OwnerReferences: o.stable.OwnerReferences, Labels: o.labels(),
		Annotations: map[string]string{
			"deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "6", "deployment.kubernetes.io/max-replicas": "8",
		},
	}
	update.Status = appsv1.ReplicaSetStatus{}
	for _, labels := range []map[string]string{update.Labels, update.Spec.Selector.MatchLabels, update.Spec.Template.Labels} {
		labels["pod-template-hash"] = openKruiseRevision
	}
	update.Spec.Template.Spec.Containers[0].Image = image("v2")
	update.Spec.Replicas = new(int32(3))
	o.create(update)
	o.eventually("the new pods are ready", o.runs(versions{"v1": 6, "v2": 3}))
	shrunk := o.stable.DeepCopy()
	shrunk.Spec.Replicas = new(int32(3))
	if err := testEnv.client.Patch(t.Context(), shrunk, client.MergeFrom(&o.stable)); err != nil {
		t.Fatal(err)
	}
	o.eventually("half of the pods are new", o.runs(versions{"v1": 3, "v2": 3}))
	o.routeTraffic(openKruiseRevision, "50")
	return o.setWaitingStatus(2, 3, openKruiseRevision)
}

// canaryReleaseAtStep1 is a release with an extra Deployment that is paused at step 1 of 2.
func (c *crdInstallation) canaryReleaseAtStep1(t *testing.T) *app {
	t.Helper()
	o := c.newOpenKruiseRelease(t, canaryPlan(), "Canary", 1)
	o.editDeployment(func(*appsv1.Deployment) {})
	d, err := o.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	extra := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: name + "-", Finalizers: []string{"finalizer.rollouts.kruise.io/batch-release"},
			Labels:          map[string]string{"rollouts.kruise.io/canary-deployment": name},
			Annotations:     map[string]string{"batchrelease.rollouts.kruise.io/control-info": o.controlAnnotation()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.batch, v1beta1.SchemeGroupVersion.WithKind("BatchRelease"))},
		},
		Spec: *d.Spec.DeepCopy(),
	}
	extra.Spec.Replicas, extra.Spec.Paused = new(int32(1)), false
	extra.Spec.Template.Labels["track"] = "canary"
	o.create(extra)
	o.eventually("the extra pod is ready", o.runs(versions{"v1": 6, "v2": 1}))
	sets, err := o.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range sets {
		if metav1.IsControlledBy(&sets[i], extra) {
			hash := sets[i].Labels["pod-template-hash"]
			o.routeTraffic(hash, "20")
			return o.setWaitingStatus(1, 1, hash)
		}
	}
	t.Fatal("the extra Deployment has no ReplicaSet")
	return nil
}
