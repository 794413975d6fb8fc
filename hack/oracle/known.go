// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "regexp"

// known is an intended difference.
type known struct {
	class class
	// in, how and at select differences. in and at are regular expressions. An empty field matches
	// every difference.
	in, how, at string
	reason      string
}

// class is a section of docs/compatibility.md.
type class string

const (
	byServer   class = "written by the server"     // Weir's server writes it; OpenKruise's controller writes it later
	conversion class = "conversion"                // OpenKruise's conversion webhook does it, too
	webhook    class = "refused by the webhook"    // OpenKruise's validating webhook refuses it, too
	stricter   class = "stricter"                  // OpenKruise accepts it, but cannot carry it out
	lenient    class = "more lenient"              // a CRD refuses it, and Weir accepts it
	typed      class = "types instead of a schema" // a server with Go types differs from one with a schema
	more       class = "more"                      // only Weir has it
	unowned    class = "managed fields"            // managed fields of objects that no client applies
)

func (k *known) matches(d difference) bool {
	return (k.how == "" || k.how == d.how) && matches(k.in, d.in) && matches(k.at, d.at)
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile(pattern).MatchString(text)
}

// table has all known differences. A difference counts for the first row that matches.
var table = []known{
	{
		class: byServer, in: `^rollout-v1(alpha|beta)1/a deletion: [23] `,
		reason: "a Rollout has its finalizer from the beginning, so a deletion waits for the controller",
	},
	{class: byServer, how: added, at: `\.metadata\.finalizers\[\d+\]$`, reason: "the finalizer rollouts.kruise.io/rollout"},
	{class: byServer, how: added, at: `\.metadata\.annotations\.rollouts\.kruise\.io/hash$`, reason: "the annotation rollouts.kruise.io/hash"},
	{
		class: byServer, in: `^rollout-v1beta1/generation by metadata: `, how: dropped, at: `f:metadata\.f:annotations\.\.$`,
		reason: "the server has added annotations before the first manager adds one",
	},
	{class: byServer, in: `^rollout-.* table$`, how: changed, at: `\.rows\[\d+\]\.cells\[1\]$`, reason: "a new Rollout has a phase, so its row shows one"},
	{
		class: more, in: `^rollout-v1beta1/an approval: [34] `,
		reason: "a write of StepReady is an approval, and the status records it with its author",
	},
	{
		class: typed, in: `^rollout-v1beta1/the mirror of the step: 2 `,
		reason: "status.currentStepIndex and currentStepState repeat the sub-status, whatever a client writes",
	},
	{
		class: typed, in: `^rollout-v1beta1/(a status of blue-green|webhook: the workload changes)`, how: changed, at: `\.status\.currentStep(Index|State)$`,
		reason: "status.currentStepIndex and currentStepState are zero without a step in the sub-status",
	},
	{
		class: typed, in: `^(rollout-v1beta1|batchrelease-v1(alpha|beta)1)/a status with zeros: 2 |^rollouthistory/zero: a status: 2 `,
		reason: "a zero in a status is omitted or present as with OpenKruise's Go types",
	},
	{
		class: typed, how: added, at: `(\.status|f:status)\.(f:)?canaryStatus\.(f:)?currentBatch$|f:canaryStatus\.\.$`,
		reason: "status.canaryStatus of a BatchRelease is always present, with the number of its batch",
	},
	{
		class: typed, how: added, at: `(\.status|f:status)\.(f:)?blueGreenStatus\.(f:)?currentStepIndex$`,
		reason: "status.blueGreenStatus always has the number of its step",
	},
	{
		class: byServer, in: `^(rollout-|corpus/)`, how: added, at: `\.status\.(phase|conditions\[0\]\.\w+|canaryStatus\.\w+|currentStepIndex|currentStepState)$`,
		reason: "the first status: phase Initial, condition Reconciling, and the canaryStatus that Argo CD reads",
	},
	{
		class: byServer, in: `^rollout-`, how: dropped, at: `\.managedFields\[[^]]* status\]\.(fieldsV1\.f:status\..*|fieldsType|apiVersion|manager|operation|subresource)$`,
		reason: "a client that writes an unchanged value into the status does not own the field",
	},
	{
		class: conversion, how: added, at: `\.metadata\.annotations\.rollouts\.kruise\.io/rolling-style$|f:metadata\.f:annotations(\.\.|\.f:rollouts\.kruise\.io/rolling-style)$`,
		reason: "in v1alpha1 the style is an annotation, which conversion adds if it is absent",
	},
	{
		class: conversion, how: added, at: `\.spec\.strategy\.canary\.steps\[\d+\]\.replicas$`,
		reason: "in v1alpha1 a step with a weight and without replicas gets replicas of this percentage",
	},
	{class: conversion, how: dropped, at: `\.spec\.rolloutID$`, reason: "spec.rolloutID of v1alpha1 has no effect and is not stored"},
	{
		class: conversion, in: `sparse \?force=true|: 5 get`, at: `managedFields\[oracle Update rollouts\.kruise\.io/v1alpha1 <nil>\]\.fieldsV1\.f:spec\.f:strategy\.f:canary`,
		reason: "the stored steps have replicas and the applied ones do not, so a forced apply takes the fields over",
	},
	{
		class: typed, in: `^batchrelease-v1beta1/strings that are empty: `, how: dropped, at: `releasePlan\.(f:)?(finalizingPolicy|rollingStyle|rolloutID)$`,
		reason: "empty strings in the plan of a BatchRelease are omitted",
	},
	{
		class: typed, in: `^rollouthistory/an empty spec: `, how: dropped,
		reason: "an empty spec of a RolloutHistory is omitted",
	},
	{class: typed, at: `\.columnDefinitions\[\d\]\.description$`, how: changed, reason: "the descriptions of columns differ"},
	{class: more, how: added, at: `\.columnDefinitions\[([6-9]|1[0-3])\]\.|\.rows\[\d+\]\.cells\[([6-9]|1[0-3])\]$`, reason: "the columns STATE and VERSIONS, and WAITING-FOR, SINCE, STEP, NEW, TRAFFIC and BY of wide output"},
	{
		class: typed, in: `^batchrelease-v1beta1/plain: 5 table`, how: changed, at: `\.cells\[1\]$`,
		reason: "the column KIND of a BatchRelease has a value in v1beta1, where the path of the CRD's column matches no field",
	},
	{class: typed, in: `/a finalizer that is none: `, at: `^warning .*finalizers`, reason: "the texts of warnings differ"},
	{class: more, how: added, at: `^warning .*few pods`, reason: "a warning about a partition that leaves few pods for the traffic"},
	{class: more, how: added, at: `^warning .*the step will not start`, reason: "a warning about a match that a router of the plan cannot express"},
	{class: more, how: added, at: `^warning .*no requests are routed, because`, reason: "a warning about a step with matches in a plan without a router"},
	{class: more, how: added, at: `^warning .*there is no `, reason: "a warning about a workload, Service or route that does not exist yet"},

	{class: webhook, in: `/webhook: two Rollouts of a workload: 2 `, at: `^code$`, reason: "a second Rollout of a workload: 409, which names the first"},
	{class: webhook, in: `/webhook: `, at: `^code$`, reason: "a violation of a rule between fields: 422, which names the field and the correction"},
	{class: webhook, in: `/no spec: 1 `, at: `^code$`, reason: "an object without a spec"},
	{class: stricter, in: `/stricter: a pause of less than nothing: `, at: `^code$`, reason: "a negative pause"},
	{class: stricter, in: `/stricter: a threshold of no sense: `, at: `^code$`, reason: "a failureThreshold that is neither a number nor a percentage"},
	{class: stricter, in: `/stricter: (a service|an apiVersion)`, at: `^code$`, reason: "invalid names and API versions"},
	{class: stricter, in: `/stricter: labels that pods cannot have: `, at: `^code$`, reason: "labels and annotations that are invalid for pods"},
	{class: stricter, in: `^batchrelease-.*/stricter: `, at: `^code$`, reason: "a BatchRelease without a workload, or with an invalid style, policy, partition or batch"},
	{class: stricter, in: `^trafficrouting/stricter: `, at: `^code$`, reason: "a TrafficRouting without a route, a weight outside 0 to 100, a negative grace period"},
	{class: stricter, in: `/a state that is none: 2 `, at: `^code$`, reason: "an invalid currentStepState"},
	{
		class: lenient, in: `/required: |/no plan: |/no strategy: |/a status without what is required: |^corpus/batchrelease--`, at: `^code$`,
		reason: "a missing required field whose zero value is valid",
	},
	{class: lenient, in: `/a strategic merge patch: 2 `, at: `^code$`, reason: "a strategic merge patch, which a CRD refuses with 415"},
	{
		class: unowned, in: `^(batchrelease|rollouthistory)`, how: dropped,
		at:     `\.managedFields\[oracle Update rollouts\.kruise\.io/v1(alpha|beta)1 (<nil>|status)\]\.`,
		reason: "BatchReleases and RolloutHistories have managed fields from their first server-side apply on",
	},
	{class: typed, in: `/type: |/another kind: `, at: `^code$`, reason: "a wrong JSON type or a wrong kind: 400 instead of 422"},
}
