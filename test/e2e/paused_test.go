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

// A release that is paused goes no further and keeps what it promised: sizes follow
// the workload within the step, one old pod stays, and the Service keeps its pin,
// also after its owner has applied it without.
func TestPausedScaled(t *testing.T) {
	t.Parallel()
	p := usual()
	p.steps = []v1beta1.Step{with(manual("4"), "5%"), manual("100%")}
	a := start(t, p)
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.post(here.admin, "pause", "", http.StatusCreated)
	a.until("it is paused", a.doing("Paused"))
	a.scale(4)
	a.settled(versions{"v1": 1, "v2": 3})
	a.until("the Service has endpoints", a.serves(name, versions{"v1": 1}))
	a.scale(8)
	a.settled(versions{"v1": 4, "v2": 4})
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	if err := here.client.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"pod-template-hash":null}}}`))); err != nil {
		t.Fatal(err)
	}
	a.until("the Service is pinned again", a.serves(name, versions{"v1": 4}))
	a.sees(a.weight("5"))
	a.sees(a.doing("Paused"))
	a.post(here.admin, "resume", "", http.StatusCreated)
	a.until("step 1 waits", a.waitsAt(1))
	a.promote(1)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v2": 8})
	a.traceless(workloadType)
}

// A third template is refused, and the workload grows: what the native controller
// spreads over both versions while it is stopped is put right.
func TestRefusedScaled(t *testing.T) {
	t.Parallel()
	a := start(t, switched())
	a.release("v2")
	a.until("step 1 waits", a.green(1))
	a.release("v3")
	a.until("it is refused", a.says("please rollback first"))
	a.scale(10)
	a.until("stable is whole, and the new version within its step", a.runs(versions{"v1": 10, "v2": 5}))
	a.scale(4)
	a.until("both are smaller", a.runs(versions{"v1": 4, "v2": 2}))
	a.sees(a.says("please rollback first"))
	a.release("v1")
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 4})
	a.traceless(workloadType)
}
