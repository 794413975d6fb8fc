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

// Of a namespace four questions about releases are under way at once, and one check is tried.
const (
	mostOfReleases  = 4
	mostOfNamespace = mostOfReleases + 1
)

// silentSource is a source that does not answer. It counts the questions that wait at once.
type silentSource struct {
	mu        sync.Mutex
	now, most int
}

func (s *silentSource) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.count(1)
	defer s.count(-1)
	_ = r.ParseForm()    // so that the server sees when the other side leaves
	<-r.Context().Done() // it gives up
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

// planWithSources is the plan of an application whose first step asks sources.
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

// A Rollout asks fifteen sources that never answer. A check of another namespace passes
// meanwhile, and the first namespace never has more than its share of questions under way.
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
	greedy.eventually("all places of the namespace wait", func(context.Context) error {
		if now, _ := s.counts(); now < mostOfReleases {
			return fmt.Errorf("%d questions are under way", now)
		}
		return nil
	})
	modest.release("v2")
	modest.eventually("the check of the other namespace has passed", modest.checkHasResult("e2e-answers", v1beta1.CheckPassed))
	modest.eventually("step 1 waits", modest.waitsAtStep(1))
	if _, most := s.counts(); most > mostOfNamespace {
		t.Errorf("%d questions of one namespace were under way at once, want %d at most", most, mostOfNamespace)
	}
	modest.promoteAll()
	modest.eventually("the Rollout is Healthy", modest.isHealthy)
	greedy.post(testEnv.admin, "abort", `{}`, http.StatusCreated)
}
