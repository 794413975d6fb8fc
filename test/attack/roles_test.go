// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// role is a kind of attacker.
type role string

// The rows of the matrix.
const (
	patcher   role = "patches workloads"
	status    role = "patches rollouts-status"
	batcher   role = "writes BatchReleases"
	driver    role = "drives releases"
	reviser   role = "deletes ControllerRevisions"
	editor    role = "has edit"
	neighbour role = "has edit in another namespace"
	pauser    role = "has pause and resume only"
	promoter  role = "has promote only"
	manager   role = "has every verb"
	networker role = "writes Services and Ingresses"
	scripter  role = "writes scripts"
	page      role = "a page of another origin"
	nobody    role = "no name at all"
)

func rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func words(w ...string) []string { return w }

const group = "rollouts.kruise.io"

// roles are the rules of roles that neither the cluster nor Weir has.
var roles = map[role][]rbacv1.PolicyRule{
	patcher: {rule("apps", words("deployments", "statefulsets", "daemonsets", "deployments/status", "statefulsets/status",
		"daemonsets/status", "deployments/scale", "statefulsets/scale"), words("get", "list", "watch", "patch", "update")),
		rule("apps.kruise.io", words("clonesets", "statefulsets", "daemonsets"), words("get", "list", "watch", "patch", "update"))},
	status:   {rule(group, words("rollouts", "rollouts/status"), words("get")), rule(group, words("rollouts/status"), words("patch", "update"))},
	pauser:   {rule(group, words("rollouts"), words("get")), rule(group, words("rollouts/pause", "rollouts/resume"), words("create"))},
	promoter: {rule(group, words("rollouts"), words("get")), rule(group, words("rollouts/promote"), words("create"))},
	batcher:  {rule(group, words("batchreleases", "batchreleases/status"), words("get", "create", "patch", "update", "delete", "deletecollection"))},
	driver: {
		rule(group, words("batchreleases"), words("get", "patch", "delete")),
		rule(group, words("rollouts/progress"), words("update")),
	},
	reviser: {rule("apps", words("controllerrevisions"), words("get", "list", "delete"))},
	networker: {
		rule("", words("services"), words("get", "list", "create", "patch", "update", "delete")),
		rule("networking.k8s.io", words("ingresses"), words("get", "list", "create", "patch", "update", "delete")),
	},
	scripter: {rule("", words("configmaps"), words("get", "create", "patch", "update"))},
}

// builtInRoles are roles of the cluster or of Weir.
var builtInRoles = map[role]string{editor: "edit", neighbour: "edit", manager: "weir-release-manager", page: "weir-release-manager"}

// knownBy is a permission of each role that shows that the role is in force.
var knownBy = map[role]authorizationv1.ResourceAttributes{
	patcher:   {Group: "apps", Resource: "deployments", Verb: "patch"},
	status:    {Group: group, Resource: "rollouts", Subresource: "status", Verb: "patch"},
	batcher:   {Group: group, Resource: "batchreleases", Verb: "create"},
	driver:    {Group: group, Resource: "rollouts", Subresource: "progress", Verb: "update"},
	reviser:   {Group: "apps", Resource: "controllerrevisions", Verb: "delete"},
	editor:    {Group: group, Resource: "rollouts", Verb: "create"},
	neighbour: {Group: group, Resource: "rollouts", Verb: "create"},
	pauser:    {Group: group, Resource: "rollouts", Subresource: "pause", Verb: "create"},
	promoter:  {Group: group, Resource: "rollouts", Subresource: "promote", Verb: "create"},
	manager:   {Group: group, Resource: "rollouts", Subresource: "abort", Verb: "create"},
	page:      {Group: group, Resource: "rollouts", Subresource: "abort", Verb: "create"},
	networker: {Resource: "services", Verb: "patch"},
	scripter:  {Resource: "configmaps", Verb: "patch"},
}

// userWithRole is a user with this role: in the namespace of the application, except for a
// neighbour, who has another namespace, and for a scripter, who writes the ConfigMap of scripts.
func (a *app) userWithRole(r role) *user {
	a.t.Helper()
	u := testEnv.user(a.t, r)
	switch r {
	case nobody:
	case neighbour:
		a.bind(u, r, a.otherNamespace())
	case scripter:
		a.bind(u, r, system)
	default:
		a.bind(u, r, a.namespace)
	}
	return u
}

// bind gives a user the role in a namespace, and waits until it is in force.
func (a *app) bind(u *user, r role, namespace string) {
	a.t.Helper()
	name := "attack-" + string(r)
	if given := builtInRoles[r]; given != "" {
		name = given
	}
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: u.name}},
	}
	if err := testEnv.client.Create(a.t.Context(), b); err != nil {
		a.t.Fatal(err)
	}
	cluster, err := kubernetes.NewForConfig(testEnv.cluster.Config())
	if err != nil {
		a.t.Fatal(err)
	}
	ask := knownBy[r]
	ask.Namespace = namespace
	a.eventually(fmt.Sprintf("%s in %s", u.name, namespace), func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: u.name, ResourceAttributes: &ask}}
		got, err := cluster.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !got.Status.Allowed {
			err = errors.New("the role is not in force yet")
		}
		return err
	})
}
