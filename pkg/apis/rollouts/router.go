// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MayRoute reports whether a kind may be a router, with or without a script. Weir
// writes the spec of a router on behalf of a user who may only write Rollouts, so
// a kind that runs pods, grants rights or holds secrets is never one. Groups of
// Kubernetes have no dot, or end in k8s.io.
func MayRoute(kind schema.GroupKind) bool {
	group, name := strings.ToLower(kind.Group), strings.ToLower(kind.Kind)
	switch {
	case group == "networking.k8s.io":
		return name == "ingress"
	case group == "gateway.networking.k8s.io":
		return strings.HasSuffix(name, "route")
	case !strings.Contains(group, "."), inDomain(group, "k8s.io"), inDomain(group, "kruise.io"):
		return false
	default:
		return !slices.Contains(neverRouters, name)
	}
}

// inDomain reports whether a group is the domain or a subdomain of it.
func inDomain(group, domain string) bool {
	return group == domain || strings.HasSuffix(group, "."+domain)
}

// neverRouters are kinds that route no requests in any group: other projects have
// workloads and roles with the same names as those of Kubernetes.
var neverRouters = []string{
	"cloneset", "configmap", "cronjob", "customresourcedefinition", "daemonset", "deployment", "deploymentconfig", "job", "networkpolicy", "node",
	"persistentvolumeclaim", "pod", "replicaset", "replicationcontroller", "role", "clusterrole", "rolebinding", "clusterrolebinding", "rollout",
	"secret", "serviceaccount", "statefulset",
}
