// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// start is when the release began, and decided when a verb is used.
var (
	start   = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	decided = metav1.NewTime(start.Add(time.Minute))
)

// waitingRollout is a Rollout at step 2 of 3 that waits for approval.
func waitingRollout() *rollouts.Rollout {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-1", ResourceVersion: "7"}}
	release := rollouts.Release{}
	for _, share := range []string{"20%", "50%", "100%"} {
		release.Steps = append(release.Steps, rollouts.Step{Traffic: &share, Replicas: new(intstr.FromString(share))})
	}
	r.Spec.Strategy.Canary = &release
	r.Status.Phase = rollouts.PhaseProgressing
	r.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{
		StableRevision: "one", UpdateRevision: "two", RolloutHash: "plan", CurrentStepIndex: 2, NextStepIndex: 3, State: rollouts.StepPaused,
	})
	r.Status.SetActivity(rollouts.ActivityInRolling, "", metav1.NewTime(start))
	return r
}

func withActivity(a rollouts.Activity) func(*rollouts.Rollout) {
	return func(r *rollouts.Rollout) { r.Status.SetActivity(a, "", metav1.NewTime(start)) }
}

func withState(state rollouts.StepState) func(*rollouts.Rollout) {
	return func(r *rollouts.Rollout) { r.Status.Active().State = state }
}

// applyAndDescribe is what became of a command: ok, warned or refused.
func applyAndDescribe(t *testing.T, r *rollouts.Rollout, c verb.Command) string {
	t.Helper()
	before := r.DeepCopy()
	c.Now = decided
	warning, err := verb.Apply(r, c)
	var refusal *verb.Refusal
	switch {
	case errors.As(err, &refusal):
		if diff := cmp.Diff(before, r); diff != "" {
			t.Errorf("a refusal changed the rollout:\n%s", diff)
		}
		return "refused"
	case err != nil:
		t.Fatal(err)
	case warning != "":
		if diff := cmp.Diff(before, r); diff != "" {
			t.Errorf("a warning changed the rollout:\n%s", diff)
		}
		return "warned"
	}
	return "ok"
}

