// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// moment is a stage of a release and how a test gets there.
type moment struct {
	plan  func(*plan)
	reach func(*app)
}

// moments are the stages at which a release can be aborted. What makes one last
// long enough is a grace period, or something that it waits for in vain.
var moments = map[string]moment{
	"waiting for a Service": {
		reach: func(a *app) {
			a.t.Helper()
			a.edit(`{"spec":{"strategy":{"canary":{"trafficRoutings":[{"service":"other","ingress":{"name":"other"},"gracePeriodSeconds":1}]}}}}`)
			a.release("v2")
			a.until("it waits for the Service", a.doing("Initializing"))
		},
	},
	"pinning the Service": {
		plan: func(p *plan) { p.grace = 30 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 begins", a.at(1, "BeforeStepUpgrade"))
		},
	},
	"upgrading step 1": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("failed")
			a.until("step 1 waits for pods", a.at(1, "StepUpgrade"))
		},
	},
	"routing step 1": {
		plan: func(p *plan) { p.grace = 3 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 is being routed", a.at(1, "StepTrafficRouting"))
		},
	},
	"waiting at step 1": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
		},
	},
	"just promoted": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.promote(1)
		},
	},
	"waiting at step 2": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.promote(1)
			a.until("step 2 waits", a.waitsAt(2))
		},
	},
	"paused": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.edit(`{"spec":{"strategy":{"paused":true}}}`)
			a.until("it is paused", a.doing("Paused"))
			a.post(here.admin, "promote", "", http.StatusConflict, "paused")
		},
	},
	"waiting at 100 %": {
		plan: func(p *plan) { p.steps[2] = with(manual("6"), "100%") },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.promote(1)
			a.until("step 2 waits", a.waitsAt(2))
			a.promote(2)
			a.until("step 3 waits", a.waitsAt(3))
			a.until("the last pods of v1 are gone", a.runs(versions{"v2": 6}))
		},
	},
	"finalising": {
		plan: func(p *plan) { p.grace = 3 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.promoteAll()
			a.until("it is finalising", a.doing("Finalising"))
		},
	},
}

// An abort brings the stable version back from every stage, with its traffic,
// and costs no availability.
func TestAbort(t *testing.T) {
	t.Parallel()
	for _, name := range some(moments, "upgrading step 1", "waiting at step 2", "paused") {
		at := moments[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := usual()
			if at.plan != nil {
				at.plan(&p)
			}
			a := start(t, p)
			at.reach(a)
			a.abort()
			a.isBack("v1")
			for _, version := range []string{"v2", "failed"} {
				a.guard.atMost(version, 0)
			}
			a.post(here.admin, "promote", "", http.StatusConflict, "aborted by admin")
			a.post(here.admin, "abort", "", http.StatusCreated)
			a.stays("it stays aborted", a.isAborted)
			a.edit(`{"spec":{"strategy":{"paused":false}}}`)
			a.cancel("v1")
		})
	}
}

// An abort that comes the moment the first batch is asked for is not over before
// the batch has begun.
func TestAbortTheMomentItUpgrades(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	for round := range few(3, 20) {
		version := fmt.Sprintf("v%d", round+2)
		events, err := here.client.Watch(t.Context(), &v1beta1.RolloutList{}, client.InNamespace(a.namespace))
		if err != nil {
			t.Fatal(err)
		}
		a.release(version)
		for e := range events.ResultChan() {
			if r, ok := e.Object.(*v1beta1.Rollout); ok && reason(r) == "InRolling" && r.Status.Canary.State == "StepUpgrade" {
				break
			}
		}
		events.Stop()
		a.abort()
		a.isBack("v1")
		a.guard.atMost(version, 0)
	}
	a.stays("it stays so", a.runs(versions{"v1": 6}))
	a.cancel("v1")
}

// After an abort a new version begins at step 1.
func TestReleaseAfterAbort(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.abort()
	a.isBack("v1")
	a.guard.atMost("v2", 0)
	a.release("v3")
	a.until("step 1 waits", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"v1": 4, "v3": 2}))
	a.sees(a.weight("20"))
	a.promoteAll()
	a.until("the Rollout is Healthy", a.healthy)
	a.until("its pods are there", a.runs(versions{"v3": 6}))
	a.traceless(workloadType)
}

// A newer version takes the place of one that is being released.
func TestSupersede(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.release("v3")
	a.until("v3 waits at step 1", a.runs(versions{"v1": 4, "v3": 2}))
	a.until("step 1 waits", a.waitsAt(1))
	a.sees(a.serves(name, versions{"v1": 4}))
	a.cancel("v1")
}

// A Rollout that is deleted or disabled while its release is aborted gives the
// Deployment back paused: an aborted version is not released by leaving.
func TestLeaveAborted(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*app){
		"delete": func(a *app) {
			a.t.Helper()
			here.admin.kubectl(a, "delete", "rollout", "web").works()
		},
		"disable": func(a *app) {
			a.t.Helper()
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("the Rollout is disabled", a.disabled)
		},
	}
	for _, verb := range some(ways, "delete") {
		leave := ways[verb]
		for _, when := range []string{"aborted", "aborting"} {
			t.Run(verb+" "+when, func(t *testing.T) {
				t.Parallel()
				a := start(t, usual())
				a.release("v2")
				a.until("step 1 waits", a.waitsAt(1))
				a.post(here.admin, "abort", "", http.StatusCreated)
				if when == "aborted" {
					a.until("the release is aborted", a.isAborted)
				}
				leave(a)
				a.until("all pods run v1", a.runs(versions{"v1": 6}))
				a.guard.atMost("v2", 0)
				a.sees(a.held)
				a.stays("v2 is not released", a.runs(versions{"v1": 6}))
				a.sees(a.serves(name, versions{"v1": 6}))
				a.before.deployment.Spec.Paused = true
				a.traceless()
			})
		}
	}
}

// A Rollout that is deleted mid-release lets the Deployment go on natively.
func TestDeleteMidRelease(t *testing.T) {
	t.Parallel()
	for _, name := range some(moments, "routing step 1") {
		at := moments[name]
		if name == "upgrading step 1" || name == "waiting for a Service" {
			continue // pods that cannot be, or a plan that cannot begin
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := usual()
			if at.plan != nil {
				at.plan(&p)
			}
			p.grace = min(p.grace, 3)
			a := start(t, p)
			at.reach(a)
			here.admin.kubectl(a, "delete", "rollout", "web").works()
			a.until("all pods run v2", a.runs(versions{"v2": 6}))
			a.until("the Service selects them", a.serves("web", versions{"v2": 6}))
			a.traceless()
		})
	}
}

// A plan may change while a step waits.
func TestEditPlan(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.edit(`{"spec":{"strategy":{"canary":{"steps":[{"replicas":3},{"replicas":4},{"replicas":"100%"}]}}}}`)
	a.until("step 1 has 3 pods", a.runs(versions{"v1": 3, "v2": 3}))
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.until("its pods are there", a.runs(versions{"v1": 2, "v2": 4}))
	a.sees(func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && r.Status.Phase != v1beta1.PhaseProgressing {
			err = fmt.Errorf("phase %s", r.Status.Phase)
		}
		return err
	})
}
