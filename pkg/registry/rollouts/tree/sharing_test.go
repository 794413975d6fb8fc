// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Two trees of one namespace share the informers of kinds that both read, such as PodDisruptionBudgets.
// Both trees show a change, and one tree keeps working after the other ends.
func TestTreesShareWatches(t *testing.T) {
	const namespace = "shared"
	the.application(t, namespace, 1)
	labels := map[string]string{"app": "other"}
	the.add(t, &appsv1.Deployment{
		ObjectMeta: about(namespace, "other", labels, nil),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	})
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	r.Spec.WorkloadRef = v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}
	r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: v1beta1.Release{Steps: []v1beta1.Step{{Replicas: new(intstr.FromString("20%"))}}}}
	if _, err := the.as(t, admin).RolloutsV1beta1().Rollouts(namespace).Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	the.quiet(t)
	open := func(name string) watch.Interface {
		t.Helper()
		s, err := the.stream(t, vera, namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		the.tree(t, s, watch.Added)
		return s
	}
	first, second := open("web"), open("other")
	const budgets, scalers = "poddisruptionbudgets", "horizontalpodautoscalers"
	the.eventually(t, "the watches of two trees", func() bool { return the.watched()["deployments"] == 2 })
	if now := the.watched(); now[budgets] != 1 || now[scalers] != 1 {
		t.Errorf("two trees of one namespace have these watches: %v", now)
	}
	first.Stop()
	the.eventually(t, "the end of a tree", func() bool { return the.watched()["deployments"] == 1 })
	if now := the.watched(); now[budgets] != 1 || now[scalers] != 1 {
		t.Errorf("the tree that stays open has these watches: %v", now)
	}
	the.add(t, &policyv1.PodDisruptionBudget{
		ObjectMeta: about(namespace, "late", nil, nil), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
	})
	the.eventually(t, "the budget in the other tree", func() bool {
		for _, n := range the.tree(t, second, watch.Modified).Nodes {
			if n.Name == "late" {
				return true
			}
		}
		return false
	})
	second.Stop()
	the.quiet(t)
}
