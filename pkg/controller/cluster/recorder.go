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

// maxRepeated bounds how many events are remembered. It is a size of client-go's correlator.
const maxRepeated = 4096

// repeatedKey identifies an event that is announced again.
type repeatedKey struct {
	uid                types.UID
	kind, reason, note string
}

// aggregating is an EventRecorder that lets client-go count repeated events as one series.
// client-go compares what an event refers to, resource version included, and no note. A tool
// that undoes Weir's writes every second makes a new version of the Rollout each time, so that
// it would make an Event each second. Events that differ in their note stay apart.
type aggregating struct {
	events.EventRecorder
	scheme *runtime.Scheme
	// first has what the first of several equal events referred to.
	first *lru.Cache
}

// AggregateEvents returns a recorder that counts events with the same note as one series.
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
