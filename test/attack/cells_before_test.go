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

// beforeCells write on a workload that no Rollout names yet, where no door looks.
var beforeCells = []cell{
	{who: patcher, what: ship, how: "words of a refusal before the Rollout is made", doors: true, on: scene{at: unnamed},
		do: isNamedLater(change{annotations: object{refusedKey: "no"}}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "words of a refusal on a StatefulSet, which becomes unfit", doors: true, on: scene{kind: statefulSets, at: unnamed},
		do: isNamedLater(change{annotations: object{refusedKey: "no"}}, change{version: "v2", spec: updated("OnDelete")}), expect: gated},
	{who: patcher, what: ship, how: "every key on a Deployment before the Rollout is made", doors: true, on: scene{at: unnamed},
		do: isNamedLater(everyKey(nil), change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "every key on a paused Deployment before the Rollout is made", doors: true, on: scene{at: unnamed},
		do: isNamedLater(everyKey(pausedToo), change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "every key on a Deployment before an extra one is made", doors: true, on: scene{beside: true, at: unnamed},
		do: isNamedLater(everyKey(nil), change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "every key on a Deployment before a blue-green Rollout is made", doors: true, on: scene{green: true, at: unnamed},
		do: isNamedLater(everyKey(nil), change{version: "v2"}), expect: gatedGreen},
	{who: patcher, what: ship, how: "every key on a StatefulSet before the Rollout is made", doors: true, on: scene{kind: statefulSets, at: unnamed},
		do: isNamedLater(everyKey(nil), change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "every key on a DaemonSet before the Rollout is made", doors: true, on: scene{kind: daemonSets, at: unnamed},
		do: isNamedLater(everyKey(nil), change{version: "v2"}), expect: gated},
}

// everyKey are all that Weir writes somewhere, as they would have a version released.
func everyKey(spec object) change {
	return change{
		spec: spec,
		annotations: object{
			inProgress: `{"rolloutName":"web"}`, controlInfo: "{}", driving: allOfThem[driving], original: `{"type":"RollingUpdate"}`,
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

// lasting are keys that say something of a workload only while it is released.
var lasting = words(inProgress, controlInfo, driving, original, wantedSpec, extraStatus, refusedKey, stableLabel, group+"/controlled-by-advanced-deployment-controller")

// isNamedLater has a Rollout made of a workload that has been changed, and changes it again.
// The name of the new revision is learnt from a copy.
func isNamedLater(before, after change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if len(before.labels) > 0 {
			before.labels[stableLabel] = a.learns("v2")
		}
		a.tries(u, patch(a.path(), before.body()))
		a.tries(u, patch(a.path()+"/status", change{annotations: before.annotations, labels: before.labels}.body()))
		a.create(a.rollout())
		a.until("the Rollout is Healthy", a.healthy)
		a.until("no key says what is not so", a.unsaid)
		a.tries(u, patch(a.path(), after.body()))
	}
}

// gatedGreen ends the release before another one, which blue-green has no room for.
func gatedGreen(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.until("the attack is over", a.rests)
	a.inTime()
	a.atMost(1, "v2")
	finished(a)
	a.goesOn()
}

// unsaid wants none of the keys of a release to be on the workload.
func (a *app) unsaid(ctx context.Context) error {
	o, _, err := a.live(ctx)
	for _, key := range lasting {
		if value := o.GetAnnotations()[key] + o.GetLabels()[key]; value != "" {
			err = errors.Join(err, fmt.Errorf("%s is %s", key, value))
		}
	}
	return err
}
