// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

func (s *story) update(c command) {
	s.t.printUnder("admission", "%s", s.w.updateWorkload(c.words[1], func(d object.Object) {
		if tag := c.get("image", ""); tag != "" {
			setImage(tag)(d)
		}
		if id := c.get("id", ""); id != "" {
			setName(id)(d)
		}
		if c.has("marked") {
			d.SetAnnotations(withKey(d.GetAnnotations(), rollouts.AnnotationInProgress, "true"))
		}
		if n := c.get("replicas", ""); n != "" {
			*nativeOf(d).size(d) = s.number(n)
		}
		if native, ok := d.(*appsv1.Deployment); ok {
			s.rest(c, &native.Spec)
		}
	}))
}

// rest applies the other parameters of an update to a Deployment.
func (s *story) rest(c command, spec *appsv1.DeploymentSpec) {
	if n := c.get("history", ""); n != "" {
		spec.RevisionHistoryLimit = new(s.number(n))
	}
}

// sneak plays an update that bypasses admission.
func (s *story) sneak(c command) {
	o := clone(appOf(s.w.store.objects, c.words[1]))
	if tag := c.get("image", ""); tag != "" {
		setImage(tag)(o)
	}
	if id := c.get("id", ""); id != "" {
		setName(id)(o)
	}
	if c.has("marked") {
		o.SetAnnotations(withKey(o.GetAnnotations(), rollouts.AnnotationInProgress, "true"))
	}
	if d, ok := o.(*appsv1.Deployment); ok && c.has("bare") {
		d.Annotations, d.Spec.Paused = map[string]string{"owner": "team"}, false
		d.Spec.Strategy = rolling("25%", "25%")
	}
	s.t.printUnder("admission", "not asked")
	s.w.runAs("user", func() error { return s.w.store.update(o) })
}

// apply plays an update that changes more than the image: it resumes the workload, restores the
// owner's strategy, or removes Weir's metadata.
func (s *story) apply(c command) {
	s.t.printUnder("admission", "%s", s.w.updateWorkload(c.words[1], func(o object.Object) {
		if tag := c.get("image", ""); tag != "" {
			setImage(tag)(o)
		}
		if c.has("unpaused") {
			nativeOf(o).resume(o)
		}
		if c.has("unmarked") {
			o.SetAnnotations(nil)
			o.SetLabels(nil)
		}
		if d, ok := o.(*appsv1.Deployment); ok && c.has("rolling") {
			d.Spec.Strategy = rolling(c.get("surge", "25%"), c.get("unavailable", "25%"))
			s.w.check.owner.(*appsv1.Deployment).Spec.Strategy = d.Spec.Strategy
		}
	}))
}

// drive writes the annotations that control a Deployment without a release, and stops the native
// controller.
func (s *story) drive(c command) {
	share := intstr.Parse(c.get("partition", "0"))
	rolling := s.w.check.owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate
	s.t.printUnder("user", "%s", s.w.updateWorkload(c.words[1], func(o object.Object) {
		d := o.(*appsv1.Deployment)
		if tag := c.get("image", ""); tag != "" {
			setImage(tag)(d)
		}
		value, err := json.Marshal(map[string]any{"rollingUpdate": rolling, "paused": c.has("paused"), "partition": share})
		if err != nil {
			s.Fatal(err)
		}
		d.Annotations[rollouts.AnnotationControlInfo] = "anybody"
		d.Annotations[rollouts.AnnotationDeploymentStrategy] = string(value)
		d.Spec.Paused = true
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}))
}

func (s *story) scale(c command) {
	if !s.w.scaleWorkload(c.words[1], s.number(c.get("replicas", "0"))) {
		s.t.printUnder("scale", "not found")
	}
}

func (s *story) decide(c command, v rollouts.Verb, via rollouts.Via) {
	asked := verb.Command{Verb: v, Via: via, User: c.get("user", "alice"), Full: c.has("full"), Override: c.has("override")}
	asked.Options.RequestID, asked.Options.Reason = c.get("id", ""), c.get("reason", "")
	asked.Step = s.number(c.get("to", "0"))
	if step := c.get("step", ""); step != "" {
		n := s.number(step)
		asked.Options.Expect = &rollouts.Expectation{Step: &n}
	}
	s.t.printUnder(string(v), "%s", s.w.applyVerb(c.words[1], asked))
}

func (s *story) jump(c command) {
	via := rollouts.ViaVerb
	if c.has("legacy") {
		via = rollouts.ViaStatus
	}
	s.decide(c, rollouts.VerbJump, via)
}

