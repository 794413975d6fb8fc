// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A decision by a write of a field is admitted with the permission of its verb, or if an administrator has
// disabled that check.
func TestMayDecide(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		permissions permissions
		want        func(error) bool
	}{
		"allowed":   {permissions{authorizer: authorizerfactory.NewAlwaysAllowAuthorizer()}, func(err error) bool { return err == nil }},
		"denied":    {permissions{authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()}, apierrors.IsForbidden},
		"as of old": {permissions{authorizer: authorizerfactory.NewAlwaysDenyAuthorizer(), legacyApprovals: true}, func(err error) bool { return err == nil }},
		"no answer": {permissions{authorizer: broken{}}, apierrors.IsInternalError},
	}
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "dave"})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := test.permissions.checkDecision(ctx, "rollouts/status", "web", "a field", rollouts.VerbPromote); !test.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The annotation always needs the permission of its verb.
func TestMustUse(t *testing.T) {
	t.Parallel()
	p := permissions{authorizer: authorizerfactory.NewAlwaysDenyAuthorizer(), legacyApprovals: true}
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "dave"})
	stored := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	stored.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{UpdateRevision: "v2"})
	next := stored.DeepCopy()
	next.Annotations = map[string]string{rollouts.AnnotationDecide: "abort v2 @1767607200"}
	if err := (&REST{access: &Access{permissions: p}, maker: commandMaker{clock: clock.RealClock{}}}).applyDecideAnnotation(ctx, next, stored); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// broken is an authorizer that always returns an error.
type broken struct{ authorizer.Authorizer }

func (broken) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", errors.New("no connection")
}
