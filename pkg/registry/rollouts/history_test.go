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
