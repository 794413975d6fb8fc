// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of a pod's annotations the cache keeps the cost of its deletion, by which a DaemonSet's pods
// are chosen.
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

// Checks by http ask a pod only at the addresses that the cache has of it.
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
