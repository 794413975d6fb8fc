// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/measure"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// one is the check of a Rollout, as it was measured.
func one(t *testing.T, m *measure.Measures, c rollouts.Check) planner.Measured {
	t.Helper()
	measured, err := m.Measured(t.Context(), rollout(c))
	if err != nil || len(measured) != 1 {
		t.Fatalf("measured %d checks: %v", len(measured), err)
	}
	return measured[0]
}

// A check that was edited has nothing of what was measured before, under the same name.
func TestEditedCheck(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *measure.Measures, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		m.Ask(web, subject, []planner.Question{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(12 * time.Second)
		synctest.Wait()
		edited := rollouts.Check{SuccessRate: new("95%")}
		if of := one(t, m, edited); of.Answered || *of.Check.SuccessRate != "95%" {
			t.Errorf("the edited check is measured as %+v", of)
		}
		if of := one(t, m, rate); !of.Answered || len(of.Data.Windows) != 2 {
			t.Errorf("the check of before is measured as %+v", of)
		}
	})
}

// Windows of another length are asked for anew.
func TestEditedWindows(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *measure.Measures, _ chan event.GenericEvent) {
		began := time.Now().Truncate(time.Minute)
		for _, every := range []time.Duration{20 * time.Second, 5 * time.Second} {
			m.Ask(web, subject, []planner.Question{{Check: rate, Began: began, From: began, Every: every}})
			<-time.After(42 * time.Second)
			synctest.Wait()
			for i, w := range one(t, m, rate).Data.Windows {
				if want := began.Add(time.Duration(i) * every); !w.Start.Equal(want) {
					t.Errorf("window %d of %s begins at %s", i, every, w.Start)
				}
			}
		}
	})
}

// late is a source that answers a minute after it was asked.
type late struct{ *prometheus }

func (l late) Source(ctx context.Context, name, namespace string) (*measure.Source, error) {
	of, err := l.prometheus.Source(ctx, name, namespace)
	ask := of.Ask
	of.Ask = func(ctx context.Context, r measure.Range) ([]metric.Series, judge.Fault) {
		<-time.After(time.Minute)
		return ask(ctx, r)
	}
	return of, err
}

// An answer that comes when the check is another one is no answer to that.
func TestLateAnswer(t *testing.T) {
	p := &prometheus{bad: 10}
	run(t, late{p}, func(m *measure.Measures, _ chan event.GenericEvent) {
		began := time.Now().Truncate(5 * time.Second)
		question := planner.Question{Check: rate, Began: began, From: began, Every: 5 * time.Second}
		m.Ask(web, subject, []planner.Question{question})
		<-time.After(20 * time.Second)
		edited := rollouts.Check{SuccessRate: new("95%")}
		question.Check = edited
		m.Ask(web, subject, []planner.Question{question})
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if of := one(t, m, edited); of.Answered {
			t.Errorf("the answer to another question is %+v", of)
		}
	})
}
