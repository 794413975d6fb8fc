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

// How many conditions of others a Rollout has room for, and how long their messages are.
const (
	mostForeign     = 32
	longestForeign  = 1 << 10
	longestOfObject = 512 << 10
)

// ours are the types that nobody but Weir writes.
var ours = []v1beta1.ConditionType{"Progressing", "Succeeded", "Terminating", "AdmissionBypassed", "Protected", "Writable"}

var recordCells = []cell{
	{who: status, what: forge, how: "says that admission was bypassed", on: scene{at: midway}, do: writesCondition("AdmissionBypassed", "True"), expect: unforged},
	{who: status, what: forge, how: "says that nobody is protected", on: scene{at: midway}, do: writesCondition("Protected", "False"), expect: unforged},
	{who: status, what: forge, how: "says that all are protected", on: scene{at: midway}, do: writesCondition("Protected", "True"), expect: unforged},
	{who: status, what: forge, how: "says that the release has succeeded", on: scene{at: midway}, do: writesCondition("Succeeded", "True"), expect: unforged},
	{who: status, what: forge, how: "says that it has no right", on: scene{at: midway}, do: writesCondition("Writable", "False"), expect: unforged},
	{who: status, what: blockAbort, how: "gives reasons for being stalled that read like Weir's", on: scene{at: midway},
		do: writesStalled("ABORTED", "aborted", "\u0410borted", "Aborted\u200b", "Aborted_", "Stable_Edited", "revisionRefused", "Step timeout", "\u3164", ""), expect: denied},
	{who: status, what: blockAbort, how: "gives Weir's reasons for being stalled", on: scene{at: midway},
		do: writesStalled("Aborted", "StableGone", "StableEdited", "RevisionRefused", "ProgressDeadlineExceeded"), expect: neverStalled},
	{who: status, what: forge, how: "conditions with characters that nobody sees", on: scene{at: midway}, do: writesUnseen, expect: plainText},
	{who: status, what: forge, how: "empties the record", on: scene{at: released}, do: writesStatus(`{"decisions":[],"releases":[]}`), expect: restored},
	{who: status, what: forge, how: "adds a decision of somebody else", on: scene{at: midway},
		do:     writesStatus(`{"decisions":[{"id":1,"verb":"promote","user":"alice","step":1,"time":"2026-01-05T10:00:00Z","via":"verb"}]}`),
		expect: restored},
	{who: status, what: forge, how: "says that the release is over", on: scene{at: midway},
		do: writesStatus(`{"phase":"Healthy","message":"all is well","canaryStatus":{"currentStepIndex":3,"stableRevision":"other","canaryReplicas":3}}`), expect: restored},
	{who: editor, what: forge, how: "writes a history", on: scene{at: released}, do: writesHistory, expect: unwritten},
	{who: editor, what: skip, how: "writes the BatchRelease", on: scene{at: midway}, do: writesBatch, expect: forbidden},
	{who: status, what: blockAbort, how: "many large conditions", on: scene{at: midway}, do: fillsConditions, expect: roomLeft},
	{who: status, what: blockAbort, how: "one condition of a MiB", on: scene{at: midway},
		do: writesStatus(encode(object{"conditions": []object{foreign(0, 1<<20)}})), expect: roomLeft},
	{who: editor, what: blockAbort, how: "annotations that fill the object", on: scene{at: midway}, do: fillsAnnotations, expect: roomLeft},
}

func foreign(i, size int) object {
	return object{
		"type": fmt.Sprintf("Theirs%d", i), "status": "True", "reason": "Mine", "message": strings.Repeat("x", size),
		"lastUpdateTime": "2026-01-05T10:00:00Z", "lastTransitionTime": "2026-01-05T10:00:00Z",
	}
}

func writesCondition(kind, status string) func(*app, *user) {
	c := foreign(0, 10)
	c["type"], c["status"], c["reason"], c["message"] = kind, status, "Forged", "forged"
	return writesStatus(encode(object{"conditions": []object{c}}))
}

// writesStalled says that the release is stalled, for each of the reasons.
func writesStalled(reasons ...string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, reason := range reasons {
			c := foreign(0, 10)
			c["type"], c["reason"] = "Stalled", reason
			writesStatus(encode(object{"conditions": []object{c}}))(a, u)
		}
	}
}

// neverStalled wants the release not to be stalled, and what verbs say to go by that.
func neverStalled(a *app) {
	a.t.Helper()
	r, err := a.stored(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Stalled" && c.Status == "True" {
			a.t.Errorf("a condition is forged: %+v", c)
		}
	}
	takenBack(a)
	a.goesOn()
}

// unforged wants no condition of Weir's types to say what somebody else wrote.
func unforged(a *app) {
	a.t.Helper()
	r, err := a.stored(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if slices.Contains(ours, c.Type) && c.Reason == "Forged" {
			a.t.Errorf("a condition is forged: %+v", c)
		}
	}
	restored(a)
}

// restored wants the rest of the status to be as before.
func restored(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.same()
	a.goesOn()
	a.atMost(1, "v3")
}

