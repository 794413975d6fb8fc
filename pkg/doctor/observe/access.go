// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/doctor"
)

// maxParallelReviews is the number of concurrent SubjectAccessReviews.
const maxParallelReviews = 16

// observeAccess checks each permission that the installation grants.
func (o *Observer) observeAccess(ctx context.Context, f *doctor.Facts) error {
	grants, err := o.Wanted.Grants()
	if err != nil {
		return err
	}
	var asked []authorizationv1.ResourceAttributes
	for _, g := range grants {
		if !g.Ours {
			if g.Rules, err = o.readRules(ctx, g); err != nil {
				return err
			}
		}
		for _, attributes := range listPermissions(g) {
			asked = append(asked, attributes)
			f.Access = append(f.Access, doctor.Access{
				Grant: g.Role.Kind + " " + g.Role.Name + " and " + g.Binding, Account: g.Account, Action: describePermission(attributes),
			})
		}
	}
	failed := make([]error, len(asked))
	workqueue.ParallelizeUntil(ctx, maxParallelReviews, len(asked), func(i int) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + o.Wanted.Namespace() + ":" + f.Access[i].Account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + o.Wanted.Namespace(), "system:authenticated"},
			ResourceAttributes: &asked[i],
		}}
		answer, err := o.typed.authorization.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if failed[i] = err; err == nil {
			f.Access[i].Allowed = answer.Status.Allowed
		}
	})
	return cmp.Or(ctx.Err(), cmp.Or(failed...))
}

// readRules reads the rules of a role that does not belong to the installation.
func (o *Observer) readRules(ctx context.Context, g doctor.Grant) ([]rbacv1.PolicyRule, error) {
	if g.Role.Kind == "Role" {
		r, err := nilIfNotFound(o.typed.rbac.Roles(g.Namespace).Get(ctx, g.Role.Name, metav1.GetOptions{}))
		return ptr.Deref(r, rbacv1.Role{}).Rules, err
	}
	r, err := nilIfNotFound(o.typed.rbac.ClusterRoles().Get(ctx, g.Role.Name, metav1.GetOptions{}))
	return ptr.Deref(r, rbacv1.ClusterRole{}).Rules, err
}

// listPermissions returns the permissions of a grant, as attributes of SubjectAccessReviews.
func listPermissions(g doctor.Grant) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
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
						all = append(all, authorizationv1.ResourceAttributes{
							Namespace: g.Namespace, Verb: verb, Group: group, Resource: kind, Subresource: sub, Name: name,
						})
					}
				}
			}
		}
	}
	return all
}

// describePermission describes a permission as text.
func describePermission(a authorizationv1.ResourceAttributes) string {
	what := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if a.Group != "" {
		what += "." + a.Group
	}
	if a.Name != "" {
		what += " " + a.Name
	}
	if a.Namespace != "" {
		what += " in " + a.Namespace
	}
	return what
}
