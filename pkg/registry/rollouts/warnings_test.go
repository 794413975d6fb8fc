// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// warned returns the texts of the warnings of a response.
func warned(a answer) []string {
	var texts []string
	for _, w := range a.warnings {
		_, text, _ := strings.Cut(w, `"`)
		texts = append(texts, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
	}
	return texts
}

// A check without its MetricSource, and traffic without a route, get a warning when a user writes them, and no warning
// when the same manifest is applied again.
func TestWriteWarnings(t *testing.T) {
	t.Parallel()
	const (
		source = `spec.strategy.canary.analysis.checks[0]: there is no MetricSource "default" yet; the check cannot run, so each step waits for it: ask a cluster administrator to create it`
		route  = `spec.strategy.canary.steps[0].traffic: no requests are routed, because the plan has neither trafficRoutings nor a TrafficRouting; name the Service and its route in spec.strategy.canary.trafficRoutings`
	)
	for name, tt := range map[string]struct {
		canary string
		want   []string
	}{
		"a success rate":       {`{"analysis":{"checks":[{"successRate":"99%"}]},"steps":[{"replicas":1}]}`, []string{source}},
		"a query":              {`{"analysis":{"checks":[{"name":"q","query":{"source":"other","promql":"vector(1)","min":"1"}}]},"steps":[{"replicas":1}]}`, []string{strings.NewReplacer("checks[0]:", "checks[0].query.source:", `"default"`, `"other"`).Replace(source)}},
		"a Check":              {`{"analysis":{"checks":[{"use":{"kind":"Check","name":"slow"}}]},"steps":[{"replicas":1}]}`, []string{`spec.strategy.canary.analysis.checks[0].use.name: there is no Check "slow" in namespace "NS" yet; the check cannot run, so each step waits for it: create it`}},
		"a check of a Service": {`{"analysis":{"checks":[{"http":{"service":"web"}}]},"steps":[{"replicas":1}]}`, nil},
		"traffic":              {`{"steps":[{"replicas":1,"traffic":"20%"}]}`, []string{route}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			for i := range tt.want {
				tt.want[i] = strings.ReplaceAll(tt.want[i], "NS", ns)
			}
			body := canaryWith("web", tt.canary)
			apply := request{as: alice, method: "PATCH", path: one(v1beta1Path, ns, "web") + "?fieldManager=test", body: body, headers: typed(applyType)}
			if diff := cmp.Diff(tt.want, warned(call(t, apply).must(t, http.StatusCreated))); diff != "" {
				t.Errorf("the first apply (-want +got):\n%s", diff)
			}
			apply.body = strings.Replace(body, `"name":"web"`, `"name":"web","labels":{"a":"b"}`, 1)
			for range 2 {
				if got := warned(call(t, apply).must(t, http.StatusOK)); len(got) > 0 {
					t.Errorf("another apply warns %q", got)
				}
			}
		})
	}
}

// A Rollout that is deleted or disabled in the middle of a release lets the new version replace all pods. The response
// has a warning about this. After an abort the stable version stays, and there is no warning.
func TestEndWarnings(t *testing.T) {
	t.Parallel()
	const end = "a release is in progress (revision v2): deleting the Rollout lets revision v2 replace all pods, without further approvals and checks; to keep the stable version, use rollback first"
	remove := func(t *testing.T, ns string) answer {
		t.Helper()
		return call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "web")}).must(t, http.StatusOK)
	}
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, ns string)
		do      func(t *testing.T, ns string) answer
		want    []string
	}{
		"deleted": {func(t *testing.T, ns string) { releasing(t, ns, "web") }, remove, []string{end}},
		"deleted while a newer template waits": {
			func(t *testing.T, ns string) { t.Helper(); states["refused"].at(t, ns) }, remove,
			[]string{strings.Replace(end, "lets revision v2", "lets the newer template of the workload", 1)},
		},
		"deleted again":   {func(t *testing.T, ns string) { releasing(t, ns, "web"); remove(t, ns) }, remove, nil},
		"deleted at rest": {func(t *testing.T, ns string) { create(t, ns, "web", "web") }, remove, nil},
		"deleted after an abort": {func(t *testing.T, ns string) {
			releasing(t, ns, "web")
			verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
		}, remove, nil},
		"disabled": {func(t *testing.T, ns string) { releasing(t, ns, "web") }, func(t *testing.T, ns string) answer {
			return patch(t, alice, one(v1beta1Path, ns, "web"), `{"spec":{"disabled":true}}`).must(t, http.StatusOK)
		}, []string{strings.Replace(end, "deleting", "disabling", 1)}},
		"an approval replaced by a time": {func(t *testing.T, ns string) { releasing(t, ns, "web") }, func(t *testing.T, ns string) answer {
			return patch(t, alice, one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"steps":[{"replicas":"20%","pause":{"duration":60}},{"replicas":"50%","pause":{"duration":60}},{"replicas":"100%"}]}}}}`).must(t, http.StatusOK)
		}, []string{"spec.strategy.canary.steps[0].pause.duration: step 1 of the release in progress no longer waits for an approval; it ends by itself after 60 seconds"}},
		"a status of the controller": {func(t *testing.T, ns string) { releasing(t, ns, "web") }, func(t *testing.T, ns string) answer {
			r := get(t, ns, "web")
			r.Status.Message = "other"
			return call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			tt.prepare(t, ns)
			if diff := cmp.Diff(tt.want, warned(tt.do(t, ns))); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