func writesHistory(a *app, u *user) {
	a.t.Helper()
	path := "/apis/rollouts.kruise.io/v1alpha1/namespaces/" + a.namespace + "/rollouthistories"
	lines, err := a.history(a.t.Context())
	if err != nil || len(lines) == 0 {
		a.t.Fatalf("there are no histories: %v", err)
	}
	a.tries(u, post(path, `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-forged"}}`))
	got := a.asks(here.admin, get(path))
	_, rest, _ := strings.Cut(got.body, `"name":"`+a.name+"-")
	stored, _, _ := strings.Cut(rest, `"`)
	a.tries(u, patch(path+"/"+a.name+"-"+stored, `{"status":{"outcome":"aborted"}}`))
	a.tries(u, patch(path+"/"+a.name+"-"+stored+"/status", `{"status":{"outcome":"aborted"}}`))
	a.tries(u, request{method: http.MethodDelete, path: path + "/" + a.name + "-" + stored})
}

func writesBatch(a *app, u *user) {
	a.t.Helper()
	path := "/apis/rollouts.kruise.io/v1beta1/namespaces/" + a.namespace + "/batchreleases/" + a.name
	a.tries(u, patch(path, `{"spec":{"releasePlan":{"batchPartition":null}}}`))
	a.tries(u, patch(path+"/status", `{"status":{"phase":"Completed"}}`))
	a.tries(u, request{method: http.MethodDelete, path: path})
}

func fillsConditions(a *app, u *user) {
	a.t.Helper()
	for _, n := range []int{100, 400, 700} {
		var list []object
		for i := range n {
			list = append(list, foreign(i, 2000))
		}
		a.tries(u, patch(a.api()+"/status", encode(object{"status": object{"conditions": list}})))
	}
}

func fillsAnnotations(a *app, u *user) {
	a.t.Helper()
	for i := range 6 {
		key := fmt.Sprintf("example.com/note-%d", i)
		a.tries(u, patch(a.api(), encode(object{"metadata": object{"annotations": object{key: strings.Repeat("x", 250<<10)}}})))
	}
}

// unwritten wants every request to be refused for want of permission, after a release.
func unwritten(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	a.same()
	a.goesOn()
}

// roomLeft wants what others write to be bounded, and every verb to have room.
func roomLeft(a *app) {
	a.t.Helper()
	r, err := a.stored(a.t.Context())
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
	size := len(a.asks(here.admin, get(a.api())).body)
	if theirs > mostForeign || longest > longestForeign || size > longestOfObject {
		a.t.Errorf("%d conditions of others, with messages of up to %d bytes, in an object of %d bytes", theirs, longest, size)
	}
	takenBack(a)
	a.goesOn()
}

var textCells = []cell{
	{who: manager, what: forge, how: "a reason with controls", on: scene{at: midway}, do: reasons, expect: plainText},
	{who: manager, what: forge, how: "a name of a client with controls", on: scene{at: midway}, do: userAgents, expect: plainText},
	{who: editor, what: forge, how: "references that leave their place", do: leavingReferences, expect: nothingMade},
}

func reasons(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("\x1b[2Jall is well", "fine\r\nalice promoted step 2", "\u202edetroba", "a\u0000b", "\u2066hidden\u2069", "\u009b31m",
		"ad\u200bmin", "\u3164", "\u2800", "\u034fb", "\U000e0041", " \u00a0\u3000", "a"+strings.Repeat("\u0300", 40)) {
		a.tries(u, post(a.api()+"/"+words("pause", "resume")[i%2], encode(object{"reason": text})))
	}
	a.tries(u, post(a.api()+"/resume", ""))
}

func userAgents(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("kubectl/\u202e9.1v", "kubectl\u009b31m/v1", strings.Repeat("long", 4000)) {
		r := post(a.api()+"/"+words("pause", "resume")[i%2], "")
		r.more = http.Header{"User-Agent": {text}}
		a.tries(u, r)
	}
	a.tries(u, post(a.api()+"/resume", ""))
}

// writesUnseen has a condition of somebody's own say more, or less, than one reads.
func writesUnseen(a *app, u *user) {
	a.t.Helper()
	for i, text := range words("Fi\u200bne", "\u3164", "\u2800", "Fine\u202e", "Fine\U000e0041", "Fine\x1b[2J", "Fi\u034fne") {
		for _, field := range words("reason", "message") {
			c := foreign(i, 10)
			c[field] = text
			writesStatus(encode(object{"conditions": []object{c}}))(a, u)
		}
	}
}

// plainText wants no control character and no override of the direction on record.
func plainText(a *app) {
	a.t.Helper()
	a.answered(append([]int{http.StatusBadRequest}, either...)...)
	r, err := a.stored(a.t.Context())
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
			a.t.Errorf("on record is %.100q, of %d characters", text, utf8.RuneCountInString(text))
		}
	}
	a.until("the attack is over", func(ctx context.Context) error { return a.waitsAt(1)(ctx) })
	a.goesOn()
}

// leavingReferences name objects by what is more than a name.
func leavingReferences(a *app, u *user) {
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
		a.tries(u, post(api(a.namespace), encode(object{
			"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": object{"name": "other"},
			"spec": object{"workloadRef": workload, "strategy": object{"canary": object{"steps": []object{{"replicas": "20%"}}}}},
		})))
	}
}

func nothingMade(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnprocessableEntity, http.StatusBadRequest)
	a.same()
	a.goesOn()
}
