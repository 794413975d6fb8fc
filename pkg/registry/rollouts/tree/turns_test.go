// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A user who has all slots loses one to a user without slots, and cannot take it back.
func TestSlotsAreShared(t *testing.T) {
	for _, namespace := range []string{"slots-0", "slots-1", "slots-2"} {
		the.application(t, namespace, 1)
	}
	watches := func(user, namespace string) watch.Interface {
		t.Helper()
		s, err := the.stream(t, user, namespace, "web")
		if err != nil {
			t.Fatalf("%s watches %s: %v", user, namespace, err)
		}
		the.tree(t, s, watch.Added)
		return s
	}
	the.quiet(t)
	first, second := watches(vera, "slots-0"), watches(vera, "slots-1")
	mine := watches(pat, "slots-2")
	e := the.next(t, second)
	status, ok := e.Object.(*metav1.Status)
	if !ok || e.Type != watch.Error || status.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("got the event %s %v, want that another user needs the slot", e.Type, e.Object)
	}
	if e := the.next(t, second); e.Type != "closed" {
		t.Errorf("got the event %s after that", e.Type)
	}
	if s, err := the.stream(t, vera, "slots-1", "web"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the slot is taken back: %v, %v", s, err)
	}
	// A viewer of an open tree needs no slot.
	watches(vera, "slots-2").Stop()
	first.Stop()
	mine.Stop()
	the.quiet(t)
}
