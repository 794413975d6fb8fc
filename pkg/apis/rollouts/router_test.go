// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMayRoute refuses whatever no script should ever write.
func TestMayRoute(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"Ingress.networking.k8s.io": true, "HTTPRoute.gateway.networking.k8s.io": true, "TCPRoute.gateway.networking.k8s.io": true,
		"VirtualService.networking.istio.io": true, "DestinationRule.networking.istio.io": true, "TraefikService.traefik.io": true,
		"ApisixRoute.apisix.apache.org": true, "HTTPProxy.projectcontour.io": true, "Route.route.openshift.io": true, "Mesh.example.com": true,

		"Pod": false, "Service": false, "ConfigMap": false, "Secret": false, "ServiceAccount": false, "Namespace": false, "Anything": false,
		"Deployment.apps": false, "StatefulSet.apps": false, "Deployment.extensions": false, "CronJob.batch": false, "HorizontalPodAutoscaler.autoscaling": false,
		"Role.rbac.authorization.k8s.io": false, "Role.RBAC.authorization.K8S.io": false, "ValidatingWebhookConfiguration.admissionregistration.k8s.io": false,
		"CustomResourceDefinition.apiextensions.k8s.io": false, "APIService.apiregistration.k8s.io": false,
		"NetworkPolicy.networking.k8s.io": false, "AdminNetworkPolicy.policy.networking.k8s.io": false, "IngressClass.networking.k8s.io": false,
		"Gateway.gateway.networking.k8s.io": false, "ReferenceGrant.gateway.networking.k8s.io": false, "ClusterRole.k8s.io": false,
		"Rollout.rollouts.kruise.io": false, "BatchRelease.rollouts.kruise.io": false, "CloneSet.apps.kruise.io": false, "SidecarSet.Apps.Kruise.io": false,
		"PodUnavailableBudget.policy.kruise.io": false,
		"StatefulSet.apps.example.com":          false, "statefulset.apps.example.com": false, "Rollout.argoproj.io": false, "Job.batch.volcano.sh": false,
		"DeploymentConfig.apps.openshift.io": false, "Role.authorization.openshift.io": false,
	} {
		if got := MayRoute(schema.ParseGroupKind(kind)); got != want {
			t.Errorf("%s may route: %t, want %t", kind, got, want)
		}
	}
}
