// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// forge writes fields of a Deployment that only Weir writes: that it is held, its stable revision,
// and its target. Any user who may patch the Deployment can do this while admission is not
// reachable.
func (s *story) forge(c command) {
	d := clone(appOf(s.w.store.objects, c.words[1])).(*appsv1.Deployment)
	if tag := c.get("image", ""); tag != "" {
		setImage(tag)(d)
	}
	if c.has("bare") {
		d.Annotations, d.Labels = map[string]string{"owner": "team"}, nil
	}
	if c.has("held") {
		d.Annotations[rollouts.AnnotationInProgress] = `{"rolloutName":"web"}`
		d.Spec.Paused = true
	}
	if words := c.get("refused", ""); words != "" {
		d.Annotations[rollouts.AnnotationRefused] = words
	}
	if tag := c.get("stable", ""); tag != "" {
		other := clone(d)
		setImage(tag)(other)
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[rollouts.LabelStableRevision] = workload.TemplateHash(&other.Spec.Template)
	}
	setDriveAnnotations(d, c.get("drive", ""))
	s.t.printUnder("admission", "not asked")
	s.w.runAs("user", func() error { return s.w.store.update(d) })
}

// setDriveAnnotations writes the annotations that control a Deployment without a Rollout or
// BatchRelease.
func setDriveAnnotations(d *appsv1.Deployment, share string) {
	if share == "" {
		return
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[rollouts.AnnotationControlInfo] = "anybody"
	d.Annotations[rollouts.AnnotationDeploymentStrategy] = `{"rollingUpdate":{"maxSurge":"100%"},"partition":"` + share + `"}`
	d.Spec.Paused, d.Spec.Strategy = true, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
}

// status writes the status of a set, which only the native controller writes. Any user who may
// patch the status can do this.
func (s *story) status(c command) {
	o := clone(appOf(s.w.store.objects, c.words[1]))
	current, update := s.revision(c.get("current", "")), s.revision(c.get("update", ""))
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		o.Status.ObservedGeneration = o.Generation
		o.Status.CurrentRevision, o.Status.UpdateRevision = cmp.Or(current, o.Status.CurrentRevision), cmp.Or(update, o.Status.UpdateRevision)
		o.Status.UpdatedReplicas, o.Status.ReadyReplicas = o.Status.Replicas, o.Status.Replicas
	case *workload.CloneSet:
		o.Status.ObservedGeneration = o.Generation
		o.Status.CurrentRevision, o.Status.UpdateRevision = cmp.Or(current, o.Status.CurrentRevision), cmp.Or(update, o.Status.UpdateRevision)
		o.Status.UpdatedReplicas, o.Status.UpdatedReadyReplicas = o.Status.Replicas, o.Status.Replicas
	case *appsv1.DaemonSet:
		o.Status.ObservedGeneration = o.Generation
		o.Status.DesiredNumberScheduled = s.number(c.get("nodes", "0"))
		o.Status.UpdatedNumberScheduled = o.Status.DesiredNumberScheduled
	}
	s.w.runAs("user", func() error { return s.w.store.updateStatus(o) })
}

// revision returns the name of the ControllerRevision with an image, or "".
func (s *story) revision(tag string) string {
	for _, r := range listOf[*appsv1.ControllerRevision](s.w.store.objects) {
		if tag != "" && tagOf(templateIn(r)) == tag {
			return r.Name
		}
	}
	return ""
}

// extra edits the canary Deployment. Any user who may patch Deployments can do this.
func (s *story) extra(c command) {
	for _, d := range listOf[*appsv1.Deployment](s.w.store.objects) {
		if d.Labels[rollouts.LabelCanaryDeployment] == "" {
			continue
		}
		next := clone(d)
		if tag := c.get("image", ""); tag != "" {
			setImage(tag)(next)
		}
		if n := c.get("replicas", ""); n != "" {
			*next.Spec.Replicas = s.number(n)
		}
		next.Spec.Paused = c.has("paused")
		setDriveAnnotations(next, c.get("drive", ""))
		if c.has("orphan") {
			next.OwnerReferences = nil
		}
		s.w.runAs("user", func() error { return s.w.store.update(next) })
	}
}

// rival creates a Deployment of another owner with the name of the canary Deployment for an image.
func (s *story) rival(c command) {
	d := clone(find[*appsv1.Deployment](s.w.store.objects, kindDeployment, c.words[1]))
	setImage(c.get("image", ""))(d)
	other := &appsv1.Deployment{Spec: *d.Spec.DeepCopy()}
	other.Name = d.Name + rollouts.CanarySuffix + "-" + workload.TemplateHash(&d.Spec.Template)
	other.Spec.Paused = false
	other.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	other.Spec.Template.Labels = map[string]string{"app": "other"}
	s.w.runAs("user", func() error { return s.w.store.create(other) })
}

// tamper changes the image in a stored template: it edits a ReplicaSet, and recreates a
// ControllerRevision, whose data is immutable.
func (s *story) tamper(c command) {
	image := "echo:" + c.get("image", "")
	for _, rs := range listOf[*appsv1.ReplicaSet](s.w.store.objects) {
		if tagOf(&rs.Spec.Template) == c.words[1] {
			next := clone(rs)
			next.Spec.Template.Spec.Containers[0].Image = image
			s.w.runAs("user", func() error { return s.w.store.update(next) })
		}
	}
	for _, r := range listOf[*appsv1.ControllerRevision](s.w.store.objects) {
		if tagOf(templateIn(r)) == c.words[1] {
			next := clone(r)
			next.Data.Raw = []byte(strings.Replace(string(r.Data.Raw), "echo:"+c.words[1], image, 1))
			next.ResourceVersion = ""
			s.w.runAs("user", func() error { return errors.Join(s.w.store.remove(r), s.w.store.create(next)) })
		}
	}
}
