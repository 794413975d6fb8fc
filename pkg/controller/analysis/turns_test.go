// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

// network has targets that never answer: a question to them ends when it is given up, as those
// of the package source are. Others answer at once.
type network struct {
	prometheus
	mu sync.Mutex
	// begun are the questions in their order, as namespace/target.
	begun []string
	// now and most count the questions to a target, and those of a namespace, at once.
	now, most map[string]int
}

func (n *network) question(ctx context.Context, namespace, target string) error {
	n.mu.Lock()
	if n.now == nil {
		n.now, n.most = map[string]int{}, map[string]int{}
	}
	n.begun = append(n.begun, namespace+"/"+target)
	of := []string{namespace, namespace + "/" + target}
	for _, key := range of {
		n.now[key]++
		n.most[key] = max(n.most[key], n.now[key])
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, key := range of {
			n.now[key]--
		}
	}()
	if !strings.HasPrefix(target, "silent") {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	<-waiting.Done()
	return errors.New("no answer within 10s")
}

// QueryService implements analysis.Sources.
func (n *network) QueryService(ctx context.Context, namespace string, h rollouts.HTTPCheck, _ analysis.Window) (source.Answer, error) {
	return source.Answer{Code: 200}, n.question(ctx, namespace, h.Service)
}

// Source implements analysis.Sources.
func (n *network) Source(_ context.Context, name, namespace string) (*analysis.Source, error) {
	return &analysis.Source{RawQueries: true, Query: func(ctx context.Context, _ analysis.RangeQuery) ([]metric.Series, judge.Fault) {
		if err := n.question(ctx, namespace, name); err != nil {
			return nil, judge.Fault{Why: err.Error(), Since: time.Now()}
		}
		return nil, judge.Fault{}
	}}, nil
}

// count returns how many questions a namespace has begun, and how many it and a target have had at once.
func (n *network) count(namespace, target string) (begun, most, mostOfTarget int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, question := range n.begun {
		if strings.HasPrefix(question, namespace+"/") {
			begun++
		}
	}
	return begun, n.most[namespace], n.most[namespace+"/"+target]
}

// setQuestionsOf has a Rollout ask about checks from now on.
func setQuestionsOf(m *analysis.Runner, namespace, name string, checks ...rollouts.Check) {
	since := time.Now().Truncate(time.Second).Add(-time.Second)
	var all []planner.MeasurementRequest
	for _, c := range checks {
		all = append(all, planner.MeasurementRequest{Check: c, Began: since, From: since, Since: since, Every: 10 * time.Second, Step: 1})
	}
	m.SetRequests(types.NamespacedName{Namespace: namespace, Name: name}, analysis.Subject{UID: "uid", Rollout: name, Release: metric.Release{Namespace: namespace}}, all)
}

func httpCheck(service string) rollouts.Check {
	return rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: service}}
}

func rawCheck(from string) rollouts.Check {
	return rollouts.Check{Query: &rollouts.QueryCheck{Source: from, PromQL: "up", Min: new("1")}}
}

// TestNobodyWaitsForTheSilent has a namespace with two hundred Rollouts, each with a Service and a
// source that never answer. Other namespaces are served after at most four of its queries.
func TestNobodyWaitsForTheSilent(t *testing.T) {
	n := &network{}
	run(t, n, func(m *analysis.Runner, woken chan event.GenericEvent) {
		defer discardEventsUntilEnd(woken)()
		for i := range 200 {
			setQuestionsOf(m, "greedy", fmt.Sprint("r", i), httpCheck(fmt.Sprint("silent-", i)))
			setQuestionsOf(m, "greedy", fmt.Sprint("q", i), rawCheck(fmt.Sprint("silent-source-", i)))
		}
		<-time.After(time.Second)
		synctest.Wait() // all that may be asked is asked
		for i := range 50 {
			setQuestionsOf(m, fmt.Sprint("modest-", i), "web", httpCheck("health"))
		}
		synctest.Wait() // no time passes
		for i := range 50 {
			if begun, _, _ := n.count(fmt.Sprint("modest-", i), ""); begun != 1 {
				t.Errorf("namespace %d was asked %d times while another one waits, want once", i, begun)
			}
		}
		if begun, most, _ := n.count("greedy", ""); begun != 4 || most != 4 {
			t.Errorf("before the others %d questions of the greedy namespace began, %d at once, want 4", begun, most)
		}
		<-time.After(time.Hour) // its own continue, as they are given up
		synctest.Wait()
		for _, c := range []string{"silent-0", "silent-199"} {
			if _, _, most := n.count("greedy", c); most != 1 {
				t.Errorf("%s was asked %d times at once, want once", c, most)
			}
		}
	})
}

