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

// abortStage is a stage of a release, and how a test reaches it.
type abortStage struct {
	plan  func(*plan)
	reach func(*app)
}

// abortStages are the stages at which a release can be aborted. A grace period, or a missing object
// that the release waits for, makes a stage last long enough.
var abortStages = map[string]abortStage{
	"waiting for a Service": {
		reach: func(a *app) {
			a.t.Helper()
			a.patchRollout(`{"spec":{"strategy":{"canary":{"trafficRoutings":[{"service":"other","ingress":{"name":"other"},"gracePeriodSeconds":1}]}}}}`)
			a.release("v2")
			a.eventually("the release waits for the Service", a.hasProgressingReason("Initializing"))
		},
	},
	"pinning the Service": {
		plan: func(p *plan) { p.grace = 30 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 begins", a.isAtStage(1, "BeforeStepUpgrade"))
		},
	},
	"upgrading step 1": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("failed")
			a.eventually("step 1 waits for pods", a.isAtStage(1, "StepUpgrade"))
		},
	},
	"routing step 1": {
		plan: func(p *plan) { p.grace = 3 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 is being routed", a.isAtStage(1, "StepTrafficRouting"))
		},
	},
	"waiting at step 1": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
		},
	},
	"just promoted": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
		},
	},
	"waiting at step 2": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
			a.eventually("step 2 waits", a.waitsAtStep(2))
		},
	},
	"paused": {
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.patchRollout(`{"spec":{"strategy":{"paused":true}}}`)
			a.eventually("the release is paused", a.hasProgressingReason("Paused"))
			a.post(testEnv.admin, "promote", "", http.StatusConflict, "paused")
		},
	},
	"waiting at 100 %": {
		plan: func(p *plan) { p.steps[2] = withTraffic(manualStep("6"), "100%") },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.promote(2)
			a.eventually("step 3 waits", a.waitsAtStep(3))
			a.eventually("the last pods of v1 are gone", a.runs(versions{"v2": 6}))
		},
	},
	"finalising": {
		plan: func(p *plan) { p.grace = 3 },
		reach: func(a *app) {
			a.t.Helper()
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promoteAll()
			a.eventually("the release is finalising", a.hasProgressingReason("Finalising"))
		},
	},
}

// TestAbort aborts a release at every stage. The stable version must get all pods and all traffic
// again, without loss of availability.
func TestAbort(t *testing.T) {
	t.Parallel()
	for _, name := range selectCases(abortStages, "upgrading step 1", "waiting at step 2", "paused") {
		at := abortStages[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := defaultPlan()
			if at.plan != nil {
				at.plan(&p)
			}
			a := start(t, p)
			at.reach(a)
			a.abort()
			a.checkAborted("v1")
			for _, version := range []string{"v2", "failed"} {
				a.guard.atMost(version, 0)
			}
			a.post(testEnv.admin, "promote", "", http.StatusConflict, "aborted by admin")
			a.post(testEnv.admin, "abort", "", http.StatusCreated)
			a.consistently("the release stays aborted", a.isAborted)
			a.patchRollout(`{"spec":{"strategy":{"paused":false}}}`)
			a.cancel("v1")
		})
	}
}

// TestAbortWhenBatchStarts aborts at the moment at which the first batch is requested. The abort
// must not complete before the batch has been observed.
func TestAbortWhenBatchStarts(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	for round := range shortOrFull(3, 20) {
		version := fmt.Sprintf("v%d", round+2)
		events, err := testEnv.client.Watch(t.Context(), &v1beta1.RolloutList{}, client.InNamespace(a.namespace))
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
		a.checkAborted("v1")
		a.guard.atMost(version, 0)
	}
	a.consistently("the release stays aborted", a.runs(versions{"v1": 6}))
	a.cancel("v1")
}

// TestReleaseAfterAbort sets a new version after an abort. Its release begins at step 1.
func TestReleaseAfterAbort(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.abort()
	a.checkAborted("v1")
	a.guard.atMost("v2", 0)
	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 4, "v3": 2}))
	a.checkNow(a.hasCanaryWeight("20"))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the pods of the step run", a.runs(versions{"v3": 6}))
	a.checkRestored(workloadTypeLabel)
}

// TestSupersede sets a newer version during a release. The newer version replaces the one that is
// being released.
func TestSupersede(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.release("v3")
	a.eventually("v3 waits at step 1", a.runs(versions{"v1": 4, "v3": 2}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.serviceSelects(name, versions{"v1": 4}))
	a.cancel("v1")
}

// TestDeleteOrDisableAborted deletes or disables a Rollout whose release is aborted. The Deployment
// stays paused, so that the aborted version is not released.
func TestDeleteOrDisableAborted(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*app){
		"delete": func(a *app) {
			a.t.Helper()
			testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed()
		},
		"disable": func(a *app) {
			a.t.Helper()
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
		},
	}
	for _, verb := range selectCases(ways, "delete") {
		leave := ways[verb]
		for _, when := range []string{"aborted", "aborting"} {
			t.Run(verb+" "+when, func(t *testing.T) {
				t.Parallel()
				a := start(t, defaultPlan())
				a.release("v2")
				a.eventually("step 1 waits", a.waitsAtStep(1))
				a.post(testEnv.admin, "abort", "", http.StatusCreated)
				if when == "aborted" {
					a.eventually("the release is aborted", a.isAborted)
				}
				leave(a)
				a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
				a.guard.atMost("v2", 0)
				a.checkNow(a.isHeld)
				a.consistently("v2 is not released", a.runs(versions{"v1": 6}))
				a.checkNow(a.serviceSelects(name, versions{"v1": 6}))
				a.before.deployment.Spec.Paused = true
				a.checkRestored()
			})
		}
	}
}

// TestDeleteMidRelease deletes a Rollout during a release. The native controller completes the
// rolling update.
func TestDeleteMidRelease(t *testing.T) {
	t.Parallel()
	for _, name := range selectCases(abortStages, "routing step 1") {
		at := abortStages[name]
		if name == "upgrading step 1" || name == "waiting for a Service" {
			continue // pods that cannot start, or a release that cannot begin
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := defaultPlan()
			if at.plan != nil {
				at.plan(&p)
			}
			p.grace = min(p.grace, 3)
			a := start(t, p)
			at.reach(a)
			testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed()
			a.eventually("all pods run v2", a.runs(versions{"v2": 6}))
			a.eventually("the Service selects them", a.serviceSelects("web", versions{"v2": 6}))
			a.checkRestored()
		})
	}
}

// TestEditPlan changes the steps while a step is paused.
func TestEditPlan(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.patchRollout(`{"spec":{"strategy":{"canary":{"steps":[{"replicas":3},{"replicas":4},{"replicas":"100%"}]}}}}`)
	a.eventually("step 1 has 3 pods", a.runs(versions{"v1": 3, "v2": 3}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 2, "v2": 4}))
	a.checkNow(func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Phase != v1beta1.PhaseProgressing {
			err = fmt.Errorf("phase %s", r.Status.Phase)
		}
		return err
	})
}
