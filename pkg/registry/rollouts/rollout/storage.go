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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/view"
)

// Config is the configuration of the endpoints of Rollouts.
type Config struct {
	Scheme     *runtime.Scheme
	Options    generic.RESTOptionsGetter
	Authorizer authorizer.Authorizer
	Clock      clock.PassiveClock
	// Controller is the user name of weir-controller.
	Controller string
	// LegacyApprovals admits decisions by writes of the status without the permission for the verb.
	LegacyApprovals bool
	// Rules are the administrator's options for validation.
	Rules validation.Options
	// Finder looks up referenced objects; nil if there is no cluster.
	Finder Finder
	// Room decides which writes the store has room for; nil admits all writes.
	Room storagefull.Room
}

// Endpoints are the REST endpoints of Rollouts. They share one store.
type Endpoints struct {
	Access *Access

	rollout *REST
	status  *StatusREST
	// commands is the store with the update strategy of verbs.
	commands *registry.Store
}

// NewStorage returns the endpoints of one API version. response is a Rollout of that version, the type of the
// responses of verbs.
func (e *Endpoints) NewStorage(response any) map[string]rest.Storage {
	served := map[string]rest.Storage{"rollouts": e.rollout, "rollouts/status": e.status}
	for _, row := range commands {
		served["rollouts/"+string(row.verb)] = &CommandREST{command: row, store: e.commands, permissions: e.rollout.access.permissions, earlier: e.rollout.earlier, maker: e.rollout.maker, response: response}
	}
	return served
}

// LookUpIn makes the warnings about missing references look up the kinds that this server stores, too.
func (e *Endpoints) LookUpIn(stores map[string]rest.Getter) {
	e.rollout.finder = storedFinder{e.rollout.finder, stores}
}

// NewViews returns the endpoints whose responses are computed from Rollouts. It also connects the table of Rollouts with
// the histories.
func (e *Endpoints) NewViews(c Config, from fetch.Sources, histories rest.StandardStorage) (map[string]rest.Storage, fetch.WhyFunc) {
	e.rollout.tables.histories = histories
	return view.NewStorage(view.Config{
		Sources: from, Scheme: c.Scheme, Clock: c.Clock, Histories: histories, Uses: VerbUses(), Rules: c.Rules, CheckClaim: e.rollout.claims.Check,
	})
}

