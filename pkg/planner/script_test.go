// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// command is one line of a script with the indented lines after it.
type command struct {
	words []string
	more  [][]string
}

// verbs are the commands of the stories.
var verbs = map[string]func(*story, command){
	// Commands that create objects.
	"deployment":  (*story).deployment,  // web replicas=6 image=v1 surge=25% unavailable=25% history=10 [recreate]
	"statefulset": (*story).statefulSet, // web replicas=6 image=v1 [parallel] [maxUnavailable=2] [ondelete] [history=10]
	"daemonset":   (*story).daemonSet,   // web nodes=6 image=v1 [maxUnavailable=2] [ondelete] [history=10]
	"cloneset":    (*story).cloneSet,    // web replicas=6 image=v1 [maxUnavailable=2] [history=10]
	"autoscaler":  (*story).autoscaler,  // web: scales the workload of that name
	"service":     func(s *story, c command) { s.w.createService(c.words[1]) },
	"ingress":     func(s *story, c command) { s.w.createIngress(c.words[1], c.get("service", c.words[1])) },
	"route":       (*story).route,   // httproute|virtualservice web
	"routing":     (*story).routeBy, // web [service=web] [weight=20] [grace=3s] [by=httproute], a TrafficRouting
	"rollout":     (*story).rollout, // web [canary|bluegreen] [traffic] [by=httproute] [grace=3s] [deadline=600s] [threshold=20%], then steps: step 20% [traffic=20%] [match=/v2] [pause=60s]
	// Commands that users run.
	"update":   (*story).update, // web [image=v2] [id=1] [replicas=6] [history=10] [marked]; marked: the client also writes the mark of a release
	"apply":    (*story).apply,
	"forge":    (*story).forge,  // web [image=v2] [held] [stable=v2] [drive=100%] [bare]: writes keys of Weir while admission is not reachable
	"status":   (*story).status, // web [current=v2] [update=v1] [nodes=0]: the status of a set, until its controller writes the status again
	"extra":    (*story).extra,  // [image=v3] [replicas=5] [paused] [drive=100%] [orphan]: a user edits the canary Deployment
	"rival":    (*story).rival,  // web image=v2: a Deployment of another owner has the name of the canary Deployment
	"tamper":   (*story).tamper, // v1 image=v9: a user changes the stored template of v1
	"sneak":    (*story).sneak,  // web [image=v2] [id=1] [marked] [bare]: an update that bypasses admission
	"scale":    (*story).scale,
	"join":     func(s *story, c command) { s.w.addNode(c.words[1]) }, // node-6
	"leave":    func(s *story, c command) { s.w.removeNode(c.words[1]) },
	"drive":    (*story).drive, // web partition=3 [paused] [image=v2], only by the annotation
	"promote":  func(s *story, c command) { s.decide(c, rollouts.VerbPromote, rollouts.ViaVerb) },
	"approve":  func(s *story, c command) { s.decide(c, rollouts.VerbPromote, rollouts.ViaStatus) },
	"abort":    func(s *story, c command) { s.decide(c, rollouts.VerbAbort, rollouts.ViaVerb) },
	"rollback": func(s *story, c command) { s.decide(c, rollouts.VerbRollback, rollouts.ViaVerb) },
	"retry":    func(s *story, c command) { s.decide(c, rollouts.VerbRetry, rollouts.ViaVerb) },
	"jump":     (*story).jump,                                                                     // to=2 [legacy]
	"pause":    func(s *story, c command) { s.freeze(c, rollouts.VerbPause, true) },               // [verb]
	"resume":   func(s *story, c command) { s.freeze(c, rollouts.VerbResume, false) },             // [verb]
	"annotate": func(s *story, c command) { s.w.annotateRollout(c.words[1], c.words[2], "true") }, // web rollback-in-batch
	"disable":  func(s *story, c command) { s.edit(c, func(r *rollouts.RolloutSpec) { r.Disabled = true }) },
	"point": func(s *story, c command) {
		s.edit(c, func(r *rollouts.RolloutSpec) { r.WorkloadRef.Name = c.words[2] })
	},
	"enable": func(s *story, c command) { s.edit(c, func(r *rollouts.RolloutSpec) { r.Disabled = false }) },
	"replan": func(s *story, c command) {
		s.edit(c, func(r *rollouts.RolloutSpec) { r.Strategy.Canary.Steps = s.steps(c) })
	},
	"checks": func(s *story, c command) { // web, then the analysis and its checks as in a plan; without them the analysis is removed
		s.edit(c, func(r *rollouts.RolloutSpec) { r.Strategy.Canary.Analysis = s.analysis(c) })
	},
	"reroute": (*story).reroute,                                                                // web weight=50, an edit of a TrafficRouting
	"own":     (*story).own,                                                                    // web apply|append [label=team]: the owner of a route has another rule
	"occupy":  (*story).occupy,                                                                 // service/web-canary|ingress/web-canary|httproute/web|batch/web: another Rollout owns the object
	"keep":    (*story).keep,                                                                   // batch/web|set/v1|extra/web [off]: a user adds or removes a finalizer
	"taken":   (*story).taken,                                                                  // service/web [free]: another Rollout acquires the object first, or releases it
	"select":  (*story).reselect,                                                               // web other|revision=v2: a user makes the Service select the pods of another application, or of a revision
	"garble":  (*story).garble,                                                                 // httproute/web garbled|chosen|off: a user changes or removes Weir's annotations on a route
	"gateway": (*story).say,                                                                    // web accepts|refuses|loses: a gateway reports the status of the route
	"delete":  (*story).remove,                                                                 // deployment/web [orphan]; orphan keeps its sets
	"export":  func(s *story, c command) { s.exported = appOf(s.w.store.objects, c.words[1]) }, // web as it is stored now
	"again":   (*story).again,                                                                  // web is deleted and created from the export
	"backup":  (*story).backup,                                                                 // the objects that weir-apiserver stores
	"restore": (*story).restore,                                                                // the backup; workloads, Services and routers stay as they are
	"remake":  (*story).remake,                                                                 // web [replicas=6] [image=v1] is deleted and created again immediately, like kubectl replace --force
	"force":   (*story).force,                                                                  // rollout/web, a deletion that removes the finalizers
	// Commands that cause faults.
	"crash":  (*story).crash,  // rollout|batch|sizes after=commit|before=commit [each]
	"fail":   (*story).fail,   // v2 pods=1
	"kill":   (*story).kill,   // v2 times=2
	"meddle": (*story).meddle, // web weight=99: a user edits the canary Ingress
	"strip":  (*story).strip,  // service/web-canary|ingress/web-canary [to=other]: a user removes or replaces the owner references
	"gitops": (*story).gitops, // service/web|httproute/web [every=1s] [times=20] [kept]: a GitOps tool applies the manifest repeatedly
	// Pods of a broken image run, but do not become ready until the image is mended.
	"break": func(s *story, c command) { s.w.store.unready[c.words[1]] = true },
	"mend":  func(s *story, c command) { delete(s.w.store.unready, c.words[1]) },
	"start": (*story).start, // v2: one pod becomes ready although the image is broken
	// lose deletes the sets or the ControllerRevision of an image. forget deletes the histories of
	// releases.
	"lose": func(s *story, c command) { // v1 [foreground]
		var first []string
		if c.has("foreground") {
			first = []string{metav1.FinalizerDeleteDependents}
		}
		s.w.deleteSets(func(rs *appsv1.ReplicaSet) bool { return imageOfSet(rs) == c.words[1] }, first...)
		s.w.deleteRevision(c.words[1])
	},
	"orphan":  (*story).orphan,  // v1 [labels]: a user removes the owner reference of a set, and with labels also the labels that the selector matches
	"relabel": (*story).relabel, // v2 as=v1: a user gives the set of v2 the hash label of the set of v1
	"forget":  func(s *story, _ command) { s.w.deleteHistories() },
	// Commands that set the data of metric sources.
	"requests":  (*story).requests,                                                      // new=100/3 old=900/1: all and failed requests in each window from now on
	"source":    (*story).source,                                                        // down|up|forgets|behind=40s
	"share":     (*story).share,                                                         // jvm successRate=95%|http=web [gate]: a Check that plans refer to by use=jvm
	"answer":    (*story).answer,                                                        // tickets good|bad|down|invalid for a Service; smoke good|bad|noimage for a job
	"yesterday": (*story).yesterday,                                                     // 1000 [bad=200] [noseries]: requests in each window of the last 24 hours, and failures in one hour
	"restart":   func(s *story, _ command) { s.w.measures.controllerStarted = s.w.now }, // the controller restarts and loses all answers
	// Commands that run controllers and advance the clock.
	"pass":    (*story).pass, // rollout|batch|sizes|kube|pods web: only this actor runs, once
	"settle":  func(s *story, _ command) { s.settle() },
	"advance": (*story).advance,
	"setback": func(s *story, c command) { s.w.setClockBack(s.duration(c.words[1])) }, // 1h: the clock is set back
	"show":    func(s *story, _ command) { s.t.show() },
	"explain": func(s *story, c command) { s.explain(c.words[1]) }, // the decision of the next pass over a Rollout, with reasons
	"labels":  func(s *story, _ command) { s.t.labels = true },     // show the labels of pods, also for releases without a name
	"history": func(s *story, _ command) { s.t.showHistories() },
	"spec":    (*story).spec, // web: the fields of the strategy that the owner and Weir write
}

