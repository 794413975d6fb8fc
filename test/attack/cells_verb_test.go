// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var verbCells = []cell{
	{who: pauser, what: blockAbort, how: "pauses and resumes 199 times", on: scene{at: midway}, do: alternates("pause", "resume", ""), expect: takenBack},
	{who: manager, what: blockAbort, how: "pauses and resumes 199 times", on: scene{at: midway}, do: alternates("pause", "resume", ""), expect: takenBack},
	{who: manager, what: blockAbort, how: "jumps and pauses 199 times", on: scene{at: midway}, do: alternates("jump", "pause", `{"step":1}`), expect: takenBack},
	{who: manager, what: blockAbort, how: "jumps and jumps 220 times", on: scene{at: midway}, do: jumps, expect: takenBack},
	{who: manager, what: blockAbort, how: "aborts and retries 60 times", on: scene{at: midway}, do: abortsAndRetries, expect: takenBack},
	{who: manager, what: blockAbort, how: "repeats a request whose decision was overtaken", on: scene{at: midway}, do: repeats, expect: never},
	{who: promoter, what: skip, how: "every verb but promote", on: scene{at: midway}, do: everyVerbBut("promote"), expect: forbidden},
	{who: pauser, what: skip, how: "every verb but pause and resume", on: scene{at: midway}, do: everyVerbBut("pause", "resume"), expect: forbidden},
	{who: patcher, what: skip, how: "every verb", on: scene{at: midway}, do: everyVerbBut(), expect: forbidden},
	{who: promoter, what: undoAbort, how: "promotes what was aborted", on: scene{at: aborted}, do: func(a *app, u *user) {
		for _, body := range words("", `{"full":true}`, `{"expect":{"step":1}}`) {
			a.tries(u, post(a.api()+"/promote", body))
		}
	}, expect: denied},
	{who: promoter, what: undoAbort, how: "every verb but promote", on: scene{at: aborted}, do: everyVerbBut("promote"), expect: forbidden},
	{who: status, what: skip, how: "says that the step is ready", on: scene{at: midway}, do: writesStatus(`{"canaryStatus":{"currentStepState":"StepReady"}}`), expect: forbidden},
	{who: status, what: skip, how: "says which step is next", on: scene{at: midway}, do: writesStatus(`{"canaryStatus":{"nextStepIndex":3}}`), expect: forbidden},
	{who: status, what: skip, how: "says both at once", on: scene{at: midway}, do: writesStatus(`{"canaryStatus":{"currentStepState":"StepReady","nextStepIndex":3}}`), expect: forbidden},
	{who: status, what: skip, how: "says so in the older version", on: scene{at: midway}, do: func(a *app, u *user) {
		path := strings.Replace(a.api(), "v1beta1", "v1alpha1", 1) + "/status"
		a.tries(u, patch(path, `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`))
	}, expect: forbidden},
	{who: status, what: skip, how: "says that its checks passed, and count no more", on: scene{at: midway},
		do: writesStatus(`{"analysis":{"overridden":true,"checks":[{"name":"successRate","result":"Passed"}]}}`), expect: restored},
	{who: promoter, what: skip, how: "overrides checks", on: scene{at: midway}, do: func(a *app, u *user) {
		a.tries(u, post(a.api()+"/promote", `{"override":true,"reason":"it is fine"}`))
	}, expect: forbidden},
	{who: editor, what: skip, how: "ends the pause of the step that waits", on: scene{at: midway}, do: func(a *app, u *user) {
		a.tries(u, patch(a.api(), `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1,"pause":{"duration":0}},{"replicas":2},{"replicas":"100%"}]}}}}`))
	}, expect: forbidden},
	{who: editor, what: skip, how: "every verb", on: scene{at: midway}, do: everyVerbBut(), expect: forbidden},
}

var verbs = words("promote", "abort", "rollback", "retry", "pause", "resume", "jump")

func everyVerbBut(may ...string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, verb := range verbs {
			if strings.Contains(" "+strings.Join(may, " ")+" ", " "+verb+" ") {
				continue
			}
			body := "{}"
			if verb == "jump" {
				body = `{"step":3}`
			}
			a.tries(u, post(a.api()+"/"+verb, body))
		}
	}
}

// alternates sends 199 decisions, the first of which comes last.
func alternates(first, second, body string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for i := range 199 {
			verb, with := second, ""
			if i%2 == 0 {
				verb, with = first, body
			}
			a.tries(u, post(a.api()+"/"+verb, with))
		}
	}
}

// jumps goes to step 1 and to step 2 in turn, more often than there is room.
func jumps(a *app, u *user) {
	a.t.Helper()
	for i := range 220 {
		a.tries(u, post(a.api()+"/jump", fmt.Sprintf(`{"step":%d}`, i%2+1)))
	}
}

func abortsAndRetries(a *app, u *user) {
	a.t.Helper()
	for range 60 {
		a.tries(u, post(a.api()+"/abort", ""))
		a.tries(u, post(a.api()+"/retry", ""))
	}
}

// takenBack wants pause, resume, abort, retry and rollback to have room still, also for somebody
// else, and to do what they say.
func takenBack(a *app) {
	a.t.Helper()
	a.answered(append([]int{http.StatusTooManyRequests}, either...)...)
	m := a.as(manager)
	a.verb(m, "pause", "")
	a.until("it is paused", a.paused(true))
	a.verb(m, "resume", "")
	a.until("it is not paused", a.paused(false))
	a.verb(m, "abort", `{"reason":"enough"}`)
	a.ends()
	a.verb(m, "retry", "")
	a.until("step 1 waits again", a.waitsAt(1))
	a.verb(m, "rollback", "")
	a.until("it is Healthy", a.healthy)
	a.until("v1 is back", a.runs(versions{"v1": 3}))
	a.onRecord("abort", "retry", "rollback")
}

func (a *app) paused(want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && (r.Status.Canary == nil || r.Status.Canary.Paused != want) {
			err = errors.New("it is " + describe(r))
		}
		return err
	}
}

// onRecord wants decisions of the manager to be the last of their kind on record.
func (a *app) onRecord(want ...string) {
	a.t.Helper()
	lines := strings.Join(a.facts().rollout, "\n")
	for _, verb := range want {
		if !strings.Contains(lines, verb+" of step 1 by "+string(manager)) && !strings.Contains(lines, verb+" of step 2 by "+string(manager)) {
			a.t.Errorf("%s by %s is not on record: %s", verb, manager, lines)
		}
	}
}

// repeats sends an abort again with the ID of one that a retry has overtaken.
func repeats(a *app, u *user) {
	a.t.Helper()
	const body = `{"requestID":"abort-1"}`
	a.verb(u, "abort", body)
	a.ends()
	a.verb(u, "retry", "")
	a.until("step 1 waits again", a.waitsAt(1))
	a.tries(u, post(a.api()+"/abort", body))
}

// never wants no 201 that has no effect and says nothing.
func never(a *app) {
	a.t.Helper()
	a.answered(http.StatusCreated, http.StatusConflict)
	got := a.answers[0]
	switch lines := a.facts().rollout; {
	case got.code == http.StatusConflict || len(got.warnings) > 0:
		a.goesOn()
	case strings.Count(strings.Join(lines, " "), "abort of") == 2:
		a.ends()
	default:
		a.t.Errorf("it was answered 201, without effect or warning; on record is %q", lines)
	}
}

// writesStatus sends a status as clients of OpenKruise do.
func writesStatus(status string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.tries(u, patch(a.api()+"/status", `{"status":`+status+`}`))
	}
}
