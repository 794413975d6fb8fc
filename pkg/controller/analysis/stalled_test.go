// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
)

func metricSource(name, secret string) *weir.MetricSource {
	return &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: weir.MetricSourceSpec{
		Prometheus: &weir.Prometheus{URL: "http://" + name + ".invalid", Auth: &weir.SourceAuth{Secret: secret}},
	}}
}

// stalls is a cluster whose server does not answer some requests, until they are given up.
func stalls(t *testing.T, stalled func(obj any, key client.ObjectKey) bool, objects ...client.Object) *analysis.Cluster {
	t.Helper()
	_, stored := clusterOf(t, objects...)
	wait := func(ctx context.Context, obj any, key client.ObjectKey) error {
		if stalled(obj, key) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	live := interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := wait(ctx, obj, key); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			if err := wait(ctx, list, client.ObjectKey{Namespace: o.ApplyOptions(opts).Namespace}); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
	return analysis.NewCluster(stored, live, stored, nil, clock.RealClock{})
}

// While the Secret of a source cannot be read, other sources and Services are asked, and those
// who need the Secret stop waiting.
func TestStalledSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stalls(t, func(obj any, key client.ObjectKey) bool {
			_, is := obj.(*corev1.Secret)
			return is && key.Name == "slow"
		},
			metricSource("slow", "slow"), metricSource("main", "quick"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: weir.SecretNamespace, Name: "quick"}},
			service("shop", "api", 80), leadTo(endpoints("shop", "api", "127.0.0.1:8080"), "Pod", "shop", "p"), podAt("shop", "p", "127.0.0.1"))
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.Source(t.Context(), "slow", "shop")
				failed <- err
			}()
		}
		synctest.Wait() // both wait for the Secret
		if _, err := c.Source(t.Context(), "main", "shop"); err != nil {
			t.Error(err)
		}
		if _, err := c.QueryService(t.Context(), "shop", rollouts.HTTPCheck{Service: "api"}, analysis.Window{Start: time.Unix(1_800_000_000, 0), Length: 30 * time.Second}); err == nil || err.Error() != "api.shop.svc is on this machine, which is asked only if --source-hosts names it" {
			t.Error(err)
		}
		if len(failed) > 0 {
			t.Errorf("the other source failed at once: %v", <-failed)
		}
		for range 2 {
			if err := <-failed; err == nil || analysis.NeedsUserChange(err) {
				t.Errorf("got %v, want an error that another try may cure", err)
			}
		}
	})
}

// A lookup of kube-apiserver's addresses that stalls ends, and keeps no connection waiting that
// is made meanwhile: those that were known are still known.
func TestStalledServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := false
		c := stalls(t, func(obj any, key client.ObjectKey) bool {
			_, is := obj.(*discoveryv1.EndpointSliceList)
			return stalled && is && key.Namespace == metav1.NamespaceDefault
		}, metricSource("main", "quick"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: weir.SecretNamespace, Name: "quick"}})
		if _, err := c.Source(t.Context(), "main", "shop"); err != nil {
			t.Fatal(err)
		}
		stalled = true
		<-time.After(2 * time.Minute) // the addresses are out of date
		failed := make(chan error, 1)
		go func() {
			_, err := c.Source(t.Context(), "main", "shop")
			failed <- err
		}()
		synctest.Wait()
		if known := c.Rules.APIServers(); len(known) == 0 {
			t.Error("no address of kube-apiserver is known while a lookup stalls")
		}
		if err := <-failed; err == nil || analysis.NeedsUserChange(err) {
			t.Errorf("got %v, want an error that another try may cure", err)
		}
	})
}
