// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
)

const refusedKey = group + "/refused"

// beforeRolloutCells write on a workload that no Rollout references yet, which admission does not
// check.
var beforeRolloutCells = []cell{
	{who: patcher, what: ship, how: "writes Weir's refusal annotation before the Rollout exists", admission: true, scenario: scenario{at: withoutRollout},
		attack: createsRolloutBetween(change{annotations: object{refusedKey: "no"}}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes Weir's refusal annotation on a StatefulSet that becomes unsupported", admission: true, scenario: scenario{kind: statefulSets, at: withoutRollout},
		attack: createsRolloutBetween(change{annotations: object{refusedKey: "no"}}, change{version: "v2", spec: updateStrategy("OnDelete")}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a Deployment before the Rollout exists", admission: true, scenario: scenario{at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(nil), change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a paused Deployment before the Rollout exists", admission: true, scenario: scenario{at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(pausedAndRecreate), change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a Deployment before a canary Rollout exists", admission: true, scenario: scenario{canary: true, at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(nil), change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a Deployment before a blue-green Rollout exists", admission: true, scenario: scenario{blueGreen: true, at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(nil), change{version: "v2"}), expect: holdsBlueGreen},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a StatefulSet before the Rollout exists", admission: true, scenario: scenario{kind: statefulSets, at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(nil), change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "writes all of Weir's keys on a DaemonSet before the Rollout exists", admission: true, scenario: scenario{kind: daemonSets, at: withoutRollout},
		attack: createsRolloutBetween(allWeirKeys(nil), change{version: "v2"}), expect: gateHolds},
}

// allWeirKeys sets every annotation and label that Weir uses, with values that would release a
// version.
func allWeirKeys(spec object) change {
	return change{
		spec: spec,
		annotations: object{
			inProgress: `{"rolloutName":"web"}`, controlInfo: "{}", strategyAnnotation: fullPartition[strategyAnnotation], originalStrategyAnnotation: `{"type":"RollingUpdate"}`,
			wantedSpec: `{"partition":0}`, extraStatus: `{"updatedReadyReplicas":3}`, refusedKey: "no", rolloutID: "7",
			group + "/hash": "x", group + "/rollback-in-batch": "true", group + "/rolling-style": "canary", group + "/trafficrouting": "web",
			group + "/original-spec-configuration": "{}", group + "/routed": `{"weight":100}`, group + "/routed-by": "x",
		},
		labels: object{
			group + "/controlled-by-advanced-deployment-controller": "true", canaryOf: "other", rolloutID: "7", group + "/rollout-batch-id": "1",
			group + "/index": "true", group + "/rollout-name": "web", group + "/release-number": "1", workloadType: "other",
		},
	}
}

// releaseOnlyKeys are keys that a workload only has during a release.
var releaseOnlyKeys = words(inProgress, controlInfo, strategyAnnotation, originalStrategyAnnotation, wantedSpec, extraStatus, refusedKey, stableLabel, group+"/controlled-by-advanced-deployment-controller")

// createsRolloutBetween changes a workload, creates a Rollout for it, and changes it again. The
// hash of the new revision comes from a copy of the workload.
func createsRolloutBetween(before, after change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if len(before.labels) > 0 {
			before.labels[stableLabel] = a.revisionInCopy("v2")
		}
		a.attackWith(u, patch(a.path(), before.body()))
		a.attackWith(u, patch(a.path()+"/status", change{annotations: before.annotations, labels: before.labels}.body()))
		a.create(a.rollout())
		a.eventually("the Rollout is Healthy", a.isHealthy)
		a.eventually("no key of a release is left", a.hasNoReleaseKeys)
		a.attackWith(u, patch(a.path(), after.body()))
	}
}

// holdsBlueGreen ends the release before another one, because blue-green refuses a third template.
func holdsBlueGreen(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.checkNoLateHold()
	a.atMost(1, "v2")
	releaseCompletes(a)
	a.checkNextRelease()
}

// hasNoReleaseKeys returns an error if the workload has keys of a release.
func (a *app) hasNoReleaseKeys(ctx context.Context) error {
	o, _, err := a.liveWorkload(ctx)
	for _, key := range releaseOnlyKeys {
		if value := o.GetAnnotations()[key] + o.GetLabels()[key]; value != "" {
			err = errors.Join(err, fmt.Errorf("%s is %s", key, value))
		}
	}
	return err
}
