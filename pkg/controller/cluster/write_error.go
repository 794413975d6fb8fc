// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// WriteError reports whether the server has answered a write, and does not want it.
// Whatever may be otherwise a moment later by itself is none.
func WriteError(err error) (d planner.WriteError, denied bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return planner.WriteError{}, false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return planner.WriteError{}, false
	default:
		if code < 400 || code >= 500 {
			return planner.WriteError{}, false
		}
	}
	reason := string(answer.Status().Reason)
	if reason == "" {
		reason = "Denied" // by a webhook that gives none
	}
	return planner.WriteError{Reason: reason, Message: err.Error()}, true
}

// doing names what was being written. Not every answer does.
func (s Server) doing(what string, o client.Object, err error) error {
	if err == nil {
		return nil
	}
	kind := "object"
	if gvk, unknown := s.GroupVersionKindFor(o); unknown == nil {
		kind = strings.ToLower(gvk.Kind)
	}
	return fmt.Errorf("%s %s/%s: %w", what, kind, o.GetName(), err)
}
