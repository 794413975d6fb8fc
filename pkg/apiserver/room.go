// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/store"
)

// room is the rule about a store that has little space left (docs/data.md#when-there-is-little-room):
// each request has a class, and users cannot fill what the verbs that end a release need.
type room struct {
	*store.Room
	controller string
	external   bool
}

// Reclaim implements storagefull.Room.
func (r room) Reclaim(ctx context.Context) {
	r.Backend.Reclaim(ctx, func(u store.Usage) bool { return !u.Full })
}

// AdmitsAll implements storagefull.Room. Most writes are those of controllers, and most stores
// are not half full.
func (r room) AdmitsAll(ctx context.Context) bool {
	return r.classOf(ctx, 1) == store.Essential && r.HasMuchRoom()
}

// Admit implements storagefull.Room.
func (r room) Admit(ctx context.Context, w storagefull.Write) (done func(), _ error) {
	growth := w.After - w.Before
	done, err := r.Room.Admit(ctx, store.Write{
		Namespace: w.Namespace, Class: r.classOf(ctx, growth), Bytes: w.After, Growth: growth,
	})
	if full, ok := errors.AsType[*store.FullError](err); ok {
		return nil, fmt.Errorf("%w. %s", full, r.advice(full))
	}
	return done, err
}

func (r room) advice(full *store.FullError) string {
	if full.Namespace != "" {
		return "Delete Rollouts or RolloutHistories of the namespace that are not needed, or raise --namespace-data-limit of weir-apiserver. " +
			"Meanwhile nothing in the namespace may grow, and releases that run can be ended"
	}
	limit := "--data-limit of weir-apiserver"
	if r.external {
		limit = "--quota-backend-bytes of etcd"
	}
	return "The rest is kept for abort, rollback, pause, resume, retry, deletions and the controllers. " +
		"Delete Rollouts or RolloutHistories that are not needed, or raise " + limit
}

// safetyVerbs always have room.
var safetyVerbs = []string{string(hub.VerbAbort), string(hub.VerbRollback), string(hub.VerbPause), string(hub.VerbResume), string(hub.VerbRetry)}

// classOf says how much of the store a request may use.
func (r room) classOf(ctx context.Context, growth int64) store.Class {
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	who, _ := genericapirequest.UserFrom(ctx)
	switch {
	case !ok: // the server itself
		return store.Essential
	case who != nil && who.GetName() == r.controller:
		// Releases do not wait for their history, and their number follows what users do.
		if info.Resource == "rollouthistories" && info.Verb == "create" {
			return store.Record
		}
		return store.Essential
	case growth < 0, slices.Contains(safetyVerbs, info.Subresource), strings.HasPrefix(info.Verb, "delete"):
		return store.Essential
	case growth == 0, info.Subresource != "":
		return store.Record
	default:
		return store.Growth
	}
}

// openRoom opens what knows how much is stored. The limit of a namespace is a quarter of that
// of the store unless it is given.
func (c *Config) openRoom() error {
	o := c.options
	prefix := path.Join("/", o.Recommended.Etcd.StorageConfig.Prefix) + "/"
	ledger, err := store.NewLedger(o.etcd(), prefix, placeOf)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, ledger.Close)
	r := &store.Room{Ledger: ledger, Clock: clock.RealClock{}, NamespaceLimit: o.NamespaceLimit.Value()}
	if o.embedded != nil {
		r.Backend = o.embedded
	} else {
		external, err := store.NewExternal(o.etcd(), o.ExternalLimit.Value())
		if err != nil {
			return err
		}
		c.closers = append(c.closers, external.Close)
		c.follow = append(c.follow, external.Follow)
		r.Backend = external
	}
	r.NamespaceLimit = cmp.Or(r.NamespaceLimit, cmp.Or(o.Store.Limit.Value(), store.DefaultLimit.Value())/4)
	c.follow = append(c.follow, ledger.Follow)
	c.room = room{Room: r, controller: o.ControllerUser, external: o.embedded == nil}
	return nil
}

// followRoom counts what is stored as long as the server runs, and returns when it is counted
// once: the server is not ready before.
func (c *Config) followRoom(hook genericapiserver.PostStartHookContext) error {
	for _, follow := range c.follow {
		counted := make(chan struct{})
		c.ends.Go(func() { follow(hook.Context, func() { close(counted) }) })
		select {
		case <-counted:
		case <-hook.Done():
			return nil
		}
	}
	return nil
}

// placeOf says in which namespace a key is, and of which resource, by its path. Keys of the
// second group have the name of the group in front.
func placeOf(key string) (store.Place, bool) {
	parts := strings.Split(strings.TrimPrefix(key, weir.GroupName+"/"), "/")
	if len(parts) < 3 {
		return store.Place{}, false
	}
	return store.Place{Namespace: parts[1], Kind: parts[0]}, true
}
