// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const approval = `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`

// kubectl-kruise approves with a merge patch of one field. KubeVela reads and puts the whole object in
// v1alpha1, other clients in v1beta1. Each such write is a decision.
func TestApprovalByStatus(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, as, ns string) answer{
		"merge patch": func(t *testing.T, as, ns string) answer {
			return patch(t, as, one(v1beta1Path, ns, "web")+"/status", approval)
		},
		"merge patch, v1alpha1": func(t *testing.T, as, ns string) answer {
			return patch(t, as, one(v1alpha1Path, ns, "web")+"/status", approval)
		},
		"put":           putByOldClient(v1beta1Path),
		"put, v1alpha1": putByOldClient(v1alpha1Path),
		"JSON patch": func(t *testing.T, as, ns string) answer {
			return call(t, request{
				as: as, method: "PATCH", path: one(v1beta1Path, ns, "web") + "/status",
				body:    `[{"op":"replace","path":"/status/canaryStatus/currentStepState","value":"StepReady"}]`,
				headers: map[string]string{"Content-Type": "application/json-patch+json"},
			})
		},
	}
	for name, approve := range ways {
		for _, as := range []string{alice, admin} {
			t.Run(name+" by "+as, func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				want := releasing(t, ns, "web").Status
				approve(t, as, ns).must(t, http.StatusOK)

				want.Canary.State, want.CurrentStepState = v1beta1.StepReady, v1beta1.StepReady
				want.Decisions = []v1beta1.Decision{{ID: 1, Verb: "promote", User: as, UserAgent: "test/1", Step: 1, Revision: "v2", Via: "status"}}
				got := get(t, ns, "web").Status
				ignore := cmp.Options{
					cmpopts.IgnoreFields(v1beta1.Decision{}, "Time", "UID"),
					cmpopts.IgnoreFields(v1beta1.Progress{}, "LastUpdateTime"),
				}
				if diff := cmp.Diff(want, got, ignore); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
				if name == "put" || name == "put, v1alpha1" {
					approve(t, as, ns).must(t, http.StatusOK)
				}
				if d := get(t, ns, "web").Status.Decisions; len(d) != 1 {
					t.Errorf("%d decisions after a repetition, want 1", len(d))
				}
			})
		}
	}
}

// putByOldClient reads the object, approves in it and puts it back, without fields that the client's types
// lack.
func putByOldClient(version string) func(t *testing.T, as, ns string) answer {
	return func(t *testing.T, as, ns string) answer {
		t.Helper()
		var obj map[string]any
		a := call(t, request{as: as, method: "GET", path: one(version, ns, "web")}).must(t, http.StatusOK)
		if err := json.Unmarshal(a.body, &obj); err != nil {
			t.Fatal(err)
		}
		status := obj["status"].(map[string]any)
		status["canaryStatus"].(map[string]any)["currentStepState"] = "StepReady"
		delete(status, "decisions")
		delete(status["canaryStatus"].(map[string]any), "rolloutHash")
		return call(t, request{as: as, method: "PUT", path: one(version, ns, "web") + "/status", body: obj})
	}
}

// The permission to write the status is not sufficient to approve.
func TestApprovalByStatusNeedsPermission(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web")
	a := patch(t, dave, one(v1beta1Path, ns, "web")+"/status", approval).must(t, http.StatusForbidden)
	if m := a.status().Message; !strings.Contains(m, "create rollouts/promote") || !strings.Contains(m, "dave") {
		t.Errorf("message is %q, want the missing permission in it", m)
	}
	if diff := cmp.Diff(before, get(t, ns, "web")); diff != "" {
		t.Errorf("a refused approval changed something (-before +after):\n%s", diff)
	}
}

// An approval by the status is refused like the verb if no step waits.
func TestApprovalByStatusTooEarly(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	r.Status.Canary.State = v1beta1.StepUpgrade
	call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
	a := patch(t, alice, one(v1beta1Path, ns, "web")+"/status", approval).must(t, http.StatusConflict)
	if m := a.status().Message; !strings.Contains(m, "StepUpgrade") {
		t.Errorf("message is %q, want the state in it", m)
	}
}

