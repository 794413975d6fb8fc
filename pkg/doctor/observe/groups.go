// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"

	"k8s.io/client-go/discovery"
	admission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	rbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// groupClients are the clients of the API groups that are read. A clientset of all groups would be a third of the
// size of the command line program.
type groupClients struct {
	admission     *admission.AdmissionregistrationV1Client
	apps          *apps.AppsV1Client
	authorization *authorization.AuthorizationV1Client
	coordination  *coordination.CoordinationV1Client
	core          *core.CoreV1Client
	discovery     *discovery.DiscoveryClient
	rbac          *rbac.RbacV1Client
}

func newGroupClients(c *rest.Config) (g groupClients, err error) {
	var errs [7]error
	g.admission, errs[0] = admission.NewForConfig(c)
	g.apps, errs[1] = apps.NewForConfig(c)
	g.authorization, errs[2] = authorization.NewForConfig(c)
	g.coordination, errs[3] = coordination.NewForConfig(c)
	g.core, errs[4] = core.NewForConfig(c)
	g.discovery, errs[5] = discovery.NewDiscoveryClientForConfig(c)
	g.rbac, errs[6] = rbac.NewForConfig(c)
	return g, cmp.Or(errs[:]...)
}
