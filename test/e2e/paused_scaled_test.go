// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestPausedScaled scales a paused release. The sizes within the step follow the workload, one old
// pod stays, and the Service stays pinned, even after its owner has applied it without the pin.
func TestPausedScaled(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.steps = []v1beta1.Step{withTraffic(manualStep("4"), "5%"), manualStep("100%")}
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.post(testEnv.admin, "pause", "", http.StatusCreated)
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	a.scale(4)
	a.awaitPods(versions{"v1": 1, "v2": 3})
	a.eventually("the Service has endpoints", a.serviceSelects(name, versions{"v1": 1}))
	a.scale(8)
	a.awaitPods(versions{"v1": 4, "v2": 4})
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	if err := testEnv.client.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"pod-template-hash":null}}}`))); err != nil {
		t.Fatal(err)
	}
	a.eventually("the Service is pinned again", a.serviceSelects(name, versions{"v1": 4}))
	a.checkNow(a.hasCanaryWeight("5"))
	a.checkNow(a.hasProgressingReason("Paused"))
	a.post(testEnv.admin, "resume", "", http.StatusCreated)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 8})
	a.checkRestored(workloadTypeLabel)
}

// TestRefusedScaled scales a blue-green release whose third template is refused. The native
// controller distributes the pods over both versions, and Weir corrects this.
func TestRefusedScaled(t *testing.T) {
	t.Parallel()
	a := start(t, blueGreenPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtBlueGreenStep(1))
	a.release("v3")
	a.eventually("the template is refused", a.messageContains("please rollback first"))
	a.scale(10)
	a.eventually("stable has all its pods, and the new version those of its step", a.runs(versions{"v1": 10, "v2": 5}))
	a.scale(4)
	a.eventually("both versions are scaled down", a.runs(versions{"v1": 4, "v2": 2}))
	a.checkNow(a.messageContains("please rollback first"))
	a.release("v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 4})
	a.checkRestored(workloadTypeLabel)
}