// TestVerbs tries every verb in every state: + is accepted, ! is warned since
// it is so already, and - is refused.
func TestVerbs(t *testing.T) {
	t.Parallel()
	asked := []verb.Command{
		{Verb: rollouts.VerbPromote, Via: rollouts.ViaVerb},
		{Verb: rollouts.VerbPromote, Via: rollouts.ViaVerb, Full: true},
		{Verb: rollouts.VerbPromote, Via: rollouts.ViaStatus},
		{Verb: rollouts.VerbAbort}, {Verb: rollouts.VerbRollback}, {Verb: rollouts.VerbRetry},
		{Verb: rollouts.VerbPause}, {Verb: rollouts.VerbResume}, {Verb: rollouts.VerbJump, Step: 1},
	}
	const (
		columns  = "promote full legacy abort rollback retry pause resume jump"
		anywhere = "- + - + + - + ! +"
		nothing  = "- - - - - - - - -"
	)
	tests := map[string]struct {
		change func(*rollouts.Rollout)
		want   string
	}{
		"a step waits":                     {func(*rollouts.Rollout) {}, "+ + + + + - + ! +"},
		"before the step":                  {withState(rollouts.BeforeStepUpgrade), anywhere},
		"pods are upgraded":                {withState(rollouts.StepUpgrade), anywhere},
		"traffic is routed":                {withState(rollouts.StepTrafficRouting), anywhere},
		"metrics are analysed":             {withState(rollouts.StepMetricsAnalysis), anywhere},
		"approved already":                 {withState(rollouts.StepReady), anywhere},
		"promoted in full already":         {func(r *rollouts.Rollout) { r.Status.Active().FullyPromoted = true }, "+ ! + + + - + ! +"},
		"initializing":                     {both(withActivity(rollouts.ActivityInitializing), withState(rollouts.BeforeStepUpgrade)), anywhere},
		"paused by the spec":               {both(withActivity(rollouts.ActivityPaused), pausedBySpec), "- - + + + - + - +"},
		"about to be paused":               {pausedBySpec, "- - + + + - + - +"},
		"paused by the verb":               {both(withActivity(rollouts.ActivityPaused), pausedByVerb), "- - + + + - ! + +"},
		"paused by both":                   {both(pausedByVerb, pausedBySpec), "- - + + + - ! - +"},
		"resumed, and not seen yet":        {withActivity(rollouts.ActivityPaused), "+ + + + + - + ! +"},
		"aborting":                         {withActivity(rollouts.ActivityAborting), "- - - ! + + - - -"},
		"aborted":                          {withActivity(rollouts.ActivityAborted), "- - - ! + + - - -"},
		"aborting, bound to a template":    {both(withActivity(rollouts.ActivityAborting), withAbortedTemplate), "- - - + + + - - -"},
		"aborted, bound to a template":     {both(withActivity(rollouts.ActivityAborted), withAbortedTemplate), "- - - + + + - - -"},
		"rolling back, bound":              {both(both(withActivity(rollouts.ActivityAborted), withAbortedTemplate), func(r *rollouts.Rollout) { r.Status.Active().RollingBack = true }), "- - - + + + - - -"},
		"terminating, aborted and bound":   {both(leavingIn(rollouts.PhaseTerminating, ""), both(withActivity(rollouts.ActivityAborted), withAbortedTemplate)), "- - - + - - - - -"},
		"terminating, bound, restored":     {both(leavingIn(rollouts.PhaseTerminating, rollouts.FinalisingRestoreWorkload), both(withActivity(rollouts.ActivityAborted), withAbortedTemplate)), "- - - ! - - - - -"},
		"rolling back":                     {both(withActivity(rollouts.ActivityAborted), func(r *rollouts.Rollout) { r.Status.Active().RollingBack = true }), "- - - ! ! + - - -"},
		"cancelling":                       {withActivity(rollouts.ActivityCancelling), nothing},
		"finalising":                       {withActivity(rollouts.ActivityFinalising), "- - - + + - - - -"},
		"finalising, restored":             {restoredWorkload, nothing},
		"another template takes over":      {func(r *rollouts.Rollout) { r.Status.Active().FinalisingStep = rollouts.FinalisingRemoveRoute }, "- - - + + - + - -"},
		"another one, of what was aborted": {both(withActivity(rollouts.ActivityAborted), func(r *rollouts.Rollout) { r.Status.Active().FinalisingStep = rollouts.FinalisingDeleteBatch }), "- - - + + - + - -"},
		"another template is refused":      {withThirdTemplate, "- - - + + - + ! -"},
		"refused, and paused":              {both(withThirdTemplate, pausedByVerb), "- - - + + - ! + -"},
		"refused, paused by the spec":      {both(withThirdTemplate, pausedBySpec), "- - - + + - + - -"},
		"refused, and aborted":             {both(withThirdTemplate, withActivity(rollouts.ActivityAborted)), "- - - ! + + - - -"},
		"the workload is gone":             {withDeletedWorkload, nothing},
		"gone, and paused":                 {both(withDeletedWorkload, pausedByVerb), nothing},
		"gone, and aborted":                {both(withDeletedWorkload, withActivity(rollouts.ActivityAborted)), nothing},
		"healthy":                          {func(r *rollouts.Rollout) { r.Status.Phase = rollouts.PhaseHealthy }, nothing},
		"initial":                          {func(r *rollouts.Rollout) { r.Status = rollouts.RolloutStatus{Phase: rollouts.PhaseInitial} }, nothing},
		"disabled":                         {func(r *rollouts.Rollout) { r.Status.Phase = rollouts.PhaseDisabled }, nothing},
		"about to be disabled":             {func(r *rollouts.Rollout) { r.Spec.Disabled = true }, "- - - + - - - - -"},
		"being deleted":                    {func(r *rollouts.Rollout) { r.DeletionTimestamp = &decided }, "- - - + - - - - -"},
		"aborted, and being deleted":       {both(withActivity(rollouts.ActivityAborted), func(r *rollouts.Rollout) { r.DeletionTimestamp = &decided }), "- - - ! - - - - -"},
		"terminating":                      {leavingIn(rollouts.PhaseTerminating, ""), "- - - + - - - - -"},
		"terminating, traffic first":       {leavingIn(rollouts.PhaseTerminating, rollouts.FinalisingRemoveRoute), "- - - + - - - - -"},
		"terminating, restored":            {leavingIn(rollouts.PhaseTerminating, rollouts.FinalisingRestoreWorkload), nothing},
		"terminating, aborting":            {both(leavingIn(rollouts.PhaseTerminating, ""), withActivity(rollouts.ActivityAborting)), "- - - ! - - - - -"},
		"terminating, at rest":             {both(leavingIn(rollouts.PhaseTerminating, ""), withActivity(rollouts.ActivityCompleted)), nothing},
		"disabling":                        {leavingIn(rollouts.PhaseDisabling, ""), "- - - + - - - - -"},
		"disabling, all done":              {leavingIn(rollouts.PhaseDisabling, rollouts.FinalisingEnd), nothing},
	}
	signs := map[string]string{"ok": "+", "warned": "!", "refused": "-"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range asked {
				r := waitingRollout()
				test.change(r)
				got = append(got, signs[applyAndDescribe(t, r, c)])
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", columns, diff)
			}
		})
	}
	if got := applyAndDescribe(t, waitingRollout(), verb.Command{Verb: "praise"}); got != "refused" {
		t.Errorf("an unknown verb is %s", got)
	}
}

