// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/batchrelease"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
)

// An effect happens only after the status that decided it is stored, even if the status is unchanged. It does not
// happen if somebody else has written the object in between.
func TestCommitComesBeforeEffect(t *testing.T) {
	t.Parallel()
	status, change := "store status of web", "change web"
	for name, tc := range map[string]struct {
		// prepare makes the server fail; pass is which pass is looked at.
		prepare func(*server)
		passes  int
		want    []string
	}{
		"a first pass":                         {passes: 1, want: []string{status, change}},
		"a pass after a death in between":      {passes: 2, prepare: func(s *server) { s.failingEffects = 1 }, want: []string{status, change}},
		"a pass from what is no longer stored": {passes: 1, prepare: func(s *server) { s.refusesStatus = true }, want: []string{status}},
	} {
		for kind, reconciler := range reconcilers {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				s := newServerFor(t, kind)
				if tc.prepare != nil {
					tc.prepare(s)
				}
				r := reconciler(cluster.Server{Reader: cluster.Reader{Client: s, Live: s, Indexes: s}})
				for range tc.passes {
					s.writes = nil
					dies := s.failingEffects > 0
					if _, err := r.Reconcile(t.Context(), request); (err != nil) != dies {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(tc.want, s.writes); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
			})
		}
	}
}

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "web"}}

type reconciler interface {
	Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error)
}

// reconcilers has the reconcilers that store a status.
var reconcilers = map[string]func(cluster.Server) reconciler{
	"rollout": func(s cluster.Server) reconciler {
		return &rollout.Reconciler{Server: s, Recorder: events.NewFakeRecorder(10), Clock: newFakeClock(), AdmissionStatus: cluster.AdmissionStatus{Reader: s}}
	},
	"batchrelease": func(s cluster.Server) reconciler {
		return &batchrelease.Reconciler{Server: s, Clock: newFakeClock()}
	},
}

func newFakeClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
}

// server is a client that records writes. Each of its objects needs an effect.
type server struct {
	client.WithWatch
	writes []string
	// failingEffects is the number of effects that fail.
	failingEffects int
	// refusesStatus makes every status update fail with a conflict.
	refusesStatus bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.WithWatch = newClientBuilder(t, newObjects()...).WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: s.recordStatusUpdate, Patch: s.recordPatch}).Build()
	return s
}

// newClientBuilder returns a builder of fake clients with the indexes of the caches.
func newClientBuilder(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1beta1.Rollout{}, &v1beta1.BatchRelease{}, &v1alpha1.RolloutHistory{}).
		WithIndex(&v1beta1.Rollout{}, cluster.ByWorkload, cluster.WorkloadKeys).
		WithIndex(&v1beta1.Rollout{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithIndex(&v1beta1.BatchRelease{}, cluster.ByWorkload, cluster.WorkloadKeys).
		WithIndex(&appsv1.ReplicaSet{}, cluster.ByOwner, cluster.OwnerKeys).
		WithIndex(&corev1.Pod{}, cluster.ByOwner, cluster.OwnerKeys).
		WithIndex(&v1alpha1.TrafficRouting{}, cluster.ByLinkedRollout, cluster.LinkedRollouts)
}

// newServerFor returns a server with work for the reconciler of a kind. For batchrelease it has no Rollout, because
// the reconciler ignores a BatchRelease with a Rollout.
func newServerFor(t *testing.T, kind string) *server {
	t.Helper()
	s := newServer(t)
	if kind == "batchrelease" {
		if err := s.Delete(t.Context(), &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *server) recordStatusUpdate(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
	s.writes = append(s.writes, fmt.Sprintf("store %s of %s", sub, o.GetName()))
	if s.refusesStatus {
		return apierrors.NewConflict(rollouts.Resource("rollouts"), o.GetName(), nil)
	}
	return c.SubResource(sub).Update(ctx, o, opts...)
}

func (s *server) recordPatch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	s.writes = append(s.writes, "change "+o.GetName())
	if s.failingEffects > 0 {
		s.failingEffects--
		return apierrors.NewInternalError(context.Canceled)
	}
	return c.Patch(ctx, o, p, opts...)
}

// newObjects returns a Deployment without labels, a Rollout that will label it, and a BatchRelease that will hold it.
func newObjects() []client.Object {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"}
	owned := meta
	owned.OwnerReferences = []metav1.OwnerReference{cluster.OwnerReferenceTo(&rollouts.Rollout{ObjectMeta: meta})}
	ref := v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	share := intstr.FromString("20%")
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}},
		&v1beta1.Rollout{ObjectMeta: meta, Spec: v1beta1.RolloutSpec{
			WorkloadRef: ref,
			Strategy: v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
				Release: v1beta1.Release{Steps: []v1beta1.Step{{Replicas: &share}}},
			}},
		}},
		&v1beta1.BatchRelease{ObjectMeta: owned, Spec: v1beta1.BatchReleaseSpec{
			WorkloadRef: &ref,
			ReleasePlan: v1beta1.ReleasePlan{Batches: []v1beta1.Batch{{CanaryReplicas: share}}, BatchPartition: new(int32)},
		}},
	}
}
