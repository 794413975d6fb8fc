// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/decisions"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/deleted"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/view"
)

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
	// Room decides which writes the store has room for; nil admits all writes.
	Room storagefull.Room
}

// Endpoints are the REST endpoints of Rollouts. They share one store.
type Endpoints struct {
	Drivers *Drivers

	rollout *REST
	status  *StatusREST
	// commands is the store with the strategy of verbs.
	commands *registry.Store
}

// Serve names the endpoints of a version of the API, whose Rollout verbs answer with.
func (e *Endpoints) Serve(answer any) map[string]rest.Storage {
	served := map[string]rest.Storage{"rollouts": e.rollout, "rollouts/status": e.status}
	for _, row := range commands {
		served["rollouts/"+string(row.verb)] = &CommandREST{command: row, store: e.commands, permissions: e.rollout.drivers.permissions, earlier: e.rollout.earlier, maker: e.rollout.maker, answer: answer}
	}
	return served
}

// Views names the endpoints of what is computed about Rollouts.
func (e *Endpoints) Views(c Config, from look.Sources, histories rest.StandardStorage) (map[string]rest.Storage, look.Why) {
	return view.Serve(view.Config{
		Sources: from, Scheme: c.Scheme, Clock: c.Clock, Histories: histories, Uses: Uses(), Rules: c.Rules, Claimed: e.rollout.claims.Check,
	})
}

