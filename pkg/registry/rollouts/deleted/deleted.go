// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package deleted remembers for an hour which Rollouts were deleted while their workloads may still
// be held, because a user removed the finalizer of the Rollout. The controllers give a held workload
// back only if the store remembers the deletion. A store that has lost a Rollout, because it is new
// or was restored from an older snapshot, does not remember a deletion.
package deleted

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Period is how long a deletion is remembered. Running controllers need it only for seconds.
const Period = time.Hour

// maxRemembered is the number of deletions that are remembered in a namespace, newest first.
const maxRemembered = 128

// Rollouts remembers deletions. The deletions of a namespace are in one stored object, which etcd removes
// one Period after the last deletion.
type Rollouts struct {
	// Storage holds the deletions (claim.NewStorage).
	Storage storage.Interface
	Clock   clock.PassiveClock
}

// Remember stores that the Rollout was deleted.
func (d *Rollouts) Remember(ctx context.Context, r *rollouts.Rollout) error {
	period := uint64(Period / time.Second)
	err := d.Storage.GuaranteedUpdate(ctx, storageKey(r.Namespace), &metav1.PartialObjectMetadata{}, true, nil,
		func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			known := d.recentDeletions(stored.(*metav1.PartialObjectMetadata))
			known[r.Name] = formatDeletion(r.UID, d.Clock.Now())
			for len(known) > maxRemembered {
				delete(known, oldestDeletion(known))
			}
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "deleted", Annotations: known}}, &period, nil
		}, nil)
	if err != nil {
		return fmt.Errorf("remembering that Rollout %s/%s was deleted: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// UID returns the uid of the Rollout of this name that was deleted last, or "" if the store does
// not remember one.
func (d *Rollouts) UID(ctx context.Context, namespace, name string) (types.UID, error) {
	stored := &metav1.PartialObjectMetadata{}
	err := d.Storage.Get(ctx, storageKey(namespace), storage.GetOptions{IgnoreNotFound: true}, stored)
	if err != nil {
		return "", fmt.Errorf("reading which Rollouts were deleted in %s: %w", namespace, err)
	}
	uid, _, _ := strings.Cut(d.recentDeletions(stored)[name], " ")
	return types.UID(uid), nil
}

// recentDeletions returns the deletions of the last Period.
func (d *Rollouts) recentDeletions(stored *metav1.PartialObjectMetadata) map[string]string {
	known := maps.Clone(stored.Annotations)
	if known == nil {
		known = map[string]string{}
	}
	maps.DeleteFunc(known, func(_, value string) bool { return d.Clock.Since(deletionTime(value)) >= Period })
	return known
}

func oldestDeletion(known map[string]string) string {
	return slices.MinFunc(slices.Collect(maps.Keys(known)), func(a, b string) int {
		return deletionTime(known[a]).Compare(deletionTime(known[b]))
	})
}

func formatDeletion(uid types.UID, at time.Time) string {
	return string(uid) + " " + at.UTC().Format(time.RFC3339Nano)
}

// deletionTime returns the time of a deletion; the zero time if it cannot be parsed.
func deletionTime(value string) time.Time {
	_, at, _ := strings.Cut(value, " ")
	t, _ := time.Parse(time.RFC3339Nano, at)
	return t
}

// storageKey returns the storage key of a namespace. The name of a namespace is always one path segment.
func storageKey(namespace string) string { return "/deletions/" + namespace }
