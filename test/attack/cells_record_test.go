// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The limits for conditions of other writers: their number, and the length of their messages.
const (
	mostForeign     = 32
	longestForeign  = 1 << 10
	longestOfObject = 512 << 10
)

// weirConditions are the condition types that only Weir writes.
var weirConditions = []v1beta1.ConditionType{"Progressing", "Succeeded", "Terminating", "AdmissionBypassed", "Protected", "Writable"}

var recordCells = []cell{
	{who: status, what: forge, how: "writes a condition that admission was bypassed", scenario: scenario{at: atStep1}, attack: writesCondition("AdmissionBypassed", "True"), expect: noForgedConditions},
	{who: status, what: forge, how: "writes a condition that workloads are not protected", scenario: scenario{at: atStep1}, attack: writesCondition("Protected", "False"), expect: noForgedConditions},
	{who: status, what: forge, how: "writes a condition that workloads are protected", scenario: scenario{at: atStep1}, attack: writesCondition("Protected", "True"), expect: noForgedConditions},
	{who: status, what: forge, how: "writes a condition that the release has succeeded", scenario: scenario{at: atStep1}, attack: writesCondition("Succeeded", "True"), expect: noForgedConditions},
	{who: status, what: forge, how: "writes a condition that Weir lacks permissions", scenario: scenario{at: atStep1}, attack: writesCondition("Writable", "False"), expect: noForgedConditions},
	{who: status, what: blockAbort, how: "writes a Stalled condition with reasons similar to Weir's", scenario: scenario{at: atStep1},
		attack: writesStalled("ABORTED", "aborted", "\u0410borted", "Aborted\u200b", "Aborted_", "Stable_Edited", "revisionRefused", "Step timeout", "\u3164", ""), expect: isDenied},
	{who: status, what: blockAbort, how: "writes a Stalled condition with Weir's reasons", scenario: scenario{at: atStep1},
		attack: writesStalled("Aborted", "StableGone", "StableEdited", "RevisionRefused", "ProgressDeadlineExceeded"), expect: isNotStalled},
	{who: status, what: forge, how: "writes conditions with invisible characters", scenario: scenario{at: atStep1}, attack: writesInvisibleCharacters, expect: recordIsPlainText},
	{who: status, what: forge, how: "removes the recorded decisions", scenario: scenario{at: released}, attack: writesStatus(`{"decisions":[],"releases":[]}`), expect: statusIsRestored},
	{who: status, what: forge, how: "adds a decision of another user", scenario: scenario{at: atStep1},
		attack: writesStatus(`{"decisions":[{"id":1,"verb":"promote","user":"alice","step":1,"time":"2026-01-05T10:00:00Z","via":"verb"}]}`),
		expect: statusIsRestored},
	{who: status, what: forge, how: "writes a status in which the release has ended", scenario: scenario{at: atStep1},
		attack: writesStatus(`{"phase":"Healthy","message":"all is well","canaryStatus":{"currentStepIndex":3,"stableRevision":"other","canaryReplicas":3}}`), expect: statusIsRestored},
	{who: editor, what: forge, how: "writes a history", scenario: scenario{at: released}, attack: writesHistory, expect: writesAreForbidden},
	{who: editor, what: skip, how: "writes the BatchRelease", scenario: scenario{at: atStep1}, attack: writesBatch, expect: isForbidden},
	{who: status, what: blockAbort, how: "writes many large conditions", scenario: scenario{at: atStep1}, attack: fillsConditions, expect: verbsHaveRoom},
	{who: status, what: blockAbort, how: "writes one condition of 1 MiB", scenario: scenario{at: atStep1},
		attack: writesStatus(encode(object{"conditions": []object{foreignCondition(0, 1<<20)}})), expect: verbsHaveRoom},
	{who: editor, what: blockAbort, how: "writes annotations that fill the object", scenario: scenario{at: atStep1}, attack: fillsAnnotations, expect: verbsHaveRoom},
}

func foreignCondition(i, size int) object {
	return object{
		"type": fmt.Sprintf("Theirs%d", i), "status": "True", "reason": "Mine", "message": strings.Repeat("x", size),
		"lastUpdateTime": "2026-01-05T10:00:00Z", "lastTransitionTime": "2026-01-05T10:00:00Z",
	}
}

