// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Held is the claim that a request has taken, for the storage that writes the Rollout. The
// write of the Rollout compares the revision of the claim, and raises it, in one transaction:
// of two requests that both believe that they have a claim, the second one fails.
type Held struct {
	// Key of the claim; empty while the request has none.
	Key string
	// Revision that the claim had when it was taken.
	Revision int64
}

// Forget makes the next write compare no claim.
func (h *Held) Forget() { *h = Held{} }

type heldKey struct{}

// WithHeld returns a context in which Acquire remembers the claim that it takes.
func WithHeld(ctx context.Context) (context.Context, *Held) {
	h := &Held{}
	return context.WithValue(ctx, heldKey{}, h), h
}

// HeldIn returns where the claim of a request is remembered; nil if the request takes none.
func HeldIn(ctx context.Context) *Held {
	h, _ := ctx.Value(heldKey{}).(*Held)
	return h
}

func remember(ctx context.Context, key string, stored *metav1.PartialObjectMetadata) error {
	h := HeldIn(ctx)
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