type (
	genericREST     = endpoint.REST[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
	genericStrategy = endpoint.Strategy[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
	statusStrategy  = endpoint.StatusStrategy[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]
)

// REST serves Rollouts. It claims the workload of a Rollout before it stores the Rollout.
type REST struct {
	*genericREST
	claims  *claim.Claims
	deleted *deleted.Rollouts
	earlier *decisions.EarlierStore
	access  *Access
	maker   commandMaker
	finder  Finder
	tables  *tables
	destroy []func()
}

var (
	_ rest.StandardStorage      = (*REST)(nil)
	_ rest.StorageWithReadiness = (*REST)(nil)
)

// NewEndpoints opens the store of Rollouts.
func NewEndpoints(c Config) (*Endpoints, error) {
	d := &Access{permissions: permissions{authorizer: c.Authorizer, legacyApprovals: c.LegacyApprovals}, controller: c.Controller}
	r := &REST{access: d, maker: commandMaker{clock: c.Clock, room: c.Room}, finder: c.Finder, tables: &tables{}}
	if err := r.openRelatedStorages(c); err != nil {
		return nil, err
	}
	k := endpoint.Kind[*rollouts.Rollout, rollouts.RolloutSpec, rollouts.RolloutStatus]{
		Plural: "rollouts", Singular: "rollout", Versions: []string{"v1beta1", "v1alpha1"},
		New:           func() *rollouts.Rollout { return &rollouts.Rollout{} },
		NewList:       func() runtime.Object { return &rollouts.RolloutList{} },
		SpecAndStatus: func(r *rollouts.Rollout) (*rollouts.RolloutSpec, *rollouts.RolloutStatus) { return &r.Spec, &r.Status },
		InUse:         func(r *rollouts.Rollout) bool { return validation.InFlight(&r.Status) },
		GetAttrs:      getAttrs,
		AfterDelete:   r.afterDelete,
		Table:         r.tables.newTable(),
	}
	main := strategy{genericStrategy: k.NewStrategy(c.Scheme, d), rules: c.Rules, maker: r.maker}
	kept := statusStrategy{Strategy: main.genericStrategy}
	var status *endpoint.StatusREST
	var err error
	if r.genericREST, status, err = k.NewREST(decisions.OptionsGetter{RESTOptionsGetter: c.Options, Earlier: r.earlier}, d, main, progressStrategy{kept, main}); err != nil {
		return nil, err
	}
	d.getRollout = r.Get

	command := *r.Store
	command.UpdateStrategy = commandStrategy{kept}
	return &Endpoints{
		Access: d, rollout: r, status: &StatusREST{StatusREST: status, access: d, maker: r.maker}, commands: &command,
	}, nil
}

// openRelatedStorages opens the storages of claims, deletions and earlier decisions.
func (r *REST) openRelatedStorages(c Config) error {
	options, err := c.Options.GetRESTOptions(rollouts.Resource("rollouts"), &rollouts.Rollout{})
	if err != nil {
		return fmt.Errorf("finding the storage of Rollouts: %w", err)
	}
	r.claims = &claim.Claims{Clock: c.Clock, GetRollout: func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
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
	r.earlier, err = decisions.NewEarlierStore(options.StorageConfig, c.Room)
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

// Create claims the workload and stores the Rollout.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	ctx, transaction := newClaimTransaction(ctx, r.claims, dryrun.IsDryRun(options.DryRun))
	out, err := r.Store.Create(ctx, obj, transaction.onCreate(validate), options)
	transaction.finish(ctx, err)
	if err == nil {
		(&referenceWarner{finder: r.finder}).warnMissing(ctx, out)
	}
	return out, err
}

// Update claims the workload, if workloadRef changes, and stores the Rollout.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	ctx, transaction := newClaimTransaction(ctx, r.claims, dryrun.IsDryRun(options.DryRun))
	referred := &referenceWarner{finder: r.finder}
	ctx, tried := withAttempt(ctx)
	info = rest.WrapUpdatedObjectInfo(info, referred.rememberStored, r.completeUpdate)
	out, created, err := r.Store.Update(ctx, name, info, transaction.onCreate(create), transaction.onUpdate(update), force, options)
	transaction.finish(ctx, err)
	tried.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err != nil {
		return out, created, err
	}
	referred.warnMissing(ctx, out)
	if !dryrun.IsDryRun(options.DryRun) {
		r.rewriteEarlier(ctx, out.(*rollouts.Rollout))
	}
	return out, created, nil
}

// Delete deletes the Rollout, and warns if a release was in progress. The store may validate an outdated object first,
// so only the last validation counts.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	text := ""
	out, done, err := r.genericREST.Delete(ctx, name, func(ctx context.Context, obj runtime.Object) error {
		text = endWarning(obj.(*rollouts.Rollout), "deleting")
		return validate(ctx, obj)
	}, options)
	if err == nil && text != "" {
		warning.AddWarning(ctx, "", text)
	}
	return out, done, err
}

// rewriteEarlier rewrites the earlier decisions in the current storage version and encryption key, because
// a user who rewrites a Rollout expects all of it to be migrated. The Rollout is already stored, so a
// failure is only a warning: an error would deny a write that happened.
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
	obj, err := r.genericREST.Get(ctx, name, options)
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

// afterDelete releases the claim of the workload after the Rollout was removed from the store. If the
// controller has not given the workload back, a user has removed the finalizer.
func (r *REST) afterDelete(obj runtime.Object, options *metav1.DeleteOptions) {
	gone := obj.(*rollouts.Rollout)
	if gone.Spec.WorkloadRef == nil || (options != nil && dryrun.IsDryRun(options.DryRun)) {
		return
	}
	ctx := context.Background() //nolint:forbidigo // the store calls without the context of the request
	if !planner.HasRestoredWorkload(gone) {
		r.rememberDeletion(ctx, gone)
	}
	transaction := &claimTransaction{claims: r.claims}
	transaction.release(ctx, ownedRef{claim.NewOwner(gone), gone.Spec.WorkloadRef})
}

// rememberDeletion stores that a Rollout was deleted.
func (r *REST) rememberDeletion(ctx context.Context, gone *rollouts.Rollout) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := r.deleted.Remember(ctx, gone); err != nil {
		klog.ErrorS(err, "The deletion is not remembered; if the workload stays held, create the Rollout again and delete it", "rollout", klog.KObj(gone))
	}
}
