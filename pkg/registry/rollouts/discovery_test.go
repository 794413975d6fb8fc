// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func decoded[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("decoding %s: %v", a.body, err)
	}
	return v
}

// Both versions are served with the verbs. v1beta1 is preferred.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	group := decoded[metav1.APIGroup](t, call(t, request{as: admin, method: "GET", path: "/apis/rollouts.kruise.io"}).must(t, http.StatusOK))
	var versions []string
	for _, v := range group.Versions {
		versions = append(versions, v.Version)
	}
	if diff := cmp.Diff([]string{"v1beta1", "v1alpha1"}, versions); diff != "" || group.PreferredVersion.Version != "v1beta1" {
		t.Errorf("preferred %s, versions (-want +got):\n%s", group.PreferredVersion.Version, diff)
	}
	const all, status = "create,delete,deletecollection,get,list,patch,update,watch", "get,patch,update"
	stored := []string{
		"batchreleases BatchRelease " + all,
		"batchreleases/status BatchRelease " + status,
		"rollouts Rollout " + all,
		"rollouts/abort AbortOptions create",
		"rollouts/jump JumpOptions create",
		"rollouts/pause PauseOptions create",
		"rollouts/promote PromoteOptions create",
		"rollouts/resume ResumeOptions create",
		"rollouts/retry RetryOptions create",
		"rollouts/rollback RollbackOptions create",
		"rollouts/status Rollout " + status,
	}
	// v1beta1 lacks two kinds.
	older := []string{
		"rollouthistories RolloutHistory " + all, "rollouthistories/status RolloutHistory " + status,
		"trafficroutings TrafficRouting " + all, "trafficroutings/status TrafficRouting " + status,
	}
	// Computed subresources exist only in v1beta1.
	views := []string{"rollouts/history RolloutReleases get", "rollouts/plan RolloutPlan create,get", "rollouts/tree RolloutTree get,watch", "rollouts/why RolloutWhy get"}
	for path, more := range map[string][]string{v1beta1Path: views, v1alpha1Path: older} {
		want := slices.Sorted(slices.Values(slices.Concat(stored, more)))
		list := decoded[metav1.APIResourceList](t, call(t, request{as: admin, method: "GET", path: path}).must(t, http.StatusOK))
		var got []string
		for _, r := range list.APIResources {
			verbs := slices.Sorted(slices.Values(r.Verbs))
			got = append(got, r.Name+" "+r.Kind+" "+strings.Join(verbs, ","))
			if !strings.Contains(r.Name, "/") && r.StorageVersionHash == "" {
				t.Errorf("%s %s has no storage version", path, r.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// The names of OpenAPI models are those of the CRDs. They contain no slashes, which would break the OpenAPI
// document of the whole cluster.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	v2 := decoded[struct {
		Definitions map[string]any `json:"definitions"`
		Paths       map[string]any `json:"paths"`
	}](t, call(t, request{as: admin, method: "GET", path: "/openapi/v2"}).must(t, http.StatusOK))
	for name := range v2.Definitions {
		if strings.ContainsAny(name, "/~") {
			t.Errorf("model %s", name)
		}
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for _, kind := range []string{"Rollout", "BatchRelease", "PromoteOptions"} {
			if v2.Definitions["io.kruise.rollouts."+version+"."+kind] == nil {
				t.Errorf("no model of %s %s", version, kind)
			}
		}
		path := "/apis/rollouts.kruise.io/" + version + "/namespaces/{namespace}/rollouts/{name}/promote"
		if v2.Paths[path] == nil {
			t.Errorf("no path %s", path)
		}
		a := call(t, request{as: admin, method: "GET", path: "/openapi/v3/apis/rollouts.kruise.io/" + version}).must(t, http.StatusOK)
		v3 := decoded[struct {
			Paths map[string]struct {
				Post struct {
					Responses map[string]any `json:"responses"`
				} `json:"post"`
			} `json:"paths"`
		}](t, a)
		answers, err := json.Marshal(v3.Paths[path].Post.Responses)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(answers), "io.kruise.rollouts."+version+".Rollout") {
			t.Errorf("the answer of %s is %s, want a Rollout", path, answers)
		}
	}
}

