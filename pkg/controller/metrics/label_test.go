// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestLabels has a phase with invalid UTF-8. A scrape reports it, and does not panic.
func TestLabels(t *testing.T) {
	t.Parallel()
	r := &rollouts.Rollout{}
	r.Status.Phase = "\xff"
	if told := rolloutGauges([]*rollouts.Rollout{r}, time.Time{}); len(told) < 2 {
		t.Errorf("%d metrics are reported", len(told))
	}
}
