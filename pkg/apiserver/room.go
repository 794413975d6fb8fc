// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/internal/heap"
	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/store"
)

// room implements storagefull.Room (docs/data.md#when-there-is-little-room). It assigns a class
// to each request, so that users cannot use up the space that is reserved for ending releases.
type room struct {
	*store.Room
	controller string
	external   bool
}

// Reclaim implements storagefull.Room.
func (r room) Reclaim(ctx context.Context) {
	r.Backend.Reclaim(ctx, func(u store.Usage) bool { return !u.Full })
}

// AdmitsAll implements storagefull.Room. It is the fast path: most writes come from the
// controllers, and most stores are less than half full.
func (r room) AdmitsAll(ctx context.Context) bool {
	return r.classOf(ctx, storagefull.Write{After: math.MaxInt64}) >= store.Essential && !isSafetyVerb(ctx) && r.IsHalfEmpty()
}

// largestDecision is larger than any decision: one with the longest reason, in which each character is
// escaped.
const largestDecision = 16 << 10

// Space implements storagefull.Room.
func (r room) Space(ctx context.Context, namespace string) (storagefull.Space, error) {
	probe := func(c store.Class, bytes int64) error {
		return r.withAdvice(r.Check(ctx, store.Write{Namespace: namespace, Class: c, Bytes: bytes, Growth: bytes}))
	}
	err := probe(store.Growth, largestDecision)
	if err == nil {
		return storagefull.Ample, nil
	}
	if err := probe(store.Record, smallGrowth); err != nil {
		return storagefull.Exhausted, err
	}
	return storagefull.Scarce, err
}

// Admit implements storagefull.Room.
func (r room) Admit(ctx context.Context, w storagefull.Write) (done func(), _ error) {
	done, err := r.Room.Admit(ctx, store.Write{
		Namespace: w.Namespace, Class: r.classOf(ctx, w), Bytes: w.After, Growth: w.After - w.Before,
	})
	return done, r.withAdvice(err)
}

// withAdvice adds to the error what the client can do.
func (r room) withAdvice(err error) error {
	if full, ok := errors.AsType[*store.FullError](err); ok {
		return fmt.Errorf("%w. %s", full, r.advice(full))
	}
	return err
}

func (r room) advice(full *store.FullError) string {
	if full.Namespace != "" {
		return "Delete Rollouts or RolloutHistories of the namespace that are not needed, or raise --namespace-data-limit of weir-apiserver. " +
			"Until then objects in the namespace cannot grow; releases in progress can still be ended"
	}
	if full.Objects {
		return "The rest is reserved for ending releases and for deletions. Delete Rollouts or RolloutHistories that are not needed, or raise the " +
			"memory limit of weir-apiserver's container, of which objects may use an eighth without --objects-data-limit"
	}
	limit := "--data-limit of weir-apiserver"
	if r.external {
		limit = "--quota-backend-bytes of etcd"
	}
	reserved := "The rest is reserved for the verbs abort, rollback, pause, resume and retry, for deletions, and for the controllers. "
	if full.Class == store.Essential {
		reserved = "The rest is reserved for the verbs abort, rollback, pause, resume and retry, for deletions, and for updates that make an object smaller. "
	}
	return reserved + "Delete Rollouts or RolloutHistories that are not needed, or raise " + limit
}

// safetyVerbs are verbs that stop or undo a release. They always have room: when space is scarce, they add
// little to a Rollout.
var safetyVerbs = []string{string(hub.VerbAbort), string(hub.VerbRollback), string(hub.VerbPause), string(hub.VerbResume), string(hub.VerbRetry)}

func isSafetyVerb(ctx context.Context) bool {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	return ok && slices.Contains(safetyVerbs, info.Subresource)
}

// classOf returns the class of a write that a request is about to make.
func (r room) classOf(ctx context.Context, w storagefull.Write) store.Class {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	who, _ := genericapirequest.UserFrom(ctx)
	growth := w.After - w.Before
	switch {
	case !ok: // the server itself writes
		return store.Essential
	case growth < 0, strings.HasPrefix(info.Verb, "delete"), w.Removes && growth <= smallGrowth, isSafetyVerb(ctx) && growth <= smallDecision:
		return store.Always
	case who != nil && who.GetName() == r.controller:
		return controllerClass(info, w)
	case isSafetyVerb(ctx): // the write has free text, or moves earlier decisions
		return store.Essential
	case growth == 0, info.Subresource != "" && growth <= smallGrowth:
		return store.Record
	default:
		return store.Growth
	}
}

