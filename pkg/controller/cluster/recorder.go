// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/lru"
)

// maxRepeated is the number of different events that are remembered. client-go's event
// correlator uses the same size.
const maxRepeated = 4096

// repeatedKey has the fields in which repetitions of an event agree.
type repeatedKey struct {
	uid                types.UID
	kind, reason, note string
}

// aggregating is an EventRecorder that lets client-go count repeated events as one series.
// client-go compares the object reference of events, resource version included, and ignores
// the note. Scenario: a tool undoes Weir's writes every second. Each time the Rollout has a new
// resource version, so client-go would create an Event each second. aggregating passes the
// reference of the first equal event instead. Events with different notes stay separate.
type aggregating struct {
	events.EventRecorder
	scheme *runtime.Scheme
	// first has the object reference of the first of several equal events.
	first *lru.Cache
}

// AggregateEvents returns a recorder that counts events of one object with the same type,
// reason and note as one series.
func AggregateEvents(to events.EventRecorder, scheme *runtime.Scheme) events.EventRecorder {
	return &aggregating{EventRecorder: to, scheme: scheme, first: lru.New(maxRepeated)}
}

// Eventf implements events.EventRecorder.
func (a *aggregating) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	if ref, err := reference.GetReference(a.scheme, regarding); err == nil {
		key := repeatedKey{uid: ref.UID, kind: eventtype, reason: reason, note: note}
		if first, ok := a.first.Get(key); ok {
			ref = first.(*corev1.ObjectReference)
		} else {
			a.first.Add(key, ref)
		}
		regarding = ref.DeepCopy()
	}
	a.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", note)
}
