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
	{who: pauser, what: blockAbort, how: "pauses and resumes 199 times", scenario: scenario{at: atStep1}, attack: alternatesVerbs("pause", "resume", ""), expect: safetyVerbsWork},
	{who: manager, what: blockAbort, how: "pauses and resumes 199 times", scenario: scenario{at: atStep1}, attack: alternatesVerbs("pause", "resume", ""), expect: safetyVerbsWork},
	{who: manager, what: blockAbort, how: "jumps and pauses 199 times", scenario: scenario{at: atStep1}, attack: alternatesVerbs("jump", "pause", `{"step":1}`), expect: safetyVerbsWork},
	{who: manager, what: blockAbort, how: "jumps and jumps 220 times", scenario: scenario{at: atStep1}, attack: jumpsRepeatedly, expect: safetyVerbsWork},
	{who: manager, what: blockAbort, how: "aborts and retries 60 times", scenario: scenario{at: atStep1}, attack: abortsAndRetries, expect: safetyVerbsWork},
	{who: manager, what: blockAbort, how: "repeats a request whose decision was followed by another", scenario: scenario{at: atStep1}, attack: repeatsOvertakenAbort, expect: noSilentSuccess},
	{who: promoter, what: skip, how: "every verb but promote", scenario: scenario{at: atStep1}, attack: everyVerbBut("promote"), expect: isForbidden},
	{who: pauser, what: skip, how: "every verb but pause and resume", scenario: scenario{at: atStep1}, attack: everyVerbBut("pause", "resume"), expect: isForbidden},
	{who: patcher, what: skip, how: "every verb", scenario: scenario{at: atStep1}, attack: everyVerbBut(), expect: isForbidden},
	{who: promoter, what: undoAbort, how: "promotes the aborted version", scenario: scenario{at: aborted}, attack: func(a *app, u *user) {
		for _, body := range words("", `{"full":true}`, `{"expect":{"step":1}}`) {
			a.attackWith(u, post(a.api()+"/promote", body))
		}
	}, expect: isDenied},
	{who: promoter, what: undoAbort, how: "every verb but promote", scenario: scenario{at: aborted}, attack: everyVerbBut("promote"), expect: isForbidden},
	{who: status, what: skip, how: "writes that the step is ready", scenario: scenario{at: atStep1}, attack: writesStatus(`{"canaryStatus":{"currentStepState":"StepReady"}}`), expect: isForbidden},
	{who: status, what: skip, how: "writes the next step", scenario: scenario{at: atStep1}, attack: writesStatus(`{"canaryStatus":{"nextStepIndex":3}}`), expect: isForbidden},
	{who: status, what: skip, how: "writes both at once", scenario: scenario{at: atStep1}, attack: writesStatus(`{"canaryStatus":{"currentStepState":"StepReady","nextStepIndex":3}}`), expect: isForbidden},
	{who: status, what: skip, how: "writes it in v1alpha1", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
		path := strings.Replace(a.api(), "v1beta1", "v1alpha1", 1) + "/status"
		a.attackWith(u, patch(path, `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`))
	}, expect: isForbidden},
	{who: status, what: skip, how: "writes that the checks have passed and no longer count", scenario: scenario{at: atStep1},
		attack: writesStatus(`{"analysis":{"overridden":true,"checks":[{"name":"successRate","result":"Passed"}]}}`), expect: statusIsRestored},
	{who: promoter, what: skip, how: "overrides checks", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
		a.attackWith(u, post(a.api()+"/promote", `{"override":true,"reason":"it is fine"}`))
	}, expect: isForbidden},
	{who: editor, what: skip, how: "ends the pause of the step that waits", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
		a.attackWith(u, patch(a.api(), `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1,"pause":{"duration":0}},{"replicas":2},{"replicas":"100%"}]}}}}`))
	}, expect: isForbidden},
	{who: editor, what: skip, how: "every verb", scenario: scenario{at: atStep1}, attack: everyVerbBut(), expect: isForbidden},
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
			a.attackWith(u, post(a.api()+"/"+verb, body))
		}
	}
}

// alternatesVerbs sends 199 decisions alternately. The last one is of the first verb.
func alternatesVerbs(first, second, body string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for i := range 199 {
			verb, with := second, ""
			if i%2 == 0 {
				verb, with = first, body
			}
			a.attackWith(u, post(a.api()+"/"+verb, with))
		}
	}
}

// jumpsRepeatedly jumps to step 1 and to step 2 in turn, more often than decisions are kept.
func jumpsRepeatedly(a *app, u *user) {
	a.t.Helper()
	for i := range 220 {
		a.attackWith(u, post(a.api()+"/jump", fmt.Sprintf(`{"step":%d}`, i%2+1)))
	}
}

func abortsAndRetries(a *app, u *user) {
	a.t.Helper()
	for range 60 {
		a.attackWith(u, post(a.api()+"/abort", ""))
		a.attackWith(u, post(a.api()+"/retry", ""))
	}
}

// safetyVerbsWork expects that pause, resume, abort, retry and rollback can still be stored, also
// for another user, and take effect.
func safetyVerbsWork(a *app) {
	a.t.Helper()
	a.answered(append([]int{http.StatusTooManyRequests}, refusedOrNeutralized...)...)
	m := a.userWithRole(manager)
	a.verb(m, "pause", "")
	a.eventually("the release is paused", a.isPaused(true))
	a.verb(m, "resume", "")
	a.eventually("the release is not paused", a.isPaused(false))
	a.verb(m, "abort", `{"reason":"enough"}`)
	a.checkAbortEnds()
	a.verb(m, "retry", "")
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.verb(m, "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("all pods run v1 again", a.runs(versions{"v1": 3}))
	a.onRecord("abort", "retry", "rollback")
}

func (a *app) isPaused(want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && (r.Status.Canary == nil || r.Status.Canary.Paused != want) {
			err = errors.New("the Rollout is " + describe(r))
		}
		return err
	}
}

// onRecord checks that the last decision of each of these kinds is one of the manager.
func (a *app) onRecord(want ...string) {
	a.t.Helper()
	lines := strings.Join(a.facts().rollout, "\n")
	for _, verb := range want {
		if !strings.Contains(lines, verb+" of step 1 by "+string(manager)) && !strings.Contains(lines, verb+" of step 2 by "+string(manager)) {
			a.t.Errorf("%s by %s is not recorded: %s", verb, manager, lines)
		}
	}
}

// repeatsOvertakenAbort sends an abort again with the request ID of an abort that a retry has
// followed.
func repeatsOvertakenAbort(a *app, u *user) {
	a.t.Helper()
	const body = `{"requestID":"abort-1"}`
	a.verb(u, "abort", body)
	a.checkAbortEnds()
	a.verb(u, "retry", "")
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.attackWith(u, post(a.api()+"/abort", body))
}

// noSilentSuccess expects no 201 without an effect and without a warning.
func noSilentSuccess(a *app) {
	a.t.Helper()
	a.answered(http.StatusCreated, http.StatusConflict)
	got := a.answers[0]
	switch lines := a.facts().rollout; {
	case got.code == http.StatusConflict || len(got.warnings) > 0:
		a.checkNextRelease()
	case strings.Count(strings.Join(lines, " "), "abort of") == 2:
		a.checkAbortEnds()
	default:
		a.t.Errorf("the answer was 201, without effect or warning; decisions are %q", lines)
	}
}

// writesStatus writes a status as clients of OpenKruise do.
func writesStatus(status string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.attackWith(u, patch(a.api()+"/status", `{"status":`+status+`}`))
	}
}
