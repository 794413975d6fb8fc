// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/weir-rollouts/weir/pkg/object"
)

// deployments is the kind of Deployments. A ReplicaSet is between a Deployment and its pods.
var deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// podEventDelay delays the events of pods, so that one pass handles the pods of a batch together. The
// ReplicaSet reports readiness sooner.
const podEventDelay = 200 * time.Millisecond

// EnqueueOwnersOfPods enqueues the objects that release the Deployment of a pod. The list determines the kind
// of objects.
func EnqueueOwnersOfPods(r client.Reader, list func() client.ObjectList) handler.EventHandler {
	return Delay(podEventDelay, EnqueueByIndex(r, list, ByWorkload, KeysOfPodOwner(deployments)))
}

// podCache has the pods of a workload by revision, after a pass has read them.
type podCache struct{ byRevision map[string][]*corev1.Pod }

// Pods returns the pods of a revision of a workload. The first call reads the pods of all revisions for the
// rest of the pass.
func (s Reader) Pods(ctx context.Context, w *Workload, revision string) ([]*corev1.Pod, error) {
	if w.pods.byRevision == nil {
		by, err := s.listPods(ctx, w)
		if err != nil {
			return nil, err
		}
		w.pods.byRevision = by
	}
	return w.pods.byRevision[revision], nil
}

// listPods lists the pods of a workload by revision. It finds pods by owner reference, because the pods of
// another workload may have the same labels.
func (s Reader) listPods(ctx context.Context, w *Workload) (map[string][]*corev1.Pod, error) {
	by := map[string][]*corev1.Pod{}
	for _, owner := range append([]object.Object{w.Object}, w.Owned...) {
		var pods corev1.PodList
		// Passes do not modify pods, so that the cache need not copy them.
		if err := s.List(ctx, &pods, client.InNamespace(w.Object.GetNamespace()),
			client.MatchingFields{ByOwner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing pods of %s: %w", w.Object.GetName(), err)
		}
		for i := range pods.Items {
			if revision := pods.Items[i].Labels[w.Row.RevisionKey]; revision != "" {
				by[revision] = append(by[revision], &pods.Items[i])
			}
		}
	}
	return by, nil
}
