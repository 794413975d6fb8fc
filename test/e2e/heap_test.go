// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

const (
	// heapRounds are how many rounds of releases there are, of heapReleases each. The first
	// heapWarm rounds fill what is filled once.
	heapRounds, heapReleases, heapWarm = 9, 25, 3
	// heapGrowth is what the live heap may grow by in the other rounds, which is less than what
	// one of their 150 Rollouts takes if each of them leaves something behind.
	heapGrowth = 150 * 16 << 10
)

// TestHeapLevelsOff releases workloads in namespaces that are deleted afterwards, round after
// round. What lives on the heap of weir-apiserver, and its goroutines, must not grow with the
// releases that there have been. This does not run beside other tests.
func TestHeapLevelsOff(t *testing.T) {
	if err := here.cluster.End(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	if err := here.cluster.StartWith(cluster.WeirAPIServer, "--profiling=true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(here.cluster.End(cluster.WeirAPIServer), here.cluster.Start(cluster.WeirAPIServer)); err != nil {
			t.Error(err)
		}
	})
	var warm, last liveHeap
	for round := range heapRounds {
		heapRound(t, round)
		last = readHeap(t)
		t.Logf("after %d releases: %d KiB live, %d goroutines", (round+1)*heapReleases, last.bytes>>10, last.goroutines)
		if round+1 == heapWarm {
			warm = last
		}
	}
	if last.bytes > warm.bytes+heapGrowth {
		t.Errorf("the live heap grew from %d to %d bytes in %d releases, all of which are deleted", warm.bytes, last.bytes, (heapRounds-heapWarm)*heapReleases)
	}
	if last.goroutines > warm.goroutines+heapReleases {
		t.Errorf("%d goroutines became %d", warm.goroutines, last.goroutines)
	}
}

// heapRound releases a second version of some workloads, and deletes their namespace.
func heapRound(t *testing.T, round int) {
	t.Helper()
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("heap-%d", round)}}
	if err := here.client.Create(ctx, ns); err != nil {
		t.Fatal(err)
	}
	half := intstr.FromString("50%")
	for i := range heapReleases {
		r := rolloutOf(ns.Name, fmt.Sprint("web", i), fmt.Sprint("web", i))
		steps := &r.Spec.Strategy.Canary.Steps
		*steps = append([]v1beta1.Step{{Replicas: &half, Pause: &v1beta1.Pause{Duration: new(int32)}}}, *steps...)
		if err := errors.Join(here.client.Create(ctx, smallDeployment(ns.Name, r.Name)), here.client.Create(ctx, r)); err != nil {
			t.Fatal(err)
		}
	}
	all := func(what string, is func(*v1beta1.Rollout) bool) {
		t.Helper()
		here.until(t, what, func(ctx context.Context) error {
			list := &v1beta1.RolloutList{}
			if err := here.client.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
				return err
			}
			for i := range list.Items {
				if !is(&list.Items[i]) {
					return fmt.Errorf("%s: %s", list.Items[i].Name, describe(&list.Items[i]))
				}
			}
			return nil
		})
	}
	all("all Rollouts are ready", func(r *v1beta1.Rollout) bool { return r.Status.Phase == v1beta1.PhaseHealthy })
	for i := range heapReleases {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprint("web", i)}}
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image("v2"))
		if err := here.client.Patch(ctx, d, client.RawPatch("application/strategic-merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	all("all releases are over", func(r *v1beta1.Rollout) bool {
		return r.Status.Phase == v1beta1.PhaseHealthy && reason(r) == "Completed"
	})
	if err := here.client.Delete(ctx, ns); err != nil {
		t.Fatal(err)
	}
	here.until(t, "the namespace is gone", func(ctx context.Context) error {
		if err := here.client.Get(ctx, client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func smallDeployment(namespace, name string) *appsv1.Deployment {
	labels, replicas := map[string]string{"app": name}, int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image("v1")}}},
			},
		},
	}
}

type liveHeap struct{ bytes, goroutines int }

// readHeap reads what is alive after two collections: the first one lets finalizers run.
func readHeap(t *testing.T) liveHeap {
	t.Helper()
	number := func(path, pattern string) int {
		page, err := here.page(t.Context(), "https://"+here.cluster.Address(cluster.WeirAPIServer)+"/debug/pprof/"+path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("%s does not say %s", path, pattern)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	number("heap?gc=1&debug=1", `# HeapAlloc = (\d+)`)
	return liveHeap{number("heap?gc=1&debug=1", `# HeapAlloc = (\d+)`), number("goroutine?debug=1", `total (\d+)`)}
}
