// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package decisions answers one question: where are the decisions about a Rollout stored?
// The latest are in its status, and earlier ones under a key of their own, so that no write
// and no watch event carries them. It must not know what was decided.
// The protocol is docs/adr/0025-earlier-decisions.md.
package decisions

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// prefix begins the keys.
const prefix = "/decisions"

// Earlier keeps the earlier decisions of each Rollout in a Rollout that has nothing else.
type Earlier struct {
	storage storage.Interface
	// Destroy closes the storage.
	Destroy func()
}

// NewEarlier keeps them in the backend that keeps Rollouts, encrypted as these are. If room is nil,
// every write is sent to etcd.
func NewEarlier(backend *storagebackend.ConfigForResource, room storagefull.Room) (*Earlier, error) {
	s, destroy, err := factory.Create(*backend.ForResource(rollouts.Resource("decisions")),
		func() runtime.Object { return &rollouts.Rollout{} },
		func() runtime.Object { return &rollouts.RolloutList{} },
		prefix)
	if err != nil {
		return nil, fmt.Errorf("opening the storage of decisions: %w", err)
	}
	return &Earlier{storage: storagefull.Storage{Interface: s, Room: room, Codec: backend.Codec}, Destroy: destroy}, nil
}

// Of are the decisions about a Rollout that are earlier than those in its status.
func (e *Earlier) Of(ctx context.Context, r *rollouts.Rollout) ([]rollouts.Decision, error) {
	if !mayHave(r) {
		return nil, nil
	}
	kept := &rollouts.Rollout{}
	if err := e.storage.Get(ctx, keyOf(r), storage.GetOptions{IgnoreNotFound: true}, kept); err != nil {
		return nil, err // as it is, since clients are told by its type
	}
	first := r.Status.Decisions[0].ID
	return slices.DeleteFunc(kept.Status.Decisions, func(d rollouts.Decision) bool { return d.ID >= first }), nil
}

// mayHave reports whether there may be earlier decisions than those in the status. The
// first one ever has the ID 1.
func mayHave(r *rollouts.Rollout) bool {
	return len(r.Status.Decisions) > 0 && r.Status.Decisions[0].ID > 1
}

// Join adds the earlier decisions to the status.
func (e *Earlier) Join(ctx context.Context, r *rollouts.Rollout) error {
	earlier, err := e.Of(ctx, r)
	if len(earlier) > 0 {
		r.Status.Decisions = slices.Concat(earlier, r.Status.Decisions)
	}
	return err
}

// move keeps decisions of a Rollout that has many, and returns it without these. They are
// stored before the Rollout is: if that is not stored, they are there twice, and count once.
func (e *Earlier) move(ctx context.Context, r *rollouts.Rollout) (*rollouts.Rollout, error) {
	if verb.Movable(&r.Status) == 0 {
		return r, nil
	}
	without := r.DeepCopy()
	err := e.storage.GuaranteedUpdate(ctx, keyOf(r), &rollouts.Rollout{}, true, nil,
		func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			kept := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: r.UID}}
			kept.Status.Decisions, without.Status.Decisions = verb.Move(&r.Status, stored.(*rollouts.Rollout).Status.Decisions)
			return kept, nil, nil
		}, nil)
	if err != nil {
		return nil, err
	}
	return without, nil
}

// Rewrite stores what is kept of a Rollout as it would be stored now: in the current version,
// with the current key.
func (e *Earlier) Rewrite(ctx context.Context, r *rollouts.Rollout) error {
	if !mayHave(r) {
		return nil
	}
	err := e.storage.GuaranteedUpdate(ctx, keyOf(r), &rollouts.Rollout{}, false, nil,
		func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return stored, nil, nil
		}, nil)
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// forget deletes what is kept of a Rollout that is gone, and of earlier ones of its name.
func (e *Earlier) forget(ctx context.Context, r *rollouts.Rollout) error {
	all := &rollouts.RolloutList{}
	err := e.storage.GetList(ctx, keyOfAll(r)+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, all)
	if err != nil {
		return fmt.Errorf("listing the earlier decisions about %s: %w", r.Name, err)
	}
	for i := range all.Items {
		err := e.storage.Delete(ctx, keyOf(&all.Items[i]), &rollouts.Rollout{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		if err != nil && !storage.IsNotFound(err) {
			return fmt.Errorf("deleting the earlier decisions about %s: %w", r.Name, err)
		}
	}
	return nil
}

func keyOf(r *rollouts.Rollout) string { return keyOfAll(r) + "/" + string(r.UID) }

func keyOfAll(r *rollouts.Rollout) string { return prefix + "/" + r.Namespace + "/" + r.Name }
