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

// deployments do not own their pods: there is a set between them.
var deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// podEventDelay is how long pods of a batch are waited for that come and go one by one.
// Whether they are ready is told by their set, sooner.
const podEventDelay = 200 * time.Millisecond

// EnqueueOwnersOfPods wakes the objects of a list about the pods of Deployments that they release.
func EnqueueOwnersOfPods(r client.Reader, list func() client.ObjectList) handler.EventHandler {
	return Delay(podEventDelay, EnqueueByIndex(r, list, ByWorkload, KeysOfPodOwner(deployments)))
}

// podCache are the pods of a workload by their revision, once a pass has read them.
type podCache struct{ byRevision map[string][]*corev1.Pod }

// Pods are those of a revision of a workload. A pass asks for several, and reads all of them
// once.
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

// listPods finds pods by their owners: another workload may have pods with the same labels,
// and a namespace has many.
func (s Reader) listPods(ctx context.Context, w *Workload) (map[string][]*corev1.Pod, error) {
	by := map[string][]*corev1.Pod{}
	for _, owner := range append([]object.Object{w.Object}, w.Owned...) {
		var pods corev1.PodList
		// They are only looked at, so that the cache need not copy them.
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