type (
	plainREST      = plain.REST[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
	plainStrategy  = plain.Strategy[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
	statusStrategy = plain.StatusStrategy[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
)

// REST serves Rollouts. Each claims its workload before it is stored.
type REST struct {
	*plainREST
	claims  *claim.Claims
	deleted *deleted.Rollouts
	earlier *decisions.Earlier
	drivers *Drivers
	maker   commandMaker
	finder  Finder
	destroy []func()
}

var (
	_ rest.StandardStorage      = (*REST)(nil)
	_ rest.StorageWithReadiness = (*REST)(nil)
)

// NewEndpoints opens the store of Rollouts.
func NewEndpoints(c Config) (*Endpoints, error) {
	d := &Drivers{permissions: permissions{authorizer: c.Authorizer, legacy: c.LegacyApprovals}, controller: c.Controller}
	r := &REST{drivers: d, maker: commandMaker{clock: c.Clock, room: c.Room}, finder: c.Finder}
	if err := r.openBeside(c); err != nil {
		return nil, err
	}
	k := plain.Kind[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]{
		Plural: "rollouts", Singular: "rollout", Versions: []string{"v1beta1", "v1alpha1"},
		New:         func() *rollouts.Rollout { return &rollouts.Rollout{} },
		NewList:     func() runtime.Object { return &rollouts.RolloutList{} },
		Parts:       func(r *rollouts.Rollout) (*rollouts.RolloutSpec, *rollouts.RolloutStatus) { return &r.Spec, &r.Status },
		InUse:       func(r *rollouts.Rollout) bool { return validation.InFlight(&r.Status) },
		Attributes:  attributes,
		AfterDelete: r.released,
		Table:       table,
	}
	main := strategy{plainStrategy: k.Strategy(c.Scheme, d), rules: c.Rules, maker: r.maker}
	kept := statusStrategy{Strategy: main.plainStrategy}
	var status *plain.StatusREST
	var err error
	if r.plainREST, status, err = k.Open(decisions.Getter{RESTOptionsGetter: c.Options, Earlier: r.earlier}, d, main, progressStrategy{kept, main}); err != nil {
		return nil, err
	}
	d.get = r.Get

	command := *r.Store
	command.UpdateStrategy = commandStrategy{kept}
	return &Endpoints{
		Drivers: d, rollout: r, status: &StatusREST{StatusREST: status, drivers: d, maker: r.maker}, commands: &command,
	}, nil
}

// openBeside opens the storages of claims, of deletions and of earlier decisions.
func (r *REST) openBeside(c Config) error {
	options, err := c.Options.GetRESTOptions(rollouts.Resource("rollouts"), &rollouts.Rollout{})
	if err != nil {
		return fmt.Errorf("finding the storage of Rollouts: %w", err)
	}
	r.claims = &claim.Claims{Clock: c.Clock, Stored: func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
		obj, err := r.Get(genericapirequest.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*rollouts.Rollout), nil
	}}
	r.deleted = &deleted.Rollouts{Clock: c.Clock}
	for resource, open := range map[string]*storage.Interface{"claims": &r.claims.Storage, "deletions": &r.deleted.Storage} {
		var destroy func()
		if *open, destroy, err = claim.NewStorage(options.StorageConfig, resource); err != nil {
			return err
		}
		r.destroy = append(r.destroy, destroy)
	}
	r.earlier, err = decisions.NewEarlier(options.StorageConfig, c.Room)
	return err
}

// Destroy implements rest.Storage.
func (r *REST) Destroy() {
	r.Store.Destroy()
	for _, destroy := range r.destroy {
		destroy()
	}
	r.earlier.Destroy()
}

// Create stores a Rollout once its workload is claimed for it.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	ctx, transaction := newClaimTransaction(ctx, r.claims, dryrun.IsDryRun(options.DryRun))
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
	ctx, transaction := newClaimTransaction(ctx, r.claims, dryrun.IsDryRun(options.DryRun))
	referred := &referral{finder: r.finder}
	ctx, tried := withAttempt(ctx)
	info = rest.WrapUpdatedObjectInfo(info, referred.remember, r.complete)
	out, created, err := r.Store.Update(ctx, name, info, transaction.onCreate(create), transaction.onUpdate(update), force, options)
	transaction.settle(ctx, err)
	tried.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err != nil {
		return out, created, err
	}
	referred.warn(ctx, out)
	if !dryrun.IsDryRun(options.DryRun) {
		r.rewriteEarlier(ctx, out.(*rollouts.Rollout))
	}
	return out, created, nil
}

// rewriteEarlier rewrites the earlier decisions in the current storage version and encryption
// key, because a user who rewrites a Rollout expects all of it to be migrated. The Rollout is
// already stored, so a failure is only a warning: an error would deny a write that happened.
func (r *REST) rewriteEarlier(ctx context.Context, stored *rollouts.Rollout) {
	if err := r.earlier.Rewrite(ctx, stored); err != nil {
		klog.ErrorS(err, "Rewriting earlier decisions failed", "rollout", klog.KObj(stored))
		warning.AddWarning(ctx, "", "the Rollout is stored, but its earlier decisions are not yet rewritten in the current version and encryption key ("+
			rollouts.Clean(err.Error(), rollouts.MaxUserAgent)+"); no decision is lost; the next update of the Rollout rewrites them")
	}
}

// Get reads a Rollout. If it does not exist, and the store remembers that a Rollout of this name was
// deleted while it may have held its workload, details.uid of the error is that Rollout's uid.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.plainREST.Get(ctx, name, options)
	var missing *apierrors.StatusError
	if !apierrors.IsNotFound(err) || !errors.As(err, &missing) || missing.ErrStatus.Details == nil {
		return obj, err
	}
	uid, failed := r.deleted.UID(ctx, genericapirequest.NamespaceValue(ctx), name)
	if failed != nil {
		return nil, failed
	}
	missing.ErrStatus.Details.UID = uid
	return nil, missing
}

// released ends the claim of the workload after the Rollout was removed from the store. If the
// controller has not given the workload back, another user has removed the finalizer.
func (r *REST) released(obj runtime.Object, options *metav1.DeleteOptions) {
	gone := obj.(*rollouts.Rollout)
	if gone.Spec.WorkloadRef == nil || (options != nil && dryrun.IsDryRun(options.DryRun)) {
		return
	}
	ctx := context.Background() //nolint:forbidigo // the store calls without the context of the request
	if !planner.HasRestoredWorkload(gone) {
		r.remember(ctx, gone)
	}
	transaction := &claimTransaction{claims: r.claims}
	transaction.release(ctx, ownedRef{claim.OwnerOf(gone), gone.Spec.WorkloadRef})
}

// remember stores that a Rollout was deleted.
func (r *REST) remember(ctx context.Context, gone *rollouts.Rollout) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := r.deleted.Remember(ctx, gone); err != nil {
		klog.ErrorS(err, "The deletion is not remembered; if the workload stays held, create the Rollout again and delete it", "rollout", klog.KObj(gone))
	}
}