// Users who may not write the progress of releases can change only conditions of their own. Other changes
// are ignored without an error, because old clients send back what they have read.
func TestStatusOfOthers(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web")
	path := one(v1beta1Path, ns, "web") + "/status"
	ignored := patch(t, dave, path, `{"status":{
		"phase":"Healthy","message":"all is well","observedGeneration":7,"decisions":[{"id":1,"verb":"promote","user":"mallory","time":"2020-01-01T00:00:00Z","via":"verb"}],
		"canaryStatus":{"canaryRevision":"v9","currentStepIndex":3,"fullyPromoted":true,"paused":true},
		"conditions":[{"type":"Progressing","status":"False","reason":"Completed","message":"forged"},{"type":"KuberikBakeHealthy","status":"True","reason":"Baked","message":"yes"}]},
		"spec":{"disabled":true},"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	if len(ignored.warnings) != 1 || !strings.Contains(ignored.warnings[0], "status.phase") {
		t.Errorf("warnings are %q, want one about what was not written", ignored.warnings)
	}
	want := before.DeepCopy()
	want.Status.Conditions = append(want.Status.Conditions, v1beta1.Condition{
		Type: "KuberikBakeHealthy", Status: "True", Reason: "Baked", Message: "yes",
	})
	ignore := cmpopts.IgnoreFields(v1beta1.Rollout{}, "ObjectMeta.ResourceVersion", "ObjectMeta.ManagedFields")
	if diff := cmp.Diff(want, get(t, ns, "web"), ignore); diff != "" {
		t.Errorf("rollout (-want +got):\n%s", diff)
	}

	// The condition changes, and an older client that did not read it loses nothing.
	if a := patch(t, dave, path, `{"status":{"conditions":[{"type":"KuberikBakeHealthy","status":"False","reason":"Burnt","message":"no"}]}}`).must(t, http.StatusOK); len(a.warnings) > 0 {
		t.Errorf("warnings are %q of a condition that was written", a.warnings)
	}
	patch(t, dave, path, `{"status":{"conditions":null}}`).must(t, http.StatusOK)
	want.Status.Conditions[1] = v1beta1.Condition{Type: "KuberikBakeHealthy", Status: "False", Reason: "Burnt", Message: "no"}
	if diff := cmp.Diff(want, get(t, ns, "web"), ignore); diff != "" {
		t.Errorf("rollout (-want +got):\n%s", diff)
	}
}

// An administrator's tool with older types reads and puts the status. The fields that its types lack stay.
func TestStatusOfOlderAdministrators(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"v1beta1": v1beta1Path, "v1alpha1": v1alpha1Path} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			r := releasing(t, ns, "web")
			r.Status.Canary.FullyPromoted, r.Status.Canary.Paused, r.Status.Canary.RollingBack = true, true, true
			r.Status.Canary.FinalisingStep = v1beta1.FinalisingRemoveRoute
			r.Status.Releases = []v1beta1.ReleaseRecord{{Number: 1, FirstDecision: 1}}
			r.Status.WorkloadUID = "of-the-workload"
			r.Status.Network = &v1beta1.NetworkHold{Since: metav1.Unix(1, 0), Originals: []string{"digest"}}
			path := one(version, ns, "web")
			before := call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK).rollout(t)

			obj := decoded[map[string]any](t, call(t, request{as: admin, method: "GET", path: path}).must(t, http.StatusOK))
			progress := obj["status"].(map[string]any)["canaryStatus"].(map[string]any)
			for _, newer := range []string{"fullyPromoted", "paused", "rollingBack", "nextStepIndex", "finalisingStep"} {
				if progress[newer] == nil {
					t.Errorf("%s is not shown", newer)
				}
				delete(progress, newer)
			}
			for _, newer := range []string{"releases", "workloadUID", "network"} {
				delete(obj["status"].(map[string]any), newer)
			}
			call(t, request{as: admin, method: "PUT", path: path + "/status", body: obj}).must(t, http.StatusOK)
			if diff := cmp.Diff(before.Status, get(t, ns, "web").Status); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
		})
	}
}

// A gate of another controller may report a release as stalled, and clear that condition. It cannot change
// Weir's own condition.
func TestStalledByOthers(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	path := one(v1beta1Path, ns, "web") + "/status"
	stalled := func() string {
		for _, c := range get(t, ns, "web").Status.Conditions {
			if c.Type == "Stalled" {
				return c.Reason + " " + string(c.Status)
			}
		}
		return ""
	}
	say := func(as, status, reason string, code int) answer {
		t.Helper()
		return patch(t, as, path, `{"status":{"conditions":[{"type":"Progressing","status":"True","reason":"InRolling","message":"rolling"},
			{"type":"Stalled","status":"`+status+`","reason":"`+reason+`","message":"m"}]}}`).must(t, code)
	}
	for _, like := range []string{"ABORTED", "aborted", "\u0410borted", "Aborted_", "Stable_Edited", "Stable-Edited", "revisionRefused", "Step timeout", ""} {
		say(dave, "True", like, http.StatusUnprocessableEntity)
	}
	for _, c := range []struct{ as, status, reason, want string }{
		{dave, "True", "StepReadyTimeoutExceeded", "StepReadyTimeoutExceeded True"},
		{dave, "False", "StepReadyTimeoutExceeded", "StepReadyTimeoutExceeded False"},
		{controller, "True", "Aborted", "Aborted True"},
		{dave, "False", "Fine", "Aborted True"},
	} {
		say(c.as, c.status, c.reason, http.StatusOK)
		if got := stalled(); got != c.want {
			t.Errorf("after %s wrote %s %s: %s, want %s", c.as, c.reason, c.status, got, c.want)
		}
	}
}

// The controller can write everything except decisions. It sets the outcome of each decision once.
func TestStatusOfController(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	r := verb(t, alice, v1beta1Path, ns, "promote", nil).must(t, http.StatusCreated).rollout(t)
	path := one(v1beta1Path, ns, "web") + "/status"
	put := func(change func(*v1beta1.RolloutStatus)) *v1beta1.Rollout {
		next := get(t, ns, "web")
		change(&next.Status)
		return call(t, request{as: controller, method: "PUT", path: path, body: next}).must(t, http.StatusOK).rollout(t)
	}

	want := r.Status.DeepCopy()
	got := put(func(s *v1beta1.RolloutStatus) {
		s.Canary.CurrentStepIndex, s.Canary.NextStepIndex, s.Canary.State = 2, 3, v1beta1.BeforeStepUpgrade
		s.Decisions[0].Outcome = "applied"
		s.Decisions[0].User = "mallory"
		s.Decisions = append(s.Decisions, v1beta1.Decision{ID: 2, Verb: "abort", User: "mallory", Via: "verb", Time: s.Decisions[0].Time})
	})
	want.Canary.CurrentStepIndex, want.Canary.NextStepIndex, want.Canary.State = 2, 3, v1beta1.BeforeStepUpgrade
	want.CurrentStepIndex, want.CurrentStepState = 2, v1beta1.BeforeStepUpgrade
	want.Decisions[0].Outcome = "applied"
	if diff := cmp.Diff(*want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got = put(func(s *v1beta1.RolloutStatus) { s.Decisions[0].Outcome = "rejected" })
	if diff := cmp.Diff(*want, got.Status); diff != "" {
		t.Errorf("an outcome changed (-want +got):\n%s", diff)
	}
	// The end of a timed pause is not a decision.
	put(func(s *v1beta1.RolloutStatus) { s.Canary.State = v1beta1.StepPaused })
	got = put(func(s *v1beta1.RolloutStatus) { s.Canary.State = v1beta1.StepReady })
	if got.Status.Canary.State != v1beta1.StepReady || len(got.Status.Decisions) != 1 {
		t.Errorf("after a timed pause: %s with %d decisions, want StepReady with 1", got.Status.Canary.State, len(got.Status.Decisions))
	}
}

// A client of v1alpha1 writes the status. Fields that its version lacks stay.
func TestStatusKeepsSpecOfOtherVersion(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	body := strings.Replace(manifest("web", "web"), `{"replicas": "20%"}`,
		`{"replicas": "20%", "traffic": "20%", "requestHeaderModifier": {"set": [{"name": "x", "value": "y"}]}}`, 1)
	before := call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: body}).must(t, http.StatusCreated).rollout(t)
	path := one(v1alpha1Path, ns, "web")
	var obj map[string]any
	if err := json.Unmarshal(call(t, request{as: controller, method: "GET", path: path}).must(t, http.StatusOK).body, &obj); err != nil {
		t.Fatal(err)
	}
	delete(obj, "spec")
	obj["status"].(map[string]any)["message"] = "hello"
	call(t, request{as: controller, method: "PUT", path: path + "/status", body: obj}).must(t, http.StatusOK)
	after := get(t, ns, "web")
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Generation != 1 || after.Status.Message != "hello" {
		t.Errorf("message %q, generation %d, spec (-before +after):\n%s", after.Status.Message, after.Generation, diff)
	}
}