// The columns are those of OpenKruise, in their order. The state and the versions follow, and more in wide output.
func TestTable(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	patch(t, admin, one(v1beta1Path, ns, releasing(t, ns, "web").Name), `{"spec":{"strategy":{"canary":{"steps":[
		{"replicas":"20%","traffic":"20%"},{"replicas":"50%"},{"replicas":"100%"}]}}}}`).must(t, http.StatusOK)
	verb(t, alice, v1beta1Path, ns, "pause", nil).must(t, http.StatusCreated)
	verb(t, alice, v1beta1Path, ns, "resume", nil).must(t, http.StatusCreated)
	create(t, ns, "idle", "idle")
	for _, version := range []string{v1beta1Path, v1alpha1Path} {
		a := call(t, request{as: admin, method: "GET", path: list(version, ns), headers: map[string]string{
			"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
		}}).must(t, http.StatusOK)
		table := decoded[metav1.Table](t, a)
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, fmt.Sprintf("%s %s %d", c.Name, c.Type, c.Priority))
		}
		if diff := cmp.Diff([]string{
			"Name string 0", "STATUS string 0", "CANARY_STEP integer 0", "CANARY_STATE string 0", "MESSAGE string 0", "AGE date 0",
			"STATE string 0", "VERSIONS string 0",
			"WAITING-FOR string 1", "SINCE date 1", "STEP string 1", "NEW string 1", "TRAFFIC string 1", "BY string 1",
		}, columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version, diff)
		}
		var rows [][]any
		for _, r := range table.Rows {
			rows = append(rows, slices.Concat(r.Cells[:5], r.Cells[6:9], r.Cells[10:]))
		}
		want := [][]any{
			{"idle", "Initial", nil, nil, nil, "Not ready", nil, "Deployment idle", nil, nil, nil, nil},
			{"web", "Progressing", float64(1), "StepPaused", "Rollout is in step(1/3), and you need manually confirm to enter the next step", "Waiting", "v1 → v2", "approval of step 1/3", "1/3", "2/2", "20%", alice},
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", version, diff)
		}
	}
}

// The versions of a row are those of the image that its latest release changes, and otherwise the revisions. A user needs
// no permission for them except that for the Rollout.
func TestTableVersions(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	rows := func() (got []string) {
		for _, path := range []string{list(v1beta1Path, ns), one(v1beta1Path, ns, "web"), v1beta1Path + "/rollouts?fieldSelector=metadata.namespace%3D" + ns} {
			a := call(t, request{as: heidi, method: "GET", path: path, headers: map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}}).must(t, http.StatusOK)
			for _, r := range decoded[metav1.Table](t, a).Rows {
				got = append(got, fmt.Sprintf("%v: %v", r.Cells[6], r.Cells[7]))
			}
		}
		return got
	}
	record := func(change func(*v1beta1.Rollout)) {
		r := get(t, ns, "web")
		change(r)
		call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
	}
	first := v1beta1.ReleaseRecord{Number: 1, StableRevision: "v1", UpdateRevision: "v2", StartTime: metav1.Now(), FirstDecision: 1}
	record(func(r *v1beta1.Rollout) { r.Status.Releases = []v1beta1.ReleaseRecord{first} })
	file(t, ns, get(t, ns, "web"), 1, template("shop/web:1.9", "info", "1"), template("shop/web:1.10", "debug", ""))
	for _, c := range []struct {
		want   string
		change func(*v1beta1.Rollout)
	}{
		{"Waiting: 1.9 → 1.10", func(*v1beta1.Rollout) {}},
		{"Failing: 1.9 → 1.10", func(r *v1beta1.Rollout) {
			r.Status.Conditions = append(r.Status.Conditions, v1beta1.Condition{Type: "Failing", Status: metav1.ConditionTrue, Reason: "ImagePull", Message: "no image; push it"})
		}},
		{"Healthy: 1.9", func(r *v1beta1.Rollout) {
			r.Status.Conditions, r.Status.Phase = nil, v1beta1.PhaseHealthy
			r.Status.Releases[0].Outcome, r.Status.Releases[0].EndTime = v1beta1.ReleaseAborted, &first.StartTime
		}},
		{"Healthy: 1.10", func(r *v1beta1.Rollout) { r.Status.Releases[0].Outcome = v1beta1.ReleaseSucceeded }},
		{"Disabled: 1.10", func(r *v1beta1.Rollout) { r.Status.Phase = v1beta1.PhaseDisabled }},
		{"Disabled: v3", func(r *v1beta1.Rollout) { // its RolloutHistory is not stored yet
			next := first
			next.Number, next.StableRevision, next.UpdateRevision, next.Outcome = 2, "v2", "v3", v1beta1.ReleaseSucceeded
			r.Status.Releases = append(r.Status.Releases, next)
		}},
	} {
		record(c.change)
		if diff := cmp.Diff([]string{c.want, c.want, c.want}, rows()); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}
}

// The garbage collector and the namespace controller request metadata, preferably in protobuf. They also
// get responses to deletions.
func TestMetadataClients(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	a := call(t, request{as: admin, method: "GET", path: list(v1beta1Path, ns), headers: map[string]string{
		"Accept": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	}}).must(t, http.StatusOK)
	if !bytes.Contains(a.body, []byte("PartialObjectMetadataList")) || !bytes.Contains(a.body, []byte("web")) {
		t.Errorf("metadata is %q, want that of web", a.body)
	}
	call(t, request{as: admin, method: "DELETE", path: list(v1beta1Path, ns), headers: map[string]string{
		"Accept": "application/vnd.kubernetes.protobuf,application/json",
	}}).must(t, http.StatusOK)
}

// Anonymous users can access only the health checks.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	call(t, request{as: "nobody", method: "GET", path: v1beta1Path + "/rollouts"}).must(t, http.StatusUnauthorized)
}