// withThirdTemplate is a blue-green release with a third template.
func withThirdTemplate(r *rollouts.Rollout) {
	r.Status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(rollouts.StalledRefused),
	}, metav1.NewTime(start))
}

// withAbortedTemplate is an abort of which a pass has found the template.
func withAbortedTemplate(r *rollouts.Rollout) {
	r.Status.Active().AbortedRevision, r.Status.Active().AbortedTemplate = "two", "digest-of-two"
}

// withDeletedWorkload is a release whose workload was deleted, while the network is tidied up.
func withDeletedWorkload(r *rollouts.Rollout) {
	r.Status.Message = "Workload Not Found"
	r.Status.Active().FinalisingStep = rollouts.FinalisingUnpinService
}

func both(a, b func(*rollouts.Rollout)) func(*rollouts.Rollout) {
	return func(r *rollouts.Rollout) {
		a(r)
		b(r)
	}
}

// leavingIn is a Rollout that leaves with a release in progress, and has come so far.
func leavingIn(phase rollouts.Phase, row rollouts.FinalisingStep) func(*rollouts.Rollout) {
	return func(r *rollouts.Rollout) { r.Status.Phase, r.Status.Active().FinalisingStep = phase, row }
}

func pausedBySpec(r *rollouts.Rollout) { r.Spec.Strategy.Paused = true }

func pausedByVerb(r *rollouts.Rollout) { r.Status.Active().Paused = true }

func restoredWorkload(r *rollouts.Rollout) {
	withActivity(rollouts.ActivityFinalising)(r)
	r.Status.Active().FinalisingStep = rollouts.FinalisingRestoreWorkload
}

func TestPromoteIsStored(t *testing.T) {
	t.Parallel()
	r := waitingRollout()
	want := r.DeepCopy()
	want.Status.Active().State = rollouts.StepReady
	want.Status.Active().LastUpdateTime = &decided
	want.Status.Decisions = []rollouts.Decision{{
		ID: 1, Verb: rollouts.VerbPromote, User: "alice", UID: "u1", UserAgent: "curl", Time: decided,
		Step: 2, Revision: "two", Reason: "looks good", RequestID: "r1", Via: rollouts.ViaStatus,
	}}
	applyAndDescribe(t, r, verb.Command{
		Verb: rollouts.VerbPromote, User: "alice", UID: "u1", UserAgent: "curl", Via: rollouts.ViaStatus,
		Options: rollouts.DecisionOptions{Reason: "looks good", RequestID: "r1"},
	})
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestFullAndAbortAreStored(t *testing.T) {
	t.Parallel()
	r := waitingRollout()
	withState(rollouts.StepUpgrade)(r)
	applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbPromote, Full: true})
	if p := r.Status.Active(); !p.FullyPromoted || p.State != rollouts.StepUpgrade {
		t.Errorf("promoted in full: %+v", p)
	}
	applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbAbort})
	p := r.Status.Active()
	if p.FullyPromoted || r.Status.Activity() != rollouts.ActivityAborting || !p.LastUpdateTime.Equal(&decided) {
		t.Errorf("aborted: %s, %+v", r.Status.Activity(), p)
	}
	if ds := r.Status.Decisions; len(ds) != 2 || ds[0].ID != 1 || ds[1].ID != 2 {
		t.Errorf("decisions: %+v", ds)
	}
}

