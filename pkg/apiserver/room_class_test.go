// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/store"
)

// The default limit for stored objects depends on the memory of the container, because
// weir-apiserver caches all objects.
func TestObjectLimits(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	quantity := func(n int64) resource.QuantityValue {
		return resource.QuantityValue{Quantity: *resource.NewQuantity(n, resource.BinarySI)}
	}
	tests := map[string]struct {
		memory, data, namespace, objects int64
		wantNamespace, wantObjects       int64
	}{
		"no container":                   {wantNamespace: 512 * mib},
		"no container, small store":      {data: 64 * mib, wantNamespace: 16 * mib},
		"one process":                    {memory: 2 * gib, wantNamespace: 64 * mib, wantObjects: 256 * mib},
		"small store":                    {memory: 2 * gib, data: 64 * mib, wantNamespace: 16 * mib, wantObjects: 256 * mib},
		"much memory":                    {memory: 64 * gib, wantNamespace: 512 * mib, wantObjects: 8 * gib},
		"the administrator knows better": {memory: gib, namespace: 300 * mib, objects: 900 * mib, wantNamespace: 300 * mib, wantObjects: 900 * mib},
		"a limit for all":                {memory: gib, objects: 2 * gib, wantNamespace: 512 * mib, wantObjects: 2 * gib},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &Options{NamespaceLimit: quantity(tt.namespace), ObjectsLimit: quantity(tt.objects)}
			o.Store.Limit = quantity(tt.data)
			if namespace, all := o.objectLimits(tt.memory); namespace != tt.wantNamespace || all != tt.wantObjects {
				t.Errorf("%d for a namespace and %d for all, want %d and %d", namespace, all, tt.wantNamespace, tt.wantObjects)
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	const controller, tenant = "controller", "tenant"
	batch := func(abort bool, partition *int32) runtime.Object {
		return &hub.BatchRelease{Spec: hub.BatchReleaseSpec{Plan: hub.ReleasePlan{Abort: abort, BatchPartition: partition}}}
	}
	forward, abort, last := batch(false, new(int32)), batch(true, new(int32)), batch(false, nil)
	type info = genericapirequest.RequestInfo
	type write = storagefull.Write
	tests := map[string]struct {
		who     string
		request info
		write   write
		want    store.Class
	}{
		"a new history":                         {controller, info{Resource: "rollouthistories", Verb: "create"}, write{After: 1000}, store.Growth},
		"the status of a history":               {controller, info{Resource: "rollouthistories", Subresource: "status", Verb: "update"}, write{Before: 1000, After: 2000}, store.Record},
		"a history is deleted":                  {controller, info{Resource: "rollouthistories", Verb: "delete"}, write{Before: 1000, After: 1100}, store.Always},
		"the status of a Rollout":               {controller, info{Resource: "rollouts", Subresource: "status", Verb: "patch"}, write{Before: 1000, After: 9000}, store.Essential},
		"the finalizer of a Rollout":            {controller, info{Resource: "rollouts", Verb: "patch"}, write{Before: 1000, After: 1100}, store.Essential},
		"a new BatchRelease":                    {controller, info{Resource: "batchreleases", Verb: "create"}, write{After: 1000, Object: forward}, store.Record},
		"a new BatchRelease that aborts":        {controller, info{Resource: "batchreleases", Verb: "create"}, write{After: 1000, Object: abort}, store.Essential},
		"a new BatchRelease that restores":      {controller, info{Resource: "batchreleases", Verb: "create"}, write{After: 1000, Object: last}, store.Essential},
		"a BatchRelease with more metadata":     {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 1000, After: 9000, Object: forward}, store.Record},
		"a BatchRelease whose next batch runs":  {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 1000, After: 1001, Object: forward}, store.Essential},
		"a BatchRelease that becomes smaller":   {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 9000, After: 1000, Object: forward}, store.Always},
		"a BatchRelease whose size stays":       {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 1000, After: 1000, Object: forward}, store.Always},
		"a BatchRelease is aborted":             {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 1000, After: 9000, Object: abort}, store.Essential},
		"a BatchRelease restores":               {controller, info{Resource: "batchreleases", Verb: "patch"}, write{Before: 1000, After: 9000, Object: last}, store.Essential},
		"the status of a BatchRelease":          {controller, info{Resource: "batchreleases", Subresource: "status", Verb: "patch"}, write{Before: 1000, After: 9000, Object: forward}, store.Essential},
		"a BatchRelease before it is read":      {controller, info{Resource: "batchreleases", Verb: "patch"}, write{After: 1 << 40}, store.Record},
		"a user creates a BatchRelease to end":  {tenant, info{Resource: "batchreleases", Verb: "create"}, write{After: 1000, Object: abort}, store.Growth},
		"a user creates a Rollout":              {tenant, info{Resource: "rollouts", Verb: "create"}, write{After: 1000}, store.Growth},
		"a user aborts":                         {tenant, info{Resource: "rollouts", Subresource: "abort", Verb: "create"}, write{Before: 1000, After: 2000}, store.Always},
		"a user aborts with a long reason":      {tenant, info{Resource: "rollouts", Subresource: "abort", Verb: "create"}, write{Before: 1000, After: 9000}, store.Essential},
		"a safety verb before it is read":       {tenant, info{Resource: "rollouts", Subresource: "retry", Verb: "create"}, write{After: 1 << 40}, store.Essential},
		"a user rolls back":                     {tenant, info{Resource: "rollouts", Subresource: "rollback", Verb: "create"}, write{Before: 1000, After: 2000}, store.Always},
		"a user pauses":                         {tenant, info{Resource: "rollouts", Subresource: "pause", Verb: "create"}, write{Before: 1000, After: 2000}, store.Always},
		"a user pauses again":                   {tenant, info{Resource: "rollouts", Subresource: "pause", Verb: "create"}, write{Before: 1000, After: 1000}, store.Always},
		"a user retries, and decisions go":      {tenant, info{Resource: "rollouts", Subresource: "retry", Verb: "create"}, write{Before: 1000, After: 900}, store.Always},
		"a user promotes":                       {tenant, info{Resource: "rollouts", Subresource: "promote", Verb: "create"}, write{Before: 1000, After: 2000}, store.Record},
		"a user changes an object without size": {tenant, info{Resource: "rollouts", Verb: "patch"}, write{Before: 1000, After: 1000}, store.Record},
		"a user adds much to a status":          {tenant, info{Resource: "rollouts", Subresource: "status", Verb: "patch"}, write{Before: 1000, After: 9000}, store.Growth},
		"a user approves through the status":    {tenant, info{Resource: "rollouts", Subresource: "status", Verb: "patch"}, write{Before: 1000, After: 1500}, store.Record},
		"a user deletes":                        {tenant, info{Resource: "rollouts", Verb: "delete"}, write{Before: 1000, After: 1100}, store.Always},
		"a user removes a finalizer":            {tenant, info{Resource: "rollouts", Verb: "patch"}, write{Before: 1000, After: 1100, Removes: true}, store.Always},
		"a user swaps a finalizer for much":     {tenant, info{Resource: "rollouts", Verb: "patch"}, write{Before: 1000, After: 9000, Removes: true}, store.Growth},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: test.who})
			ctx = genericapirequest.WithRequestInfo(ctx, &test.request)
			if got := (room{controller: controller}).classOf(ctx, test.write); got != test.want {
				t.Errorf("class %d, want %d", got, test.want)
			}
		})
	}
	if got := (room{}).classOf(t.Context(), write{After: 1000}); got != store.Essential {
		t.Errorf("a write of the server: class %d, want %d", got, store.Essential)
	}
}
