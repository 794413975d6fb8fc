// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// releaseTimeout bounds the release of a claim, which follows a deletion that
// has happened already.
const releaseTimeout = 5 * time.Second

// Config is what the endpoints of Rollouts need.
type Config struct {
	Scheme     *runtime.Scheme
	Options    generic.RESTOptionsGetter
	Authorizer authorizer.Authorizer
	Clock      clock.PassiveClock
	// Controller is the name of the user that drives releases.
	Controller string
	// LegacyApprovals lets a write of the status decide without the permission
	// of the verb that it stands for.
	LegacyApprovals bool
	// Rules are what an administrator decides about validation.
	Rules validation.Options
	// Finder looks up what Rollouts name; nil where there is no cluster.
	Finder Finder
}

// Endpoints are the REST endpoints of Rollouts. They share one store.
type Endpoints struct {
	Rollout  *REST
	Status   *StatusREST
	Commands map[rollouts.Verb]*CommandREST
	Drivers  *Drivers
}

// REST serves Rollouts. Each claims its workload before it is stored.
type REST struct {
	*registry.Store
	claims      *claim.Claims
	permissions permissions
	clock       clock.PassiveClock
	finder      Finder
	destroy     func()
}

var (
	_ rest.StandardStorage      = (*REST)(nil)
	_ rest.StorageWithReadiness = (*REST)(nil)
)

// NewEndpoints opens the store of Rollouts.
func NewEndpoints(c Config) (*Endpoints, error) {
	main := strategy{ObjectTyper: c.Scheme, NameGenerator: names.SimpleNameGenerator, rules: c.Rules, clock: c.Clock, controller: c.Controller}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &rollouts.Rollout{} },
		NewListFunc:               func() runtime.Object { return &rollouts.RolloutList{} },
		DefaultQualifiedResource:  rollouts.Resource("rollouts"),
		SingularQualifiedResource: rollouts.Resource("rollout"),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		TableConvertor:            table{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: c.Options, AttrFunc: attributes}); err != nil {
		return nil, fmt.Errorf("opening the store of rollouts: %w", err)
	}
	r, err := newREST(store, c)
	if err != nil {
		return nil, err
	}

	status := *store
	status.UpdateStrategy = statusStrategy{strategy: main}
	status.ResetFieldsStrategy = statusStrategy{strategy: main}

	command := *store
	command.UpdateStrategy = commandStrategy{strategy: main}

	endpoints := &Endpoints{
		Rollout:  r,
		Status:   &StatusREST{permissions: r.permissions, store: &status, clock: c.Clock, controller: c.Controller},
		Commands: map[rollouts.Verb]*CommandREST{},
		Drivers:  &Drivers{permissions: r.permissions, controller: c.Controller, get: store.Get},
	}
	for _, row := range commands {
		endpoints.Commands[row.verb] = &CommandREST{command: row, store: &command, clock: c.Clock}
	}
	return endpoints, nil
}

func newREST(store *registry.Store, c Config) (*REST, error) {
	options, err := c.Options.GetRESTOptions(rollouts.Resource("rollouts"), &rollouts.Rollout{})
	if err != nil {
		return nil, fmt.Errorf("finding the storage of claims: %w", err)
	}
	backend, destroy, err := claim.NewStorage(options.StorageConfig)
	if err != nil {
		return nil, err
	}
	r := &REST{
		Store: store, destroy: destroy, claims: &claim.Claims{Storage: backend, Clock: c.Clock},
		permissions: permissions{authorizer: c.Authorizer, legacy: c.LegacyApprovals}, clock: c.Clock,
		finder: c.Finder,
	}
	r.claims.Stored = func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
		obj, err := store.Get(genericapirequest.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*rollouts.Rollout), nil
	}
	store.AfterDelete = r.released
	return r, nil
}

// Destroy implements rest.Storage.
func (r *REST) Destroy() {
	r.Store.Destroy()
	r.destroy()
}

// Create stores a Rollout once its workload is claimed for it.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	transaction := &claimTransaction{claims: r.claims, dry: dryrun.IsDryRun(options.DryRun)}
	out, err := r.Store.Create(ctx, obj, transaction.onCreate(validate), options)
	transaction.settle(ctx, err)
	if err == nil {
		(&referral{finder: r.finder}).warn(ctx, out)
	}
	return out, err
}

// Update stores a Rollout once its workload, which may be another one now, is
// claimed for it.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	transaction := &claimTransaction{claims: r.claims, dry: dryrun.IsDryRun(options.DryRun)}
	referred := &referral{finder: r.finder}
	ctx, said := attempting(ctx)
	info = rest.WrapUpdatedObjectInfo(info, referred.remember, r.complete)
	out, created, err := r.Store.Update(ctx, name, info, transaction.onCreate(create), transaction.onUpdate(update), force, options)
	transaction.settle(ctx, err)
	said.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err == nil {
		referred.warn(ctx, out)
	}
	return out, created, err
}

// Delete deletes a Rollout, and never leaves behind what it has made.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, plain.Together("rollouts", validate, options, inFlight), options)
}

// DeleteCollection deletes those of a list in the same way.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, which *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, plain.Together("rollouts", validate, options, inFlight), options, which)
}

func inFlight(r *rollouts.Rollout) bool { return validation.InFlight(&r.Status) }

// released gives the workload up when the object is gone for good.
func (r *REST) released(obj runtime.Object, options *metav1.DeleteOptions) {
	gone := obj.(*rollouts.Rollout)
	if gone.Spec.WorkloadRef == nil || (options != nil && dryrun.IsDryRun(options.DryRun)) {
		return
	}
	// The store calls back without the request's context.
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout) //nolint:forbidigo // see above
	defer cancel()
	if err := r.claims.Release(ctx, claim.OwnerOf(gone), gone.Spec.WorkloadRef); err != nil {
		// The next Rollout of this workload takes the claim over.
		klog.ErrorS(err, "Leaving a claim behind", "rollout", klog.KObj(gone))
	}
}
