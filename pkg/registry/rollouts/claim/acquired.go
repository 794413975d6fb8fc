// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AcquiredClaim is the claim that a request has acquired. The storage of Rollouts reads it: the transaction
// that writes the Rollout compares the revision of the claim and raises it. So if two requests
// both believe that they hold the claim, the second write fails.
type AcquiredClaim struct {
	// Key of the claim; empty while the request has none.
	Key string
	// Revision of the claim right after this request wrote it.
	Revision int64
}

// Clear clears the claim, so that the next write compares none.
func (h *AcquiredClaim) Clear() { *h = AcquiredClaim{} }

type acquiredClaimKey struct{}

// WithAcquiredClaim returns a context in which Acquire records the claim that it acquires.
func WithAcquiredClaim(ctx context.Context) (context.Context, *AcquiredClaim) {
	h := &AcquiredClaim{}
	return context.WithValue(ctx, acquiredClaimKey{}, h), h
}

// AcquiredClaimFrom returns the acquired claim of a request; nil if the request does not claim a workload.
func AcquiredClaimFrom(ctx context.Context) *AcquiredClaim {
	h, _ := ctx.Value(acquiredClaimKey{}).(*AcquiredClaim)
	return h
}

func recordAcquired(ctx context.Context, key string, stored *metav1.PartialObjectMetadata) error {
	h := AcquiredClaimFrom(ctx)
	if h == nil {
		return nil
	}
	revision, err := strconv.ParseInt(stored.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the revision of the claim %s: %w", key, err)
	}
	h.Key, h.Revision = key, revision
	return nil
}
