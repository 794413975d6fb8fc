// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// queryToken is the token that the metric source of TestMetricSourceQueries requires.
const queryToken = "a-token-of-the-tests"

// answerNumber answers a range query as Prometheus does, with one series that has the same number
// at each point of the range.
func answerNumber(w http.ResponseWriter, r *http.Request, number int32) {
	var of [3]float64
	for i, field := range []string{"start", "end", "step"} {
		var err error
		if of[i], err = strconv.ParseFloat(r.FormValue(field), 64); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	var values []string
	for at := of[0]; at <= of[1]; at += of[2] {
		values = append(values, fmt.Sprintf(`[%.3f,"%d"]`, at, number))
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(values, ","))
}

// TestMetricSourceQueries has two gates with a source that requires a token: a Check of the
// namespace and a ClusterCheck. They open when the query returns the number, and need no approval.
func TestMetricSourceQueries(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+queryToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answerNumber(w, r, open.Load())
	}))
	defer metrics.Close()
	p := defaultPlan()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		gate := func(kind, name string) v1beta1.Check {
			return v1beta1.Check{Name: name, Use: &v1beta1.CheckRef{Kind: kind, Name: "e2e-" + name}}
		}
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{
			EverySeconds: new(int32(1)), AtLeastSeconds: new(int32(0)), Checks: []v1beta1.Check{gate("Check", "team"), gate("ClusterCheck", "freeze")},
		}
	}
	a := start(t, p)
	named := metav1.ObjectMeta{Name: "e2e-queries"}
	a.createClusterScoped(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: weir.SecretNamespace, Name: named.Name},
		StringData: map[string]string{weir.SecretToken: queryToken},
	})
	a.createClusterScoped(&weir.MetricSource{ObjectMeta: named, Spec: weir.MetricSourceSpec{
		Prometheus: &weir.Prometheus{URL: metrics.URL, Auth: &weir.SourceAuth{Secret: named.Name}}, LagSeconds: new(int32(0)), RawQueries: new(true),
	}})
	spec := weir.CheckSpec{Gate: new(true), Query: &v1beta1.QueryCheck{Source: named.Name, PromQL: "may_release", Min: new("1")}}
	a.createClusterScoped(&weir.ClusterCheck{ObjectMeta: metav1.ObjectMeta{Name: "e2e-freeze"}, Spec: spec})
	a.create(&weir.Check{ObjectMeta: metav1.ObjectMeta{Name: "e2e-team"}, Spec: spec})

	a.release("v2")
	a.eventually("the team's gate is closed", a.checkHasResult("team", v1beta1.CheckRunning))
	a.eventually("the freeze lasts", a.checkHasResult("freeze", v1beta1.CheckRunning))
	open.Store(1)
	a.eventually("the team's gate is open", a.checkHasResult("team", v1beta1.CheckPassed))
	a.eventually("the freeze is over", a.checkHasResult("freeze", v1beta1.CheckPassed))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
}