// TestManyNamespacesWait has a hundred namespaces that only wait. Another namespace is still served
// immediately.
func TestManyNamespacesWait(t *testing.T) {
	n := &network{}
	run(t, n, func(m *analysis.Runner, woken chan event.GenericEvent) {
		defer discardEventsUntilEnd(woken)()
		for i := range 100 {
			for j := range 5 {
				setQuestionsOf(m, fmt.Sprint("greedy-", i), fmt.Sprint("r", j), httpCheck(fmt.Sprint("silent-", j)))
			}
		}
		<-time.After(time.Second)
		synctest.Wait()
		for i := range 20 {
			setQuestionsOf(m, fmt.Sprint("modest-", i), "web", httpCheck("health"))
		}
		synctest.Wait()
		for i := range 20 {
			if begun, _, _ := n.count(fmt.Sprint("modest-", i), ""); begun != 1 {
				t.Errorf("namespace %d was asked %d times, want once", i, begun)
			}
		}
	})
}

// TestSilentTargetIsAskedOnceAtATime checks that a silent Service or source gets one query of a
// namespace at a time, and that the other checks of the namespace continue.
func TestSilentTargetIsAskedOnceAtATime(t *testing.T) {
	n := &network{}
	run(t, n, func(m *analysis.Runner, woken chan event.GenericEvent) {
		defer discardEventsUntilEnd(woken)()
		for i := range 10 {
			setQuestionsOf(m, "shop", fmt.Sprint("r", i), httpCheck("silent"))
			setQuestionsOf(m, "shop", fmt.Sprint("q", i), rawCheck("silent-source"))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		n.mu.Lock()
		n.most = map[string]int{} // from when the source is known as silent
		n.mu.Unlock()
		setQuestionsOf(m, "shop", "web", httpCheck("health"))
		synctest.Wait()
		if _, _, most := n.count("shop", "health"); most != 1 {
			t.Error("the check of another Service is not asked at once")
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		for _, target := range []string{"silent", "silent-source"} {
			if _, _, most := n.count("shop", target); most != 1 {
				t.Errorf("%s was asked %d times at once, want once", target, most)
			}
		}
	})
}

// TestTriesHaveTurns checks that trials wait neither for the checks of releases nor for the trials
// of another namespace, which run one at a time.
func TestTriesHaveTurns(t *testing.T) {
	n := &network{}
	run(t, n, func(m *analysis.Runner, woken chan event.GenericEvent) {
		defer discardEventsUntilEnd(woken)()
		try := func(namespace, name, from string) {
			began := time.Now().Truncate(time.Hour).Add(-24 * time.Hour)
			m.SetRequests(types.NamespacedName{Namespace: namespace, Name: name}, analysis.Subject{UID: "uid", Rollout: name, Release: metric.Release{Namespace: namespace}},
				[]planner.MeasurementRequest{{Check: rawCheck(from), Began: began, From: began, Every: 2 * time.Minute, Try: true}})
		}
		for i := range 50 {
			try("greedy", fmt.Sprint("r", i), fmt.Sprint("silent-", i))
		}
		<-time.After(time.Second)
		synctest.Wait()
		try("modest", "web", "main")
		synctest.Wait()
		if begun, _, _ := n.count("modest", ""); begun != 1 {
			t.Errorf("the try of another namespace was asked %d times, want once", begun)
		}
		if begun, _, _ := n.count("greedy", ""); begun != 1 {
			t.Errorf("%d tries of the greedy namespace began, want 1", begun)
		}
	})
}

// discardEventsUntilEnd takes what wakes Rollouts until it is ended.
func discardEventsUntilEnd(woken chan event.GenericEvent) (end func()) {
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-woken:
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}