func writesCondition(kind, status string) func(*app, *user) {
	c := foreignCondition(0, 10)
	c["type"], c["status"], c["reason"], c["message"] = kind, status, "Forged", "forged"
	return writesStatus(encode(object{"conditions": []object{c}}))
}

// writesStalled writes a Stalled condition with each of the reasons.
func writesStalled(reasons ...string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, reason := range reasons {
			c := foreignCondition(0, 10)
			c["type"], c["reason"] = "Stalled", reason
			writesStatus(encode(object{"conditions": []object{c}}))(a, u)
		}
	}
}

// isNotStalled expects that the release is not stalled for the verbs.
func isNotStalled(a *app) {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Stalled" && c.Status == "True" {
			a.t.Errorf("a condition is forged: %+v", c)
		}
	}
	safetyVerbsWork(a)
	a.checkNextRelease()
}

// noForgedConditions expects that no condition of Weir's types has a value of another writer.
func noForgedConditions(a *app) {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if slices.Contains(weirConditions, c.Type) && c.Reason == "Forged" {
			a.t.Errorf("a condition is forged: %+v", c)
		}
	}
	statusIsRestored(a)
}

// statusIsRestored expects that the rest of the status is as before.
func statusIsRestored(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.checkUnchanged()
	a.checkNextRelease()
	a.atMost(1, "v3")
}

func writesHistory(a *app, u *user) {
	a.t.Helper()
	path := "/apis/rollouts.kruise.io/v1alpha1/namespaces/" + a.namespace + "/rollouthistories"
	lines, err := a.history(a.t.Context())
	if err != nil || len(lines) == 0 {
		a.t.Fatalf("there are no histories: %v", err)
	}
	a.attackWith(u, post(path, `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-forged"}}`))
	got := a.mustSend(testEnv.admin, get(path))
	_, rest, _ := strings.Cut(got.body, `"name":"`+a.name+"-")
	stored, _, _ := strings.Cut(rest, `"`)
	a.attackWith(u, patch(path+"/"+a.name+"-"+stored, `{"status":{"outcome":"aborted"}}`))
	a.attackWith(u, patch(path+"/"+a.name+"-"+stored+"/status", `{"status":{"outcome":"aborted"}}`))
	a.attackWith(u, request{method: http.MethodDelete, path: path + "/" + a.name + "-" + stored})
}

func writesBatch(a *app, u *user) {
	a.t.Helper()
	path := "/apis/rollouts.kruise.io/v1beta1/namespaces/" + a.namespace + "/batchreleases/" + a.name
	a.attackWith(u, patch(path, `{"spec":{"releasePlan":{"batchPartition":null}}}`))
	a.attackWith(u, patch(path+"/status", `{"status":{"phase":"Completed"}}`))
	a.attackWith(u, request{method: http.MethodDelete, path: path})
}

func fillsConditions(a *app, u *user) {
	a.t.Helper()
	for _, n := range []int{100, 400, 700} {
		var list []object
		for i := range n {
			list = append(list, foreignCondition(i, 2000))
		}
		a.attackWith(u, patch(a.api()+"/status", encode(object{"status": object{"conditions": list}})))
	}
}

func fillsAnnotations(a *app, u *user) {
	a.t.Helper()
	for i := range 6 {
		key := fmt.Sprintf("example.com/note-%d", i)
		a.attackWith(u, patch(a.api(), encode(object{"metadata": object{"annotations": object{key: strings.Repeat("x", 250<<10)}}})))
	}
}

// writesAreForbidden expects that every request is forbidden, after a release.
func writesAreForbidden(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	a.checkUnchanged()
	a.checkNextRelease()
}

// verbsHaveRoom expects that the size of foreign data is limited, and that every verb can still be
// stored.
func verbsHaveRoom(a *app) {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	theirs, longest := 0, 0
	for _, c := range r.Status.Conditions {
		if c.Reason == "Mine" {
			theirs++
			longest = max(longest, len(c.Message))
		}
	}
	size := len(a.mustSend(testEnv.admin, get(a.api())).body)
	if theirs > mostForeign || longest > longestForeign || size > longestOfObject {
		a.t.Errorf("%d conditions of others, with messages of up to %d bytes, in an object of %d bytes", theirs, longest, size)
	}
	safetyVerbsWork(a)
	a.checkNextRelease()
}