// TestSecondAbort: a second abort, or rollback, is recorded and bound to the template that is
// set by then. The release keeps going back as before.
func TestSecondAbort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		first, second rollouts.Verb
		rollingBack   bool
	}{
		{rollouts.VerbAbort, rollouts.VerbAbort, false},
		{rollouts.VerbAbort, rollouts.VerbRollback, true},
		{rollouts.VerbRollback, rollouts.VerbRollback, true},
		{rollouts.VerbRollback, rollouts.VerbAbort, true},
	} {
		t.Run(string(tt.first)+", "+string(tt.second), func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			withThirdTemplate(r)
			applyAndDescribe(t, r, verb.Command{Verb: tt.first})
			withAbortedTemplate(r)
			r.Status.Active().FinalisingStep = rollouts.FinalisingRemoveRoute
			if got := applyAndDescribe(t, r, verb.Command{Verb: tt.second, User: "bob"}); got != "ok" {
				t.Fatalf("the second is %s", got)
			}
			p := r.Status.Active()
			if p.AbortedRevision != "" || p.AbortedTemplate != "" {
				t.Errorf("still bound to %s (%s)", p.AbortedRevision, p.AbortedTemplate)
			}
			if a := r.Status.Activity(); a != rollouts.ActivityAborting || p.RollingBack != tt.rollingBack || p.FinalisingStep != rollouts.FinalisingRemoveRoute {
				t.Errorf("%s, rolling back %t, at %q", a, p.RollingBack, p.FinalisingStep)
			}
			if c := r.Status.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledRefused) {
				t.Error("the template still counts as refused before the abort")
			}
			if ds := r.Status.Decisions; len(ds) != 2 || ds[1].Verb != tt.second || ds[1].User != "bob" {
				t.Errorf("decisions: %+v", ds)
			}
		})
	}
}

// TestRequestID: the same request again changes nothing, whatever has happened
// since; for another user or another verb it is another request.
func TestRequestID(t *testing.T) {
	t.Parallel()
	once := verb.Command{Verb: rollouts.VerbPromote, User: "alice", Options: rollouts.DecisionOptions{RequestID: "r1"}}
	r := waitingRollout()
	applyAndDescribe(t, r, once)
	after := r.DeepCopy()
	step := int32(9)
	again := once
	again.Options.Expect = &rollouts.Expectation{Step: &step}
	if got := applyAndDescribe(t, r, again); got != "ok" {
		t.Errorf("the same request again is %s", got)
	}
	if diff := cmp.Diff(after, r); diff != "" {
		t.Errorf("the same request again changed:\n%s", diff)
	}
	later := r.DeepCopy()
	later.Status.Active().UpdateRevision = "three"
	if got := applyAndDescribe(t, later, again); got != "warned" {
		t.Errorf("the same request in another release is %s", got)
	}
	other := once
	other.User = "bob"
	if got := applyAndDescribe(t, r, other); got != "refused" {
		t.Errorf("the request of another user is %s", got)
	}
	other = once
	other.Verb = rollouts.VerbAbort
	if got := applyAndDescribe(t, r, other); got != "ok" || len(r.Status.Decisions) != 2 {
		t.Errorf("the request of another verb is %s", got)
	}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	two, three := int32(2), int32(3)
	tests := map[string]struct {
		expect rollouts.Expectation
		want   string
	}{
		"nothing":          {rollouts.Expectation{}, "ok"},
		"everything":       {rollouts.Expectation{Step: &two, Revision: "two", Plan: "plan", ResourceVersion: "7", UID: "uid-1"}, "ok"},
		"step":             {rollouts.Expectation{Step: &three}, "refused"},
		"revision":         {rollouts.Expectation{Revision: "three"}, "refused"},
		"plan":             {rollouts.Expectation{Plan: "another"}, "refused"},
		"resource version": {rollouts.Expectation{ResourceVersion: "8"}, "refused"},
		"uid":              {rollouts.Expectation{UID: "uid-2"}, "refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbAbort} {
				c := verb.Command{Verb: v, Options: rollouts.DecisionOptions{Expect: &test.expect}}
				if got := applyAndDescribe(t, waitingRollout(), c); got != test.want {
					t.Errorf("%s is %s, want %s", v, got, test.want)
				}
			}
		})
	}
	if got := applyAndDescribe(t, &rollouts.Rollout{}, verb.Command{
		Verb: rollouts.VerbPromote, Options: rollouts.DecisionOptions{Expect: &rollouts.Expectation{Step: &two}},
	}); got != "refused" {
		t.Errorf("a step of nothing is %s", got)
	}
}

