// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MayRoute reports whether a kind may be a router, with a script if not without.
// Weir writes the spec of a router for somebody who may only write Rollouts, so
// that what runs pods, grants rights, or is somebody's secret is never one,
// whatever scripts there are. Groups of Kubernetes itself have no dot, or end as
// only it may name one.
func MayRoute(kind schema.GroupKind) bool {
	group, name := strings.ToLower(kind.Group), strings.ToLower(kind.Kind)
	switch {
	case group == "networking.k8s.io":
		return name == "ingress"
	case group == "gateway.networking.k8s.io":
		return strings.HasSuffix(name, "route")
	case !strings.Contains(group, "."), within(group, "k8s.io"), within(group, "kruise.io"):
		return false
	default:
		return !slices.Contains(neverRouters, name)
	}
}

// within reports whether a group is the domain or below it.
func within(group, domain string) bool {
	return group == domain || strings.HasSuffix(group, "."+domain)
}

// neverRouters are kinds that send requests nowhere in any group: other projects
// have workloads and roles of the same names as those of Kubernetes.
var neverRouters = []string{
	"cloneset", "configmap", "cronjob", "customresourcedefinition", "daemonset", "deployment", "deploymentconfig", "job", "networkpolicy", "node",
	"persistentvolumeclaim", "pod", "replicaset", "replicationcontroller", "role", "clusterrole", "rolebinding", "clusterrolebinding", "rollout",
	"secret", "serviceaccount", "statefulset",
}