var recordedTextCells = []cell{
	{who: manager, what: forge, how: "writes reasons with control characters", scenario: scenario{at: atStep1}, attack: writesReasons, expect: recordIsPlainText},
	{who: manager, what: forge, how: "sends a user agent with control characters", scenario: scenario{at: atStep1}, attack: sendsUserAgents, expect: recordIsPlainText},
	{who: editor, what: forge, how: "writes references with path segments", attack: referencesWithPaths, expect: nothingIsCreated},
}

func writesReasons(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("\x1b[2Jall is well", "fine\r\nalice promoted step 2", "\u202edetroba", "a\u0000b", "\u2066hidden\u2069", "\u009b31m",
		"ad\u200bmin", "\u3164", "\u2800", "\u034fb", "\U000e0041", " \u00a0\u3000", "a"+strings.Repeat("\u0300", 40)) {
		a.attackWith(u, post(a.api()+"/"+words("pause", "resume")[i%2], encode(object{"reason": text})))
	}
	a.attackWith(u, post(a.api()+"/resume", ""))
}

func sendsUserAgents(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("kubectl/\u202e9.1v", "kubectl\u009b31m/v1", strings.Repeat("long", 4000)) {
		r := post(a.api()+"/"+words("pause", "resume")[i%2], "")
		r.more = http.Header{"User-Agent": {text}}
		a.attackWith(u, r)
	}
	a.attackWith(u, post(a.api()+"/resume", ""))
}

// writesInvisibleCharacters writes a condition of another type whose text differs from what a
// reader sees.
func writesInvisibleCharacters(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("Fi\u200bne", "\u3164", "\u2800", "Fine\u202e", "Fine\U000e0041", "Fine\x1b[2J", "Fi\u034fne") {
		for _, field := range words("reason", "message") {
			c := foreignCondition(i, 10)
			c[field] = text
			writesStatus(encode(object{"conditions": []object{c}}))(a, u)
		}
	}
}

// recordIsPlainText expects no control characters and no direction overrides in the recorded
// decisions.
func recordIsPlainText(a *app) {
	a.t.Helper()
	a.answered(append([]int{http.StatusBadRequest}, refusedOrNeutralized...)...)
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	texts := []string{r.Status.Message}
	for _, c := range r.Status.Conditions {
		texts = append(texts, string(c.Type), c.Reason, c.Message)
	}
	for _, d := range r.Status.Decisions {
		texts = append(texts, d.Reason, d.UserAgent, d.RequestID)
	}
	odd := func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || strings.ContainsRune("\u200b\u3164\u2800\u034f\u3000\U000e0041", r)
	}
	for _, text := range texts {
		if strings.ContainsFunc(text, odd) || utf8.RuneCountInString(text) > 1024 {
			a.t.Errorf("recorded is %.100q, of %d characters", text, utf8.RuneCountInString(text))
		}
	}
	a.eventually("the attack is over", func(ctx context.Context) error { return a.waitsAtStep(1)(ctx) })
	a.checkNextRelease()
}

// referencesWithPaths reference objects by strings that are more than a name.
func referencesWithPaths(a *app, u *user) {
	a.t.Helper()
	ref := func(version, kind, name string) object {
		return object{"apiVersion": version, "kind": kind, "name": name}
	}
	for _, workload := range []object{
		// A StatefulSet may be of any group.
		ref("../v1", statefulSets, "other"), ref("../../v1", statefulSets, "other"), ref("example.com/..", statefulSets, "other"),
		ref("./v1", statefulSets, "other"), ref("%2e%2e/v1", statefulSets, "other"), ref("example.com/v1/x", statefulSets, "other"),
		ref("a..b/v1", statefulSets, "other"), ref("apps/..", deployments, "other"), ref("apps/v1?x=y", deployments, "other"),
		ref("apps/v1", "../Deployment", "other"), ref("apps/v1", deployments, "../other"), ref("apps/v1", deployments, "other/scale"),
		ref("apps/v1", deployments, "other%2f.."),
	} {
		a.attackWith(u, post(api(a.namespace), encode(object{
			"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": object{"name": "other"},
			"spec": object{"workloadRef": workload, "strategy": object{"canary": object{"steps": []object{{"replicas": "20%"}}}}},
		})))
	}
}

func nothingIsCreated(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnprocessableEntity, http.StatusBadRequest)
	a.checkUnchanged()
	a.checkNextRelease()
}
