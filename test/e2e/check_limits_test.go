// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// In a namespace, four queries of releases and one test of a Check can run at once.
const (
	mostOfReleases  = 4
	mostOfNamespace = mostOfReleases + 1
)

// silentSource is a metric source that does not answer. It counts concurrent requests.
type silentSource struct {
	mu        sync.Mutex
	now, most int
}

func (s *silentSource) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.count(1)
	defer s.count(-1)
	_ = r.ParseForm()    // so that the server notices when the client disconnects
	<-r.Context().Done() // the client disconnects
}

func (s *silentSource) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

func (s *silentSource) counts() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.most
}

// planWithSources is a plan whose first step queries these sources.
func planWithSources(sources ...string) plan {
	p := planWithoutTraffic()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		a := &v1beta1.Analysis{EverySeconds: new(int32(1)), AtLeastSeconds: new(int32(0))}
		for _, source := range sources {
			a.Checks = append(a.Checks, v1beta1.Check{
				Name: source, Gate: new(true), Query: &v1beta1.QueryCheck{Source: source, PromQL: "may_release", Min: new("1")},
			})
		}
		r.Spec.Strategy.Canary.Analysis = a
	}
	return p
}

// TestCheckQueriesAreLimited has a Rollout that queries fifteen sources which never answer. A check
// in another namespace passes meanwhile, and the first namespace never exceeds its limit of
// concurrent queries.
func TestCheckQueriesAreLimited(t *testing.T) {
	t.Parallel()
	s := &silentSource{}
	silent := httptest.NewServer(s)
	t.Cleanup(silent.Close)
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerNumber(w, r, 1)
	}))
	t.Cleanup(answers.Close)
	greedy, modest := newNamespace(t), newNamespace(t)
	source := func(name, url string) string {
		greedy.createClusterScoped(&weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: weir.MetricSourceSpec{
			Prometheus: &weir.Prometheus{URL: url}, LagSeconds: new(int32(0)), RawQueries: new(true),
		}})
		return name
	}
	var sources []string
	for i := range 15 {
		sources = append(sources, source(fmt.Sprintf("e2e-silent-%d", i), silent.URL))
	}
	greedy.start(planWithSources(sources...))
	modest.start(planWithSources(source("e2e-answers", answers.URL)))

	greedy.release("v2")
	greedy.eventually("the namespace uses all its slots", func(context.Context) error {
		if now, _ := s.counts(); now < mostOfReleases {
			return fmt.Errorf("%d queries are in progress", now)
		}
		return nil
	})
	modest.release("v2")
	modest.eventually("the check of the other namespace has passed", modest.checkHasResult("e2e-answers", v1beta1.CheckPassed))
	modest.eventually("step 1 waits", modest.waitsAtStep(1))
	if _, most := s.counts(); most > mostOfNamespace {
		t.Errorf("%d concurrent queries of one namespace, want at most %d", most, mostOfNamespace)
	}
	modest.promoteAll()
	modest.eventually("the Rollout is Healthy", modest.isHealthy)
	greedy.post(testEnv.admin, "abort", `{}`, http.StatusCreated)
}
