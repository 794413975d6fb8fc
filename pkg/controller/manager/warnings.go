// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// warnings logs each warning of an API server once. Most are about what the owner of
// a workload wrote, and come again with every write of ours.
type warnings struct {
	mu   sync.Mutex
	said map[string]bool
}

// mostWarnings bounds what is kept of them: texts quote what anybody may write.
const mostWarnings = 1000

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const ofServer = 299
	if code == ofServer && text != "" && w.news(text) {
		logf.FromContext(ctx).Info("The API server warns", "warning", text)
	}
}

func (w *warnings) news(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[text] {
		return false
	}
	if w.said == nil || len(w.said) >= mostWarnings {
		w.said = map[string]bool{}
	}
	w.said[text] = true
	return true
}
