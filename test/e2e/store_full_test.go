// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// newRolloutFor is a Rollout for a Deployment that may not exist.
func newRolloutFor(namespace, name, deployment string) *v1beta1.Rollout {
	all := intstr.FromString("100%")
	return &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			Strategy:    v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: v1beta1.Release{Steps: []v1beta1.Step{{Replicas: &all}}}}},
		},
	}
}

// TestFullStore fills a store of 64 MiB with Rollouts of 240 kB, in the namespace of one release
// and in others. An abort of this release and of one in another namespace must work and end: all
// pods run the stable version. This test does not run in parallel with others.
func TestFullStore(t *testing.T) {
	if err := testEnv.cluster.End(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	if err := testEnv.cluster.StartWith(cluster.WeirAPIServer, "--data-limit=64Mi"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(testEnv.cluster.End(cluster.WeirAPIServer), testEnv.cluster.Start(cluster.WeirAPIServer)); err != nil {
			t.Error(err)
		}
	})
	elsewhere, inside := startPausedAtStep1(t), startPausedAtStep1(t)
	namespaces := []string{inside.namespace}
	for i := range 4 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", inside.namespace, i)}}
		if err := testEnv.client.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, ns.Name)
	}
	t.Cleanup(func() {
		for _, namespace := range namespaces {
			deleteLargeRollouts(t, namespace)
		}
	})
	stored, refused := fillStore(t, namespaces, 300)
	t.Logf("%d Rollouts of 240 kB are stored, and %d are refused", stored, refused)
	if refused == 0 || stored < 100 {
		t.Errorf("%d Rollouts are stored, and %d are refused", stored, refused)
	}
	for _, a := range []*app{inside, elsewhere} {
		a.post(testEnv.admin, "pause", "", http.StatusCreated)
		a.post(testEnv.admin, "resume", "", http.StatusCreated)
		a.abort()
		a.checkAborted("v1")
		a.cancel("v1")
	}
}

// fillStore creates large Rollouts in the namespaces in turn, several at a time.
func fillStore(t *testing.T, namespaces []string, n int) (stored, refused int32) {
	t.Helper()
	var ok, full atomic.Int32
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := newRolloutFor(namespaces[i%len(namespaces)], fmt.Sprintf("large-%d", i), fmt.Sprintf("large-%d", i))
			r.Annotations = map[string]string{"note": strings.Repeat("x", 240_000)}
			switch err := testEnv.client.Create(t.Context(), r); {
			case err == nil:
				ok.Add(1)
			case apierrors.ReasonForError(err) == "InsufficientStorage":
				full.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return ok.Load(), full.Load()
}

// deleteLargeRollouts deletes the large Rollouts of a namespace.
func deleteLargeRollouts(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	list := &v1beta1.RolloutList{}
	if err := testEnv.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		if r := &list.Items[i]; strings.HasPrefix(r.Name, "large-") {
			if err := client.IgnoreNotFound(testEnv.client.Delete(ctx, r)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestConcurrentClaims sends 200 pairs of concurrent requests through kube-apiserver, each pair for
// one workload: creates, and changes of workloadRef to the workload and back. Two stored Rollouts
// must never reference one workload, and a workload without a Rollout must be free.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	ns := start(t, planWithoutTraffic()).namespace
	create := func(name, deployment string) func() error {
		return func() error { return testEnv.client.Create(t.Context(), newRolloutFor(ns, name, deployment)) }
	}
	move := func(name, to string) func() error {
		if err := create(name, name)(); err != nil {
			t.Fatal(err)
		}
		return func() error {
			var err error
			for _, ref := range []string{to, name, to} {
				err = testEnv.client.Patch(t.Context(), newRolloutFor(ns, name, ref),
					client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"workloadRef":{"name":%q}}}`, ref)))
			}
			return err
		}
	}
	const pairs = 200
	var all []func() error
	for i := range pairs {
		a, b, wanted := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("wanted%d", i)
		switch i % 3 {
		case 0:
			all = append(all, create(a, wanted), create(b, wanted))
		case 1:
			all = append(all, move(a, wanted), move(b, wanted))
		case 2:
			all = append(all, move(a, wanted), create(b, wanted))
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 40)
	for _, send := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := send(); err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list := &v1beta1.RolloutList{}
	if err := testEnv.client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{}
	for i := range list.Items {
		r := &list.Items[i]
		by[r.Spec.WorkloadRef.Name] = append(by[r.Spec.WorkloadRef.Name], r.Name)
	}
	for i := range pairs {
		wanted := fmt.Sprintf("wanted%d", i)
		if len(by[wanted]) > 1 {
			t.Errorf("%s is referenced by %v", wanted, by[wanted])
		}
		err := create("late-"+wanted, wanted)()
		if free := len(by[wanted]) == 0; free != (err == nil) {
			t.Errorf("%s is referenced by %v, and the response to one more Rollout for it is: %v", wanted, by[wanted], err)
		}
	}
}
