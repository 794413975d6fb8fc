// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/testutil"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Each decision is counted once, by its outcome. A dry run and a request without a decision are not
// counted.
func TestDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	web := rollouts.Resource("rollouts")
	for want, tt := range map[string]struct {
		decision int64
		err      error
	}{
		"recorded":  {3, nil},
		"unchanged": {0, nil},
		"refused":   {0, apierrors.NewConflict(web, "web", errors.New("no step waits"))},
		"invalid":   {0, apierrors.NewInvalid(rollouts.Kind("JumpOptions"), "web", nil)},
		"failed":    {0, apierrors.NewInternalError(errors.New("etcd"))},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			v := rollouts.Verb("test-" + want)
			a := &attempt{command: &verb.Command{Verb: v, Via: rollouts.ViaVerb}, decision: tt.decision}
			a.recordOutcome(t.Context(), "web", true, tt.err)
			a.recordOutcome(t.Context(), "web", false, tt.err)
			(&attempt{}).recordOutcome(t.Context(), "web", false, tt.err)
			n, err := testutil.GetCounterMetricValue(decisionsTotal.WithLabelValues(string(v), string(rollouts.ViaVerb), want))
			if err != nil || n != 1 {
				t.Errorf("counted %v times (%v), want once", n, err)
			}
		})
	}
}
