// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// StableTemplate returns the pod template that served before a release, without what the native controller adds to it;
// nil if it is not stored.
func StableTemplate(h *rollouts.RolloutHistory) map[string]any {
	if h == nil || h.Spec.Stable == nil {
		return nil
	}
	t := storedTemplate(h.Spec.Stable.Data)
	removeControllerFields(t)
	return t
}

// removeControllerFields removes the label that the Deployment controller adds to the template of a ReplicaSet, and a
// field that is always empty.
func removeControllerFields(template map[string]any) {
	metadata, ok := template["metadata"].(map[string]any)
	if !ok {
		return
	}
	delete(metadata, "creationTimestamp")
	if labels, ok := metadata["labels"].(map[string]any); ok {
		delete(labels, "pod-template-hash")
	}
}