// TestRequestIDOvertaken: a repetition of what is not in force any more says so,
// and does nothing; what is in force is repeated quietly.
func TestRequestIDOvertaken(t *testing.T) {
	t.Parallel()
	use := func(v rollouts.Verb, user, id string, step int32) verb.Command {
		return verb.Command{Verb: v, User: user, Step: step, Options: rollouts.DecisionOptions{RequestID: id}}
	}
	for name, tc := range map[string]struct {
		// Each is used once, and then the first of them again.
		first verb.Command
		then  []verb.Command
		// moved is what the controller has made of it.
		moved func(*rollouts.Rollout)
		want  string
	}{
		"promote":                  {first: use(rollouts.VerbPromote, "alice", "a", 0), want: "ok"},
		"promote, acted on":        {first: use(rollouts.VerbPromote, "alice", "a", 0), moved: settleDecisions, want: "ok"},
		"promote, the next step":   {first: use(rollouts.VerbPromote, "alice", "a", 0), moved: both(settleDecisions, moveToNextStep), want: "warned"},
		"promote, jump":            {first: use(rollouts.VerbPromote, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbJump, "bob", "b", 2)}, want: "warned"},
		"promote, abort":           {first: use(rollouts.VerbPromote, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbAbort, "bob", "b", 0)}, want: "warned"},
		"abort":                    {first: use(rollouts.VerbAbort, "alice", "a", 0), want: "ok"},
		"abort, aborted":           {first: use(rollouts.VerbAbort, "alice", "a", 0), moved: both(settleDecisions, withActivity(rollouts.ActivityAborted)), want: "ok"},
		"abort, cancelled":         {first: use(rollouts.VerbAbort, "alice", "a", 0), moved: both(settleDecisions, withActivity(rollouts.ActivityCancelling)), want: "ok"},
		"abort, retry":             {first: use(rollouts.VerbAbort, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbRetry, "bob", "b", 0)}, want: "warned"},
		"abort, retry after a lot": {first: use(rollouts.VerbAbort, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbRetry, "bob", "b", 0)}, moved: settleDecisions, want: "warned"},
		"abort, over":              {first: use(rollouts.VerbAbort, "alice", "a", 0), moved: both(settleDecisions, func(r *rollouts.Rollout) { r.Status.Phase = rollouts.PhaseHealthy }), want: "warned"},
		"rollback":                 {first: use(rollouts.VerbRollback, "alice", "a", 0), want: "ok"},
		"rollback, retry":          {first: use(rollouts.VerbRollback, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbRetry, "alice", "b", 0)}, want: "warned"},
		"rollback, retry, abort": {
			first: use(rollouts.VerbRollback, "alice", "a", 0),
			then:  []verb.Command{use(rollouts.VerbRetry, "alice", "b", 0), use(rollouts.VerbAbort, "alice", "c", 0)}, want: "warned",
		},
		"pause":         {first: use(rollouts.VerbPause, "alice", "a", 0), want: "ok"},
		"pause, resume": {first: use(rollouts.VerbPause, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbResume, "alice", "b", 0)}, want: "warned"},
		"pause, abort":  {first: use(rollouts.VerbPause, "alice", "a", 0), then: []verb.Command{use(rollouts.VerbAbort, "alice", "b", 0)}, want: "warned"},
		"jump":          {first: use(rollouts.VerbJump, "alice", "a", 1), want: "ok"},
		"jump, jump":    {first: use(rollouts.VerbJump, "alice", "a", 1), then: []verb.Command{use(rollouts.VerbJump, "alice", "b", 3)}, want: "warned"},
		"jump, on":      {first: use(rollouts.VerbJump, "alice", "a", 2), moved: both(settleDecisions, moveToNextStep), want: "warned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			for _, c := range append([]verb.Command{tc.first}, tc.then...) {
				if got := applyAndDescribe(t, r, c); got != "ok" {
					t.Fatalf("%s is %s", c.Verb, got)
				}
			}
			if tc.moved != nil {
				tc.moved(r)
			}
			before := r.DeepCopy()
			if got := applyAndDescribe(t, r, tc.first); got != tc.want {
				t.Errorf("the repetition is %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(before, r); diff != "" {
				t.Errorf("the repetition changed:\n%s", diff)
			}
		})
	}
}

func settleDecisions(r *rollouts.Rollout) {
	for i := range r.Status.Decisions {
		if d := &r.Status.Decisions[i]; d.Outcome == "" {
			d.Outcome = rollouts.OutcomeApplied
		}
	}
}

func moveToNextStep(r *rollouts.Rollout) {
	p := r.Status.Active()
	p.CurrentStepIndex, p.State = p.CurrentStepIndex+1, rollouts.BeforeStepUpgrade
}
