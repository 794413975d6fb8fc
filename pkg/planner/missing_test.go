// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Each ending works without each object that it uses, in each style, and behind each router of
// traffic.Providers. The object disappears before or during the ending. A new row in
// traffic.Providers is covered without a change here.

const stableSet = "stable set"

// absentObject is an object that is deleted, if it exists.
type absentObject struct {
	name   string
	remove func(*world)
}

var absentObjects = []absentObject{
	{"nothing", func(*world) {}},
	{"service", deleteAny(key{kindService, app0})},
	{"canary service", deleteAny(key{kindService, canaryName(app0)})},
	{"router", deleteAny(routers...)},
	{"canary ingress", deleteAny(key{kindIngress, canaryName(app0)})},
	{"network", deleteAny(append(routers, key{kindService, app0}, key{kindService, canaryName(app0)}, key{kindIngress, canaryName(app0)})...)},
	{"batchrelease", deleteAny(key{kindBatch, app0})},
	{stableSet, func(w *world) {
		w.deleteSets(func(rs *appsv1.ReplicaSet) bool { return imageOfSet(rs) == "v1" })
	}},
	{"workload", deleteAny(key{kindDeployment, app0})},
}

// routers are the possible routers in front of the Service.
var routers = []key{
	{kindIngress, app0}, {kindHTTPRoute, app0}, {kindGRPCRoute, app0}, {kindVirtualService, app0}, {kindTraefikService, app0},
}

func deleteAny(keys ...key) func(*world) {
	return func(w *world) {
		for _, k := range keys {
			w.deleteObject(k.kind, k.name)
		}
	}
}

// endingCase is an ending and the expected state after it.
type endingCase struct {
	name  string
	begin func(*releaseEnd) string
	phase rollouts.Phase
	// tag is the image of all pods, or "" if another release has begun.
	tag string
}

var endingCases = []endingCase{
	{"abort", applyFullVerb(rollouts.VerbAbort), rollouts.PhaseProgressing, "v1"},
	{"rollback", applyFullVerb(rollouts.VerbRollback), rollouts.PhaseHealthy, "v1"},
	{"cancel", func(e *releaseEnd) string { return e.updateWorkload(app0, setImage("v1")) }, rollouts.PhaseHealthy, "v1"},
	{"succeed", applyFullVerb(rollouts.VerbPromote), rollouts.PhaseHealthy, "v2"},
	{"disable", func(e *releaseEnd) string {
		return strconv.FormatBool(e.editRollout(app0, func(s *rollouts.RolloutSpec) { s.Disabled = true }))
	}, rollouts.PhaseDisabled, "v2"},
	{"delete", func(e *releaseEnd) string { return strconv.FormatBool(e.deleteObject(kindRollout, app0)) }, "", "v2"},
	{"supersede", func(e *releaseEnd) string { return e.updateWorkload(app0, setImage("v3")) }, rollouts.PhaseProgressing, ""},
}

func applyFullVerb(v rollouts.Verb) func(*releaseEnd) string {
	return func(e *releaseEnd) string { return e.applyVerb(app0, verb.Command{Verb: v, User: "end", Full: true}) }
}

func TestEndingsWithoutObjects(t *testing.T) {
	for _, row := range traffic.Providers {
		router := strings.Trim(row.Kind.Kind+" "+row.Class, " ")
		if row.Kind.Kind == "DestinationRule" {
			continue // a DestinationRule sends no requests; stories of shared Services cover it
		}
		for _, style := range []rollouts.Style{rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen} {
			t.Run(router+"/"+string(style), func(t *testing.T) {
				t.Parallel()
				w := newHalfwayWorld(t, row, style)
				for _, a := range absentObjects {
					for _, f := range endingCases {
						if f.tag == "" && style == rollouts.StyleBlueGreen {
							continue // a blue-green release refuses another template
						}
						withoutObject(t, w, a, f, false)
						if row.Class == "" || row.Class == "nginx" || row.Class == "aws-alb" { // other classes have annotations like nginx
							withoutObject(t, w, a, f, true)
						}
					}
				}
			})
		}
	}
}

