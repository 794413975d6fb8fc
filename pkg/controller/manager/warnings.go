// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// warningLogger logs each warning of an API server once. Most warnings are about the fields of a
// user's workload, and every write of Weir repeats them.
type warningLogger struct {
	mu     sync.Mutex
	logged map[string]bool
}

// maxWarnings limits the remembered warnings, because their texts quote user input.
const maxWarnings = 1000

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warningLogger) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const ofServer = 299
	if code == ofServer && text != "" && w.isNew(text) {
		logf.FromContext(ctx).Info("The API server warns", "warning", text)
	}
}

func (w *warningLogger) isNew(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logged[text] {
		return false
	}
	if w.logged == nil || len(w.logged) >= maxWarnings {
		w.logged = map[string]bool{}
	}
	w.logged[text] = true
	return true
}
