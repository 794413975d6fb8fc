// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// For the controller, the authorizer asks about all objects first, and about the object of the request only
// after a denial. For other users, it asks only about the object of the request.
func TestControllerAuthorizer(t *testing.T) {
	t.Parallel()
	const all, one = "update rollouts/status", "update rollouts/status default/web"
	tests := map[string]struct {
		user    string
		allowed string
		want    authorizer.Decision
		asked   []string
	}{
		"the controller":                    {"controller", all, authorizer.DecisionAllow, []string{all}},
		"the controller, of one namespace":  {"controller", one, authorizer.DecisionAllow, []string{all, one}},
		"the controller without permission": {"controller", "", authorizer.DecisionNoOpinion, []string{all, one}},
		"a user":                            {"dave", one, authorizer.DecisionAllow, []string{one}},
		"a user who may do all":             {"dave", all, authorizer.DecisionNoOpinion, []string{one}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			inner := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				question := a.GetVerb() + " " + a.GetResource() + "/" + a.GetSubresource()
				if a.GetName() != "" {
					question += " " + a.GetNamespace() + "/" + a.GetName()
				}
				asked = append(asked, question)
				if question == tc.allowed {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})
			got, _, err := controllerAuthorizer{inner, "controller"}.Authorize(t.Context(), authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: tc.user}, Verb: "update", Namespace: "default", APIGroup: "rollouts.kruise.io",
				APIVersion: "v1beta1", Resource: "rollouts", Subresource: "status", Name: "web", ResourceRequest: true,
			})
			if got != tc.want || err != nil {
				t.Errorf("decided %d, %v; want %d", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}