// newHalfwayWorld returns a world in which a step with most of the pods and requests waits.
func newHalfwayWorld(t *testing.T, row traffic.ProviderEntry, style rollouts.Style) *world {
	t.Helper()
	w := newWorld(clockStart.Add(-time.Hour), silentObserver{}, newChecks())
	w.createWorkload(app{name: app0, image: "v1", replicas: 5, surge: "25%", unavail: "25%", history: 10})
	w.runUntilIdle()
	w.now = clockStart
	w.createService(app0)
	k := kindOf(row.Kind.Kind)
	refs := routingBy(k, app0, 3*time.Second)
	if k != kindIngress {
		w.createRouter(k, app0)
	} else {
		w.createIngress(app0, app0)
		w.setActionAnnotation(row.Class)
		refs[0].Ingress.ClassType = &row.Class
	}
	w.createRollout(app0, rollouts.Release{
		Steps:           []rollouts.Step{planStep("80%", "80%", 0, false), planStep("100%", "", 0, false)},
		TrafficRoutings: refs, ExtraWorkload: style == rollouts.StyleCanary,
	}, style == rollouts.StyleBlueGreen)
	w.runUntilIdle()
	w.updateWorkload(app0, setImage("v2"))
	w.runUntilIdle()
	r := find[*rollouts.Rollout](w.store.objects, kindRollout, app0)
	if p := r.Status.Active(); p == nil || p.State != rollouts.StepPaused || len(w.check.broken) > 0 {
		t.Fatalf("the step does not wait: %s, %v", r.Status.Message, w.check.broken)
	}
	return w
}

// setActionAnnotation gives an Ingress the annotation that routes its requests, if its class
// requires one.
func (w *world) setActionAnnotation(class string) {
	if class != "aws-alb" {
		return
	}
	next := clone(find[*networkingv1.Ingress](w.store.objects, kindIngress, app0))
	next.Annotations = map[string]string{
		"alb.ingress.kubernetes.io/actions.all": `{"type":"forward","forwardConfig":{"targetGroups":[{"serviceName":"web","servicePort":80}]}}`,
	}
	backend := next.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	backend.Name, backend.Port = "all", networkingv1.ServiceBackendPort{Name: "use-annotation"}
	w.runAs("user", func() error { return w.store.update(next) })
}

// withoutObject plays one ending without one object, in a copy of the world.
func withoutObject(t *testing.T, from *world, a absentObject, f endingCase, late bool) {
	t.Helper()
	c := from.check.fork()
	e := &releaseEnd{world: from.fork(silentObserver{}, c), name: f.name + " without " + a.name}
	take := func() {
		a.remove(e.world)
		c.excusesPodFailures, c.excusesLostBatch = a.name != "nothing", a.name == "batchrelease" // deleting the BatchRelease loses requests
	}
	if !late {
		take()
	}
	f.begin(e)
	if late {
		e.round()
		e.now = e.now.Add(time.Second)
		e.name += ", late"
		take()
	}
	e.checkEnding(a, f)
	if len(c.broken) > 0 {
		t.Errorf("%s: %s", e.name, strings.Join(c.broken, "\n"))
	}
}

// checkEnding checks that the ending completed and left nothing behind.
func (e *releaseEnd) checkEnding(a absentObject, f endingCase) {
	if !e.settle() {
		return
	}
	e.checkNoMissingService()
	if a.name == stableSet && (f.name == "abort" || f.name == "rollback") {
		if f.phase = rollouts.PhaseHealthy; !e.setEarlierTemplate() {
			return
		}
	}
	r := e.rollout()
	switch {
	case r == nil && f.phase == "" || a.name == "workload":
		return
	case r == nil || r.Status.Phase != f.phase:
		e.check.violate("ends", "%s: the rollout is %v", e.name, headOf(r.Status))
	case f.tag != "":
		e.checkAllPodsRun("ends", f.tag)
		e.checkCommandOutcomes()
	case e.wantedRevision(e.workload()) != r.Status.Active().UpdateRevision:
		e.check.violate("ends", "%s: the release is still that of %s", e.name, r.Status.Active().UpdateRevision)
	}
}

// setEarlierTemplate restores the earlier template, because no stable set is left. It reports
// whether the Rollout asked for this before and the world came to rest afterwards.
func (e *releaseEnd) setEarlierTemplate() bool {
	c := e.rollout().Status.Condition(rollouts.ConditionStalled)
	if c == nil || c.Reason != string(rollouts.StalledStableGone) {
		e.check.violate("ends", "%s: the rollout is %s, %s", e.name, headOf(e.rollout().Status), e.rollout().Status.Message)
		return false
	}
	e.updateWorkload(app0, setImage("v1"))
	return e.settle()
}

// checkNoMissingService checks that no requests go to a missing Service, and that no canary objects
// remain.
func (e *releaseEnd) checkNoMissingService() {
	for _, target := range e.check.listRouteTargets() {
		if target.able == 0 {
			e.check.violate("ends", "%s: %s", e.name, target.what)
		}
	}
	if f := e.rollout(); f != nil && f.Status.Phase == rollouts.PhaseProgressing && f.Status.Activity() != rollouts.ActivityAborted {
		return
	}
	for _, k := range []key{{kindService, canaryName(app0)}, {kindIngress, canaryName(app0)}} {
		if e.store.objects[k] != nil {
			e.check.violate("ends", "%s: %s %s is left", e.name, k.kind, k.name)
		}
	}
}
