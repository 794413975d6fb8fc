// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// A Rollout is not created where no workload is held. One that is stored there can be
// changed, or nobody could delete it.
func TestUnheld(t *testing.T) {
	t.Parallel()
	const path = "metadata.namespace: Invalid value"
	for namespace, refused := range map[string]bool{"shop": false, "kube-system": true, "gates": true, "weir-system": false} {
		r := &rollouts.Rollout{}
		r.Namespace, r.Name, r.ResourceVersion = namespace, "web", "1"
		options := validation.Options{OwnNamespace: "gates"}
		if err := validation.ValidateRollout(r, options).ToAggregate(); strings.Contains(err.Error(), path) != refused {
			t.Errorf("creating one in %s: %v, refused should be %t", namespace, err, refused)
		}
		next := r.DeepCopy()
		next.Labels = map[string]string{"a": "b"}
		if errs := validation.ValidateRolloutUpdate(next, r, options); len(errs) > 0 {
			t.Errorf("changing one in %s: %v", namespace, errs)
		}
	}
}
