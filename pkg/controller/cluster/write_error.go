// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

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

// doing does a write and logs it. The error names what was being written, which not every
// answer does.
func (s Server) doing(ctx context.Context, what string, o client.Object, write func() error) error {
	logf.FromContext(ctx).Info(what+" object", "object", describe(o))
	err := write()
	if err == nil {
		return nil
	}
	kind := "object"
	if gvk, unknown := s.GroupVersionKindFor(o); unknown == nil {
		kind = strings.ToLower(gvk.Kind)
	}
	return fmt.Errorf("%s %s/%s: %w", strings.ToLower(what), kind, o.GetName(), err)
}

func describe(o client.Object) string {
	what := fmt.Sprintf("%T", o)
	if u, ok := o.(*unstructured.Unstructured); ok {
		what = u.GroupVersionKind().GroupKind().String()
	}
	return fmt.Sprintf("%s %s/%s", what, o.GetNamespace(), o.GetName())
}
