// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// TestTargets adds and takes items as namespace/target/item: "a/x/1" waits, "-" takes as many as can be
// taken, "!a/x/1" ends without an answer, "?a/x/1" ends with one, and "=a/x/1" ends without having
// asked. There are eight places, three of each namespace, and two items ask a target at once.
func TestTargets(t *testing.T) {
	for name, tc := range map[string]struct{ do, want string }{
		"a target has two":                  {"a/x/1 a/x/2 a/x/3 -", "a/x/1 a/x/2"},
		"a namespace has three":             {"a/x/1 a/y/1 a/z/1 a/w/1 -", "a/x/1 a/y/1 a/z/1"},
		"targets have turns":                {"a/x/1 a/x/2 a/x/3 a/y/1 -", "a/x/1 a/y/1 a/x/2"},
		"namespaces have turns":             {"a/x/1 a/y/1 b/x/1 c/x/1 -", "a/x/1 b/x/1 c/x/1 a/y/1"},
		"the last places are for others":    {"a/x/1 a/y/1 a/z/1 b/x/1 b/y/1 - c/x/1 c/y/1 d/x/1 e/x/1 -", "a/x/1 b/x/1 a/y/1 b/y/1 c/x/1 d/x/1 e/x/1"},
		"the next when one is done":         {"a/x/1 a/x/2 a/x/3 - =a/x/1 -", "a/x/1 a/x/2 a/x/3"},
		"a silent target has one":           {"a/x/1 - !a/x/1 a/x/2 a/x/3 a/y/1 -", "a/x/1 a/x/2 a/y/1"},
		"until it answers":                  {"a/x/1 - !a/x/1 a/x/2 a/x/3 a/x/4 - ?a/x/2 -", "a/x/1 a/x/2 a/x/3 a/x/4"},
		"not when it was not asked":         {"a/x/1 - !a/x/1 a/x/2 a/x/3 a/x/4 - =a/x/2 -", "a/x/1 a/x/2 a/x/3"},
		"another namespace's is another":    {"a/x/1 - !a/x/1 b/x/1 b/x/2 -", "a/x/1 b/x/1 b/x/2"},
		"one that waits is taken only once": {"a/x/1 a/x/1 - =a/x/1 -", "a/x/1"},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewTargetQueue(clock.RealClock{}, Limits{Total: 8, PerNamespace: 3}, func(item string) Target {
				of := strings.Split(item, "/")
				return Target{Namespace: of[0], Name: of[1], MaxQueries: 2}
			})
			defer q.ShutDown()
			var got []string
			for step := range strings.FieldsSeq(tc.do) {
				switch item := step[1:]; step[:1] {
				case "-":
					for q.Len() > 0 {
						next, _ := q.Get()
						got = append(got, next)
					}
				case "!", "?":
					q.ReportAnswer(item, step[:1] == "?")
					q.Done(item)
				case "=":
					q.Done(item)
				default:
					q.Add(step)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSilentMeanwhile has a target fall silent between the question whether an item can be
// taken and its being taken: one is taken all the same, and none is lost.
func TestSilentMeanwhile(t *testing.T) {
	o := NewTargetQueue(clock.RealClock{}, Limits{Total: 8, PerNamespace: 4}, func(string) Target { return Target{Namespace: "a", Name: "x", MaxQueries: 3} }).order
	for i := range 3 {
		o.Push(strconv.Itoa(i))
	}
	first := o.Pop()
	if o.Len() == 0 {
		t.Fatal("there is no second place")
	}
	o.reportAnswer(first, false)
	if got := o.Pop(); got != "1" || o.Len() != 0 {
		t.Errorf("took %q, and %d can be taken", got, o.Len())
	}
	o.done(first)
	o.done("1")
	if got := o.Pop(); got != "2" || len(o.waiting) > 0 || len(o.namespaces) > 0 || len(o.targets) > 0 {
		t.Errorf("took %q, and there is more: %v", got, o.namespaces)
	}
	if o.done("2"); len(o.inProgress)+len(o.inProgressByNamespace)+len(o.queriesByTarget) > 0 {
		t.Errorf("%v is worked on", o.inProgress)
	}
}
