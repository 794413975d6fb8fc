// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package decisions stores the decisions about a Rollout. The latest ones are in the Rollout's status.
// Earlier ones have their own storage key, so that writes and watch events of the Rollout do not carry
// them. The package does not depend on the content of decisions. docs/adr/0025-earlier-decisions.md
// describes the protocol.
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

// prefix is the prefix of all storage keys.
const prefix = "/decisions"

// EarlierStore stores the earlier decisions of each Rollout, in the status of a Rollout that is otherwise empty.
type EarlierStore struct {
	storage storage.Interface
	// Destroy closes the storage.
	Destroy func()
}

// NewEarlierStore opens the storage in the backend of Rollouts, with the same encryption. If room is nil, every
// write is sent to etcd.
func NewEarlierStore(backend *storagebackend.ConfigForResource, room storagefull.Room) (*EarlierStore, error) {
	s, destroy, err := factory.Create(*backend.ForResource(rollouts.Resource("decisions")),
		func() runtime.Object { return &rollouts.Rollout{} },
		func() runtime.Object { return &rollouts.RolloutList{} },
		prefix)
	if err != nil {
		return nil, fmt.Errorf("opening the storage of decisions: %w", err)
	}
	return &EarlierStore{storage: storagefull.Storage{Interface: s, Room: room, Codec: backend.Codec}, Destroy: destroy}, nil
}

// List returns the decisions about a Rollout that are earlier than those in its status.
func (e *EarlierStore) List(ctx context.Context, r *rollouts.Rollout) ([]rollouts.Decision, error) {
	if !mayHaveEarlier(r) {
		return nil, nil
	}
	kept := &rollouts.Rollout{}
	if err := e.storage.Get(ctx, storageKey(r), storage.GetOptions{IgnoreNotFound: true}, kept); err != nil {
		return nil, err // not wrapped, because the type of the error determines the response
	}
	first := r.Status.Decisions[0].ID
	return slices.DeleteFunc(kept.Status.Decisions, func(d rollouts.Decision) bool { return d.ID >= first }), nil
}

// mayHaveEarlier reports whether decisions may exist that are earlier than those in the status. The first decision
// of a Rollout has the ID 1.
func mayHaveEarlier(r *rollouts.Rollout) bool {
	return len(r.Status.Decisions) > 0 && r.Status.Decisions[0].ID > 1
}

// PrependTo prepends the earlier decisions to those in the status.
func (e *EarlierStore) PrependTo(ctx context.Context, r *rollouts.Rollout) error {
	earlier, err := e.List(ctx, r)
	if len(earlier) > 0 {
		r.Status.Decisions = slices.Concat(earlier, r.Status.Decisions)
	}
	return err
}

// moveOut moves decisions of a Rollout with many decisions to the storage, and returns the Rollout without
// them. The decisions are stored before the Rollout. If storing the Rollout then fails, they exist twice,
// and List ignores the duplicates.
func (e *EarlierStore) moveOut(ctx context.Context, r *rollouts.Rollout) (*rollouts.Rollout, error) {
	if verb.CountMovable(&r.Status) == 0 {
		return r, nil
	}
	without := r.DeepCopy()
	err := e.storage.GuaranteedUpdate(ctx, storageKey(r), &rollouts.Rollout{}, true, nil,
		func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			kept := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: r.UID}}
			kept.Status.Decisions, without.Status.Decisions = verb.MoveDecisions(&r.Status, stored.(*rollouts.Rollout).Status.Decisions)
			return kept, nil, nil
		}, nil)
	if err != nil {
		return nil, err
	}
	return without, nil
}

// Rewrite stores the earlier decisions of a Rollout again, in the current storage version and with the
// current encryption key.
func (e *EarlierStore) Rewrite(ctx context.Context, r *rollouts.Rollout) error {
	if !mayHaveEarlier(r) {
		return nil
	}
	err := e.storage.GuaranteedUpdate(ctx, storageKey(r), &rollouts.Rollout{}, false, nil,
		func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return stored, nil, nil
		}, nil)
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteAll deletes the earlier decisions of a deleted Rollout, and of earlier Rollouts with its name.
func (e *EarlierStore) deleteAll(ctx context.Context, r *rollouts.Rollout) error {
	all := &rollouts.RolloutList{}
	err := e.storage.GetList(ctx, storagePrefix(r)+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, all)
	if err != nil {
		return fmt.Errorf("listing the earlier decisions about %s: %w", r.Name, err)
	}
	for i := range all.Items {
		err := e.storage.Delete(ctx, storageKey(&all.Items[i]), &rollouts.Rollout{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		if err != nil && !storage.IsNotFound(err) {
			return fmt.Errorf("deleting the earlier decisions about %s: %w", r.Name, err)
		}
	}
	return nil
}

func storageKey(r *rollouts.Rollout) string { return storagePrefix(r) + "/" + string(r.UID) }

func storagePrefix(r *rollouts.Rollout) string { return prefix + "/" + r.Namespace + "/" + r.Name }
