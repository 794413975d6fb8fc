// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// TestUnheldNamespace checks that a Rollout cannot be created in a namespace in which workloads are not
// held. A stored one can be changed, because otherwise it could not be deleted.
func TestUnheldNamespace(t *testing.T) {
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