func (c command) has(word string) bool { return slices.Contains(c.words[1:], word) }

func (c command) get(name, or string) string { return get(c.words, name, or) }

func get(words []string, name, or string) string {
	for _, w := range words {
		if value, ok := strings.CutPrefix(w, name+"="); ok {
			return value
		}
	}
	return or
}

func (s *story) number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		s.Fatal(err)
	}
	return int32(n)
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// deployment creates a Deployment that is one hour old and has all pods ready.
func (s *story) deployment(c command) {
	a := app{
		name: c.words[1], replicas: s.number(c.get("replicas", "6")), image: c.get("image", "v1"),
		surge: c.get("surge", "25%"), unavail: c.get("unavailable", "25%"), history: s.number(c.get("history", "10")),
		recreate: c.has("recreate"),
	}
	s.deploy(a)
}

// statefulSet creates a StatefulSet that is one hour old and has all pods ready.
func (s *story) statefulSet(c command) {
	s.deploy(app{
		kind: kindStatefulSet, name: c.words[1], replicas: s.number(c.get("replicas", "6")), image: c.get("image", "v1"),
		unavail: c.get("maxUnavailable", "1"), history: s.number(c.get("history", "10")), parallel: c.has("parallel"), onDelete: c.has("ondelete"),
	})
}

