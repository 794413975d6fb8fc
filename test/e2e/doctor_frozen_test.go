// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"syscall"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// TestDoctorFrozen removes the CA bundle of the webhook while weir-apiserver is frozen, and the
// doctor reports it. This test does not run in parallel with tests that need the webhook.
func TestDoctorFrozen(t *testing.T) {
	// A running server would restore the caBundle.
	if err := testEnv.cluster.Signal(cluster.WeirAPIServer, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := testEnv.cluster.Signal(cluster.WeirAPIServer, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	nobody := []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-workloads"}}
	if err := testEnv.client.Patch(t.Context(), c, client.RawPatch(types.JSONPatchType, nobody)); err != nil {
		t.Fatal(err)
	}
	testEnv.eventually(t, "the doctor reports it", testEnv.doctorFinds("certificates",
		"workloads.weir.rollouts.kruise.io has no caBundle", "rollout restart deploy/weir-apiserver"))
}
