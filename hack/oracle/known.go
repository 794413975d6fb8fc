// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
)

// known is a difference that is meant to be.
type known struct {
	class class
	// in, how and at say which differences these are; in and at are regular
	// expressions, and what is empty is any.
	in, how, at string
	reason      string
}

// class is a section of docs/compatibility.md.
type class string

const (
	// byServer: Weir's server writes what OpenKruise's controller writes later.
	byServer class = "written by the server"
	// conversion: what OpenKruise's webhook does on the way between versions.
	conversion class = "conversion"
	// webhook: what OpenKruise's webhook refuses, too.
	webhook class = "refused by the webhook"
	// stricter: what OpenKruise accepts and can never carry out.
	stricter class = "stricter"
	// lenient: what a CRD refuses and Weir accepts.
	lenient class = "more lenient"
	// typed: how a server with types of its own differs from one with a schema.
	typed class = "types instead of a schema"
	// more: what Weir has and OpenKruise has not.
	more class = "more"
	// unowned: who wrote which field of what nobody applies.
	unowned class = "managed fields"
)

func (k *known) matches(d difference) bool {
	return (k.how == "" || k.how == d.how) && matches(k.in, d.in) && matches(k.at, d.at)
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile(pattern).MatchString(text)
}

// table is every known difference; the first row that matches counts.
var table = []known{
	{
		class: byServer, in: `^rollout-v1(alpha|beta)1/a deletion: [23] `,
		reason: "a Rollout has its finalizer from the beginning, so a deletion waits for the controller",
	},
	{class: byServer, how: added, at: `\.metadata\.finalizers\[\d+\]$`, reason: "the finalizer rollouts.kruise.io/rollout"},
	{class: byServer, how: added, at: `\.metadata\.annotations\.rollouts\.kruise\.io/hash$`, reason: "the annotation rollouts.kruise.io/hash"},
	{
		class: byServer, in: `^rollout-v1beta1/generation by metadata: `, how: dropped, at: `f:metadata\.f:annotations\.\.$`,
		reason: "there are annotations before the first manager adds one",
	},
	{class: byServer, in: `^rollout-.* table$`, how: changed, at: `\.rows\[\d+\]\.cells\[1\]$`, reason: "a new Rollout has a phase, which its row shows"},
	{
		class: more, in: `^rollout-v1beta1/an approval: [34] `,
		reason: "a write of StepReady is an approval, and on record with its author",
	},
	{
		class: typed, in: `^rollout-v1beta1/the mirror of the step: 2 `,
		reason: "status.currentStepIndex and currentStepState repeat the sub-status, whatever is written there",
	},
	{
		class: typed, in: `^rollout-v1beta1/(a status of blue-green|webhook: the workload changes)`, how: changed, at: `\.status\.currentStep(Index|State)$`,
		reason: "without a sub-status of its own step, they are zero",
	},
	{
		class: typed, in: `^(rollout-v1beta1|batchrelease-v1(alpha|beta)1)/a status with zeros: 2 |^rollouthistory/zero: a status: 2 `,
		reason: "a zero in a status is left out or written out as by OpenKruise's own types",
	},
	{
		class: typed, how: added, at: `(\.status|f:status)\.(f:)?canaryStatus\.(f:)?currentBatch$|f:canaryStatus\.\.$`,
		reason: "status.canaryStatus of a BatchRelease is always there, with the number of its batch",
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
		reason: "who writes a value into the status that it has already does not own the field",
	},
	{
		class: conversion, how: added, at: `\.metadata\.annotations\.rollouts\.kruise\.io/rolling-style$|f:metadata\.f:annotations(\.\.|\.f:rollouts\.kruise\.io/rolling-style)$`,
		reason: "in v1alpha1 the style is an annotation, which is written if it was not",
	},
	{
		class: conversion, how: added, at: `\.spec\.strategy\.canary\.steps\[\d+\]\.replicas$`,
		reason: "in v1alpha1 a step with a weight and no replicas gets as many percent of them",
	},
	{class: conversion, how: dropped, at: `\.spec\.rolloutID$`, reason: "spec.rolloutID of v1alpha1 decides nothing and is not stored"},
	{
		class: conversion, in: `sparse \?force=true|: 5 get`, at: `managedFields\[oracle Update rollouts\.kruise\.io/v1alpha1 <nil>\]\.fieldsV1\.f:spec\.f:strategy\.f:canary`,
		reason: "steps with replicas are other steps than the applied ones without, so whoever forces takes them over",
	},
	{
		class: typed, in: `^batchrelease-v1beta1/strings that are empty: `, how: dropped, at: `releasePlan\.(f:)?(finalizingPolicy|rollingStyle|rolloutID)$`,
		reason: "empty strings in a BatchRelease, which its controller writes, are left out",
	},
	{
		class: typed, in: `^rollouthistory/an empty spec: `, how: dropped,
		reason: "a spec of a RolloutHistory without anything in it is left out",
	},
	{class: typed, at: `\.columnDefinitions\[\d\]\.description$`, how: changed, reason: "columns are described in our own words"},
	{class: more, how: added, at: `\.columnDefinitions\[([6-9]|1[01])\]\.|\.rows\[\d+\]\.cells\[([6-9]|1[01])\]$`, reason: "the columns WAITING-FOR, SINCE, STEP, NEW, TRAFFIC and BY of wide output"},
	{
		class: typed, in: `^batchrelease-v1beta1/plain: 5 table`, how: changed, at: `\.cells\[1\]$`,
		reason: "KIND of a BatchRelease is shown in v1beta1, too, where the path of the CRD's column leads nowhere",
	},
	{class: typed, in: `/a finalizer that is none: `, at: `^warning .*finalizers`, reason: "warnings are in our own words"},
	{class: more, how: added, at: `^warning .*few pods`, reason: "a warning of a partition that leaves few pods for the traffic"},
	{class: more, how: added, at: `^warning .*the step will not start`, reason: "a warning of a match that a router of the plan cannot express"},
	{class: more, how: added, at: `^warning .*there is no `, reason: "a warning of a workload, Service or route that does not exist yet"},

	{class: webhook, in: `/webhook: two Rollouts of a workload: 2 `, at: `^code$`, reason: "a second Rollout of a workload: 409, which names the first"},
	{class: webhook, in: `/webhook: `, at: `^code$`, reason: "what breaks a rule between fields: 422, which names the field and the fix"},
	{class: webhook, in: `/no spec: 1 `, at: `^code$`, reason: "an object without a spec"},
	{class: stricter, in: `/stricter: a pause of less than nothing: `, at: `^code$`, reason: "a negative pause"},
	{class: stricter, in: `/stricter: a threshold of no sense: `, at: `^code$`, reason: "a failureThreshold that is neither a number nor a percentage"},
	{class: stricter, in: `/stricter: (a service|an apiVersion)`, at: `^code$`, reason: "names and versions that no object can have"},
	{class: stricter, in: `/stricter: labels that pods cannot have: `, at: `^code$`, reason: "labels and annotations that pods cannot have"},
	{class: stricter, in: `^batchrelease-.*/stricter: `, at: `^code$`, reason: "a BatchRelease without a workload, or with a style, policy, partition or batch that is none"},
	{class: stricter, in: `^trafficrouting/stricter: `, at: `^code$`, reason: "a TrafficRouting that routes nothing, a weight outside 0 to 100, a negative grace period"},
	{class: stricter, in: `/a state that is none: 2 `, at: `^code$`, reason: "a currentStepState that is none"},
	{
		class: lenient, in: `/required: |/no plan: |/no strategy: |/a status without what is required: |^corpus/batchrelease--`, at: `^code$`,
		reason: "a required field that is left out and has a sensible zero",
	},
	{class: lenient, in: `/a strategic merge patch: 2 `, at: `^code$`, reason: "a strategic merge patch, which a CRD refuses with 415"},
	{
		class: unowned, in: `^(batchrelease|rollouthistory)`, how: dropped,
		at:     `\.managedFields\[oracle Update rollouts\.kruise\.io/v1(alpha|beta)1 (<nil>|status)\]\.`,
		reason: "BatchReleases and RolloutHistories have managed fields from when they are applied first",
	},
	{class: typed, in: `/type: |/another kind: `, at: `^code$`, reason: "a wrong type of JSON or a wrong kind: 400 instead of 422"},
}