// daemonSet creates nodes and a DaemonSet with a ready pod on each.
func (s *story) daemonSet(c command) {
	for i := range s.number(c.get("nodes", "6")) {
		s.w.addNode(fmt.Sprintf("node-%d", i))
	}
	s.deploy(app{
		kind: kindDaemonSet, name: c.words[1], image: c.get("image", "v1"), unavail: c.get("maxUnavailable", "1"),
		history: s.number(c.get("history", "10")), onDelete: c.has("ondelete"),
	})
}

// cloneSet creates a CloneSet that is one hour old and has all pods ready.
func (s *story) cloneSet(c command) {
	s.deploy(app{
		kind: kindCloneSet, name: c.words[1], replicas: s.number(c.get("replicas", "6")), image: c.get("image", "v1"),
		unavail: c.get("maxUnavailable", "1"), history: s.number(c.get("history", "10")),
	})
}

func (s *story) deploy(a app) {
	now := s.w.now
	s.w.now, s.t.silent = now.Add(-time.Hour), true
	s.w.createWorkload(a)
	if _, ok := s.w.runUntilIdle(); !ok {
		s.Fatal("the workload does not come to rest")
	}
	s.w.now, s.t.silent = now, false
}

func (s *story) rollout(c command) {
	release := rollouts.Release{Steps: s.steps(c), ExtraWorkload: c.has("canary")}
	if c.has("traffic") {
		release.TrafficRoutings = routingBy(kindOf(c.get("by", "ingress")), c.words[1], s.duration(c.get("grace", "3s")))
	}
	if name := c.get("routing", ""); name != "" {
		release.TrafficRoutingRef = &name
	}
	release.DisableCanaryService = c.has("shared")
	if after := c.get("deadline", ""); after != "" {
		seconds := int32(s.duration(after) / time.Second)
		release.ProgressDeadlineSeconds = &seconds
	}
	if threshold := c.get("threshold", ""); threshold != "" {
		share := intstr.Parse(threshold)
		release.FailureThreshold = &share
	}
	release.Analysis = s.analysis(c)
	s.t.labels = s.t.labels || c.has("bluegreen") // the labels distinguish blue from green for clients
	s.w.createRollout(c.words[1], release, c.has("bluegreen"))
}

func (s *story) steps(c command) []rollouts.Step {
	var steps []rollouts.Step
	for _, words := range c.more {
		if words[0] != "step" {
			continue
		}
		pause := get(words, "pause", "")
		next := planStep(words[1], get(words, "traffic", ""), s.duration(cmp.Or(pause, "0")), pause != "")
		if path := get(words, "match", ""); path != "" {
			next.Matches = []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Value: &path}}}
		}
		steps = append(steps, next)
	}
	return steps
}
