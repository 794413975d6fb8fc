// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// lagging is a client whose caches show no new versions. It counts writes.
type lagging struct {
	*server
	old client.Reader
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.old.Get(ctx, key, o, opts...)
}

func (l lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.old.List(ctx, list, opts...)
}

// A pass with caches that are older than the writes of this process writes nothing, and is requeued. It does not wait
// forever: after a while it continues, and the server may refuse its write.
func TestPassWaitsForItsOwnWrites(t *testing.T) {
	t.Parallel()
	for kind, reconciler := range reconcilers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, clock := newServerFor(t, kind), clocktesting.NewFakeClock(newFakeClock().Now())
			behind := lagging{server: s, old: newServerFor(t, kind)}
			r := reconciler(cluster.Server{Reader: cluster.Reader{Client: behind, Live: s, Indexes: s, WriteTracker: cluster.NewWriteTracker(clock)}})
			var got [][]string
			var again []time.Duration
			pass := func() {
				s.writes = nil
				result, err := r.Reconcile(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				got, again = append(got, s.writes), append(again, result.RequeueAfter)
			}
			pass()
			pass()
			clock.SetTime(clock.Now().Add(cluster.StaleCacheDelay))
			pass()
			status, change := "store status of web", "change web"
			if diff := cmp.Diff([][]string{{status, change}, nil, {status}}, got); diff != "" {
				t.Errorf("writes of each pass (-want +got):\n%s", diff)
			}
			if again[1] != cluster.StaleCacheDelay {
				t.Errorf("the pass that is behind is run again after %s", again[1])
			}
		})
	}
}

// A pass continues as soon as the caches show the written version or a newer one.
func TestPassGoesOnWithWhatIsShown(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, Indexes: s, WriteTracker: cluster.NewWriteTracker(newFakeClock())}}
	for range 2 {
		release, err := server.BatchRelease(t.Context(), request.NamespacedName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.CommitBatchRelease(t.Context(), release, release.Status); err != nil {
			t.Fatal(err)
		}
	}
	other := &v1beta1.BatchRelease{}
	if err := s.Get(t.Context(), request.NamespacedName, other); err != nil {
		t.Fatal(err)
	}
	other.Labels = map[string]string{"by": "somebody else"}
	if err := s.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := server.BatchRelease(t.Context(), request.NamespacedName); err != nil {
		t.Error(err)
	}
}