// freeze pauses or resumes by the verb, or otherwise by the spec.
func (s *story) freeze(c command, v rollouts.Verb, paused bool) {
	if c.has("verb") {
		s.decide(c, v, rollouts.ViaVerb)
		return
	}
	s.edit(c, func(r *rollouts.RolloutSpec) { r.Strategy.Paused = paused })
}

func (s *story) edit(c command, change func(*rollouts.RolloutSpec)) {
	if !s.w.editRollout(c.words[1], change) {
		s.t.printUnder(c.words[0], "not found")
	}
	if why := s.w.refused; why != "" {
		s.t.printUnder(c.words[0], "refused, %s", why)
	}
}

func (s *story) remove(c command) {
	k, name, _ := strings.Cut(c.words[1], "/")
	if c.has("orphan") {
		s.w.orphanSets(key{kind(k), name})
	}
	if !s.w.deleteObject(kind(k), name) {
		s.t.printUnder("delete", "not found")
	}
}

func (s *story) again(c command) {
	made := clone(s.exported)
	made.SetResourceVersion("")
	made.SetFinalizers(nil)
	if d, ok := made.(*appsv1.Deployment); ok {
		d.Status = appsv1.DeploymentStatus{}
	}
	if o := appOf(s.w.store.objects, c.words[1]); o != nil {
		s.w.deleteObject(keyOf(o).kind, o.GetName())
		s.settle()
	}
	s.w.observer.did("makes " + c.words[1] + " again")
	s.w.runAs("user", func() error { return s.w.store.create(made) })
}

// remake deletes a workload and creates it again before any controller acts. The loss of the
// requests to its pods is excused.
func (s *story) remake(c command) {
	k := kindDeployment
	if o := appOf(s.w.store.objects, c.words[1]); o != nil {
		k = keyOf(o).kind
	}
	s.w.recreateWorkload(app{
		kind: k, name: c.words[1], replicas: s.number(c.get("replicas", "6")), image: c.get("image", "v1"),
		surge: "25%", unavail: "25%", history: 10,
	})
}

func (s *story) force(c command) {
	k, name, _ := strings.Cut(c.words[1], "/")
	next := clone(s.w.store.objects[key{kind(k), name}])
	next.SetFinalizers(nil)
	s.w.check.excusesPodFailures = true // the consequences are excused
	s.w.runAs("user", func() error { return s.w.store.update(next) })
	s.remove(c)
}

// storedKinds are the kinds that weir-apiserver stores.
var storedKinds = []kind{kindRollout, kindBatch, kindRouting, kindHistory}

func (s *story) backup(command) {
	s.saved = maps.Clone(s.w.store.objects)
	maps.DeleteFunc(s.saved, func(k key, _ object.Object) bool { return !slices.Contains(storedKinds, k.kind) })
}

// restore replaces the objects that weir-apiserver stores by the backup, which includes their UIDs.
func (s *story) restore(command) {
	s.w.check.excusesPodFailures = true // the consequences are excused
	s.t.printUnder("user", "restores the backup")
	for k := range s.w.store.objects {
		if slices.Contains(storedKinds, k.kind) && s.saved[k] == nil {
			s.w.store.put(k, nil)
		}
	}
	for k, o := range s.saved {
		s.w.store.put(k, clone(o))
	}
}

// spec prints the fields of a workload's spec that a hold replaces.
func (s *story) spec(c command) {
	var shown any
	switch o := appOf(s.w.store.objects, c.words[1]).(type) {
	case *appsv1.Deployment:
		shown = map[string]any{"minReadySeconds": o.Spec.MinReadySeconds, "progressDeadlineSeconds": o.Spec.ProgressDeadlineSeconds, "strategy": o.Spec.Strategy}
	case *appsv1.StatefulSet:
		shown = o.Spec.UpdateStrategy
	case *workload.CloneSet:
		shown = map[string]any{"minReadySeconds": o.Spec.MinReadySeconds, "updateStrategy": o.Spec.UpdateStrategy}
	}
	data, err := json.Marshal(shown)
	if err != nil {
		s.Fatal(err)
	}
	s.t.printUnder("spec", "%s", data)
}

// autoscaler creates an autoscaler with the name of its workload. It never scales.
func (s *story) autoscaler(c command) {
	var k kind
	for at := range s.w.store.objects {
		if natives[at.kind] != nil && at.name == c.words[1] {
			k = at.kind
		}
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: c.words[1]}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: versionOf(k), Kind: kindNames[k], Name: c.words[1]}
	s.w.runAs("user", func() error { return s.w.store.create(h) })
}
