// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/weir-rollouts/weir/pkg/doctor"
)

// questions is how many are asked at once.
const questions = 16

// access asks for each right that the installation grants whether it is there.
func (o *Observer) access(ctx context.Context, f *doctor.Facts) error {
	grants, err := o.Wanted.Grants()
	if err != nil {
		return err
	}
	var asked []authorizationv1.SubjectAccessReviewSpec
	for _, g := range grants {
		if !g.Ours {
			if g.Rules, err = o.role(ctx, g); err != nil {
				return err
			}
		}
		specs, actions := reviews(g)
		asked = append(asked, specs...)
		for _, action := range actions {
			f.Access = append(f.Access, doctor.Access{Grant: g.Role.Kind + " " + g.Role.Name + " and " + g.Binding, Account: g.Account, Action: action})
		}
	}
	failed := make([]error, len(asked))
	workqueue.ParallelizeUntil(ctx, questions, len(asked), func(i int) {
		review := &authorizationv1.SubjectAccessReview{Spec: asked[i]}
		answer, err := o.typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if failed[i] = err; err == nil {
			f.Access[i].Allowed = answer.Status.Allowed
		}
	})
	return cmp.Or(ctx.Err(), cmp.Or(failed...))
}

// role reads the rules of a role that is not ours, but of Kubernetes.
func (o *Observer) role(ctx context.Context, g doctor.Grant) ([]rbacv1.PolicyRule, error) {
	if g.Role.Kind == "Role" {
		r, err := o.typed.RbacV1().Roles(g.Namespace).Get(ctx, g.Role.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		return r.Rules, nil
	}
	r, err := o.typed.RbacV1().ClusterRoles().Get(ctx, g.Role.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return r.Rules, nil
}

// reviews are the questions about a grant, and what each is about in words.
func reviews(g doctor.Grant) ([]authorizationv1.SubjectAccessReviewSpec, []string) {
	var specs []authorizationv1.SubjectAccessReviewSpec
	var actions []string
	ask := func(attributes authorizationv1.ResourceAttributes, action string) {
		specs = append(specs, authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + doctor.Namespace + ":" + g.Account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + doctor.Namespace, "system:authenticated"},
			ResourceAttributes: &attributes,
		})
		actions = append(actions, action)
	}
	for _, rule := range g.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						kind, sub, _ := strings.Cut(resource, "/")
						ask(authorizationv1.ResourceAttributes{
							Namespace: g.Namespace, Verb: verb, Group: group, Resource: kind, Subresource: sub, Name: name,
						}, action(verb, group, resource, name, g.Namespace))
					}
				}
			}
		}
	}
	return specs, actions
}

func action(verb, group, resource, name, namespace string) string {
	what := verb + " " + resource
	if group != "" {
		what += "." + group
	}
	if name != "" {
		what += " " + name
	}
	if namespace != "" {
		what += " in " + namespace
	}
	return what
}