// smallGrowth is enough space for a finalizer, for the next batch in the plan of a BatchRelease, or for a
// decision.
const smallGrowth = 1 << 10

// smallDecision is enough space for a decision without free text, by a user with the longest name, and for
// its changes of the status.
const smallDecision = 4 << 10

// controllerClass returns the class of a write of the controllers that does not shrink an object.
// The controllers copy objects of users: RolloutHistories hold templates, and BatchReleases hold
// the metadata of pods. Such copies must not use up the space that ends releases.
func controllerClass(info *genericapirequest.RequestInfo, w storagefull.Write) store.Class {
	growth := w.After - w.Before
	switch {
	case growth == 0:
		return store.Always
	case info.Resource == "rollouthistories" && info.Verb == "create":
		// Releases do not wait for their histories.
		return store.Growth
	case info.Resource == "rollouthistories" && growth > 0:
		return store.Record
	case info.Resource == "batchreleases" && info.Subresource == "" && (w.Before == 0 || growth > smallGrowth) && !endsRelease(w.Object):
		return store.Record
	default:
		return store.Essential
	}
}

// endsRelease reports whether an object is a BatchRelease that returns the workload to the stable revision,
// or returns the workload to its owner.
func endsRelease(o runtime.Object) bool {
	b, ok := o.(*hub.BatchRelease)
	return ok && (b.Spec.Plan.Abort || b.Spec.Plan.BatchPartition == nil)
}

// openRoom opens the sources of the store's usage: the ledger of namespaces, and the embedded or
// external etcd.
func (c *Config) openRoom() error {
	o := c.options
	prefix := path.Join("/", o.Recommended.Etcd.StorageConfig.Prefix) + "/"
	ledger, err := store.NewLedger(o.etcd(), prefix, accountOf)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, ledger.Close)
	r := &store.Room{Ledger: ledger, Clock: clock.RealClock{}}
	r.NamespaceLimit, r.Limit = o.objectLimits(heap.Container())
	if o.embedded != nil {
		r.Backend = o.embedded
	} else {
		external, err := store.NewExternal(o.etcd(), o.ExternalLimit.Value())
		if err != nil {
			return err
		}
		c.closers = append(c.closers, external.Close)
		c.usageFollowers = append(c.usageFollowers, external.Follow)
		r.Backend = external
	}
	c.usageFollowers = append(c.usageFollowers, ledger.Follow)
	c.room = room{Room: r, controller: o.ControllerUser, external: o.embedded == nil}
	return nil
}

// memoryShare determines how many bytes objects may take in the store: the container's memory limit divided
// by memoryShare. Objects take three times as many bytes in the server's cache, seven times if they have
// many annotations without values, and more in the cache of the controllers.
const memoryShare = 8

// objectLimits returns how many bytes the objects of one namespace, and of all together, may take
// in the store, if the process may use so much memory; 0 means no limit.
func (o *Options) objectLimits(memory int64) (namespace, all int64) {
	all = cmp.Or(o.ObjectsLimit.Value(), memory/memoryShare)
	namespace = cmp.Or(o.Store.Limit.Value(), store.DefaultLimit.Value()) / 4
	if all > 0 {
		namespace = min(namespace, all/4)
	}
	return cmp.Or(o.NamespaceLimit.Value(), namespace), all
}

// followRoom keeps the usage up to date while the server runs. It is a post-start hook that
// returns after the first complete count, so the server is not ready before.
func (c *Config) followRoom(hook genericapiserver.PostStartHookContext) error {
	for _, follow := range c.usageFollowers {
		counted := make(chan struct{})
		c.running.Go(func() { follow(hook.Context, func() { close(counted) }) })
		select {
		case <-counted:
		case <-hook.Done():
			return nil
		}
	}
	return nil
}

// accountOf returns the namespace and resource of an etcd key. Keys of the group weir-rollouts.io
// begin with the name of the group.
func accountOf(key string) (store.Account, bool) {
	parts := strings.Split(strings.TrimPrefix(key, weir.GroupName+"/"), "/")
	if len(parts) < 3 {
		return store.Account{}, false
	}
	return store.Account{Namespace: parts[1], Kind: parts[0]}, true
}
