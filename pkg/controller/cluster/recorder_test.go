// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"strconv"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// written is an events.EventSink that records writes.
type written chan string

func (w written) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	w <- "create " + e.Note
	return e, nil
}

func (w written) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	w <- "update " + e.Note
	return e, nil
}

func (w written) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	w <- "count " + e.Note
	return e, nil
}

// Scenario: a GitOps tool undoes a route every second, and Weir writes it again. The Rollout has a new resourceVersion each
// time. There must be one Event with a count. Events of other steps are separate.
func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	const times = 50
	sink := make(written, 2*times)
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := make(chan *eventsv1.Event, 2*times)
	stop, err := broadcaster.StartEventWatcher(func(e runtime.Object) { seen <- e.(*eventsv1.Event) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	recorder := cluster.AggregateEvents(broadcaster.NewRecorder(scheme.Scheme, "weir"), scheme.Scheme)

	announce := func(version int, message string) *eventsv1.Event {
		r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid", ResourceVersion: strconv.Itoa(version)}}
		cluster.RecordEvents(recorder, cluster.MetadataOf(r), "Release", []planner.Event{{Warning: true, Reason: "TrafficCorrected", Message: message}})
		return <-seen
	}
	first := announce(1, "step 1")
	for version := range times {
		if again := announce(version+2, "step 1"); again.Regarding != first.Regarding {
			t.Fatalf("client-go takes it for another event: it refers to %v, and the first to %v", again.Regarding, first.Regarding)
		}
	}
	if other := announce(times+2, "step 2"); other.Regarding == first.Regarding {
		t.Errorf("client-go takes %q for a repetition of %q", other.Note, first.Note)
	}
	got := map[string]int{}
	for got["create step 1"] == 0 || got["count step 1"] == 0 || got["create step 2"] == 0 {
		got[<-sink]++
	}
	if len(got) != 3 || got["create step 1"] != 1 || got["create step 2"] != 1 {
		t.Errorf("writes are %v, want an Event for each step and a count", got)
	}
}
