// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOnlyTroubleKeepsTheCost checks that cached pods keep the annotation with the deletion cost,
// which selects the pods of a DaemonSet.
func TestOnlyTroubleKeepsTheCost(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Annotations: map[string]string{
		"large": "…", "controller.kubernetes.io/pod-deletion-cost": "-10",
	}}}
	kept, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"controller.kubernetes.io/pod-deletion-cost": "-10"}, kept.(*corev1.Pod).Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestOnlyTroubleKeepsTheAddresses checks that cached pods keep their addresses, because checks by
// http connect only to these.
func TestOnlyTroubleKeepsTheAddresses(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
	}}
	kept, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pod.Status, kept.(*corev1.Pod).Status); diff != "" {
		t.Error(diff)
	}
}
