// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Rollout that is being deleted waits for its history, unless the history can never be stored. It does
// not wait for room in the store either: its own deletion may be what makes room.
func TestIsPermanentHistoryError(t *testing.T) {
	t.Parallel()
	histories := schema.GroupResource{Group: "rollouts.kruise.io", Resource: "rollouthistories"}
	full := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage"}}
	for err, want := range map[error]bool{
		fmt.Errorf("filing: %w", full):                     true,
		apierrors.NewForbidden(histories, "web", nil):      true,
		apierrors.NewConflict(histories, "web", nil):       false,
		apierrors.NewServerTimeout(histories, "create", 1): false,
		errors.New("no connection"):                        false,
	} {
		if got := isPermanentHistoryError(err); got != want {
			t.Errorf("%v: isPermanentHistoryError is %t, want %t", err, got, want)
		}
	}
}
