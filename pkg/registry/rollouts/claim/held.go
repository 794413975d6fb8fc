// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Held is the claim that a request has acquired. The storage of Rollouts reads it: the transaction
// that writes the Rollout compares the revision of the claim and raises it. So if two requests
// both believe that they hold the claim, the second write fails.
type Held struct {
	// Key of the claim; empty while the request has none.
	Key string
	// Revision of the claim right after this request wrote it.
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

// HeldIn returns the Held of a request; nil if the request does not claim a workload.
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
