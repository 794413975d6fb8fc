// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// file creates the history that the controller would write.
func file(t *testing.T, ns string, r *v1beta1.Rollout, number int64, from, to string) {
	t.Helper()
	owner := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: r.UID}}
	history := fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory",
		"metadata":{"name":%q,"labels":{"rollouts.kruise.io/rollout-name":"web","rollouts.kruise.io/release-number":"%d"}},
		"spec":{"workload":{"apiVersion":"apps/v1","kind":"Deployment","name":"web","data":{"template":%s}},"stable":{"name":"web-1","data":{"template":%s}}}}`,
		planner.HistoryName(owner, number), number, to, from)
	call(t, request{as: controller, method: "POST", path: v1alpha1Path + "/namespaces/" + ns + "/rollouthistories", body: history}).must(t, http.StatusCreated)
}

func template(image, log, hash string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{"app":"web","pod-template-hash":%q}},"spec":{"containers":[
		{"name":"app","image":%q,"env":[{"name":"LOG","value":%q},{"name":"A","value":"b"}]}]}}`, hash, image, log)
}

// The newest release comes first. Changes of lists use the keys of the list elements.
func TestHistory(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	first, second, third := template("web:v1", "info", "1"), template("web:v2", "info", "2"), template("web:v2", "debug", "")
	file(t, ns, r, 1, first, second)
	file(t, ns, r, 2, second, third)
	path := one(v1beta1Path, ns, "web") + "/history"
	got := decoded[v1beta1.RolloutReleases](t, call(t, request{as: victor, method: "GET", path: path}).must(t, http.StatusOK))
	if len(got.Releases) != 2 || got.Releases[0].Number != 2 || len(got.Releases[0].Restore.Raw) > 0 {
		t.Fatalf("releases %+v", got.Releases)
	}
	for i, want := range [][]v1beta1.Change{
		{{Path: "spec.containers[app].env[LOG].value", From: `"info"`, To: `"debug"`}},
		{{Path: "spec.containers[app].image", From: `"web:v1"`, To: `"web:v2"`}},
	} {
		if diff := cmp.Diff(want, got.Releases[i].Changes); diff != "" {
			t.Errorf("release %d (-want +got):\n%s", got.Releases[i].Number, diff)
		}
	}
	if diff := cmp.Diff([]v1beta1.ImageChange{{Container: "app", From: "web:v1", To: "web:v2"}}, got.Releases[1].Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	one := decoded[v1beta1.RolloutReleases](t, call(t, request{as: victor, method: "GET", path: path + "?release=1"}).must(t, http.StatusOK))
	if len(one.Releases) != 1 || !strings.HasPrefix(string(one.Releases[0].Restore.Raw), `{"spec":{"template":{"metadata":{"labels":{"app":"web"`) {
		t.Fatalf("release 1 is %+v", one.Releases)
	}
	none := call(t, request{as: victor, method: "GET", path: path + "?release=7"}).must(t, http.StatusBadRequest)
	if m := none.status().Message; !strings.Contains(m, "no release 7") {
		t.Errorf("release 7: %s", m)
	}
}

// Only histories of the controller count, because other users may write the labels.
func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	r.UID = "of-another-one"
	file(t, ns, r, 1, template("web:v1", "info", "1"), template("web:v2", "info", "2"))
	got := decoded[v1beta1.RolloutReleases](t, call(t, request{as: victor, method: "GET", path: one(v1beta1Path, ns, "web") + "/history"}).must(t, http.StatusOK))
	if len(got.Releases) != 0 {
		t.Errorf("releases %+v", got.Releases)
	}
}

// The version that served before a release can be restored, also the one before the first release: its template is in
// the history of the release.
func TestRestoreStable(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	file(t, ns, r, 1, template("web:v1", "info", "1"), template("web:v2", "info", ""))
	file(t, ns, r, 2, template("web:v2", "info", "2"), template("web:v3", "debug", ""))
	path := one(v1beta1Path, ns, "web") + "/history"
	for who, sees := range map[string]bool{victor: true, heidi: false} { // heidi may not get workloads
		all := decoded[v1beta1.RolloutReleases](t, call(t, request{as: who, method: "GET", path: path}).must(t, http.StatusOK))
		for _, past := range all.Releases {
			if past.StableOnRecord != sees || len(past.RestoreStable.Raw) > 0 {
				t.Errorf("%s: release %d is %+v", who, past.Number, past)
			}
		}
		want := ""
		if sees {
			want = `{"spec":{"template":{"metadata":{"labels":{"app":"web","pod-template-hash":null}},"spec":{"containers":[{"env":[{"name":"LOG","value":"info"},{"name":"A","value":"b"}],"image":"web:v1","name":"app"}]}}}}`
		}
		first := decoded[v1beta1.RolloutReleases](t, call(t, request{as: who, method: "GET", path: path + "?release=1"}).must(t, http.StatusOK))
		if got := string(first.Releases[0].RestoreStable.Raw); got != want {
			t.Errorf("%s: before release 1 is restored by %s\nwant %s", who, got, want)
		}
	}
}

// A history has what was built into a release. Whatever stands there, the answer has only texts that can be shown.
func TestHistorySource(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	file(t, ns, r, 1, template("web:v1", "info", "1"), template("web:v2", "info", ""))
	owner := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: r.UID}}
	patch(t, controller, v1alpha1Path+"/namespaces/"+ns+"/rollouthistories/"+planner.HistoryName(owner, 1),
		`{"spec":{"source":{"commit":"4f2c8a1","author":"ali\u202ece","link":"javascript:alert(1)","repository":"https://example.com/web"}}}`).must(t, http.StatusOK)
	got := decoded[v1beta1.RolloutReleases](t, call(t, request{as: victor, method: "GET", path: one(v1beta1Path, ns, "web") + "/history"}).must(t, http.StatusOK))
	want := &v1beta1.ReleaseSource{Commit: "4f2c8a1", Author: "ali\ufffdce", Repository: "https://example.com/web"}
	if diff := cmp.Diff(want, got.Releases[0].Source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	r = get(t, ns, "web")
	r.Status.Releases = []v1beta1.ReleaseRecord{{Number: 1, StableRevision: "v1", UpdateRevision: "v2", StartTime: r.CreationTimestamp, FirstDecision: 1}}
	call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
	if diff := cmp.Diff(want, why(t, victor, ns).Release.Source); diff != "" {
		t.Errorf("source of the release in progress (-want +got):\n%s", diff)
	}
}
