// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease drives one workload for each BatchRelease. It answers
// how far the workload was told to go and whether it is there; what happens
// next is planner.BatchRelease's to decide. It must not know about traffic,
// steps or approvals.
package batchrelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Reconciler runs one pass at a time over each BatchRelease.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	// Labels says which releases' pods are labelled with their batch.
	Labels batch.PodLabels
	kinds  cluster.Kinds
}

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond

// observation is one pass' view, with what its changes are based on.
type observation struct {
	release  *rollouts.BatchRelease
	workload *cluster.Workload
	facts    batch.Observed
	// again is when pods that may still get ready are looked at again.
	again time.Duration
}

// Reconcile runs one pass: observe, plan, commit, apply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obs, err := r.observe(ctx, req)
	if cluster.Behind(err) {
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	}
	if err != nil || obs == nil {
		return ctrl.Result{}, err
	}
	plan := batch.Decide(obs.facts)
	// It has the name of the Rollout that it belongs to.
	log := logf.FromContext(ctx).WithValues("Rollout", req.NamespacedName, "revision", plan.Status.UpdateRevision, "batch", plan.Status.CurrentBatch)
	ctx = logf.IntoContext(ctx, log)
	err = r.Server.CommitBatchRelease(ctx, obs.release, plan.Status, len(plan.Actions) > 0)
	if err == nil {
		r.announce(obs.release, plan.Events)
		log.V(4).Info("Planned", "reason", plan.Rule, "phase", plan.Status.Phase, "actions", len(plan.Actions))
		err = r.recordWriteError(ctx, obs, r.apply(ctx, obs, plan))
	}
	if cluster.Moved(err) {
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	if cluster.Vanished(err, req.Name) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("applying %q: %w", plan.Rule, err)
	}
	return ctrl.Result{RequeueAfter: obs.again}, nil
}

func (r *Reconciler) observe(ctx context.Context, req ctrl.Request) (*observation, error) {
	release, err := r.Server.BatchRelease(ctx, req.NamespacedName)
	if err != nil || release == nil {
		return nil, err
	}
	obs := &observation{release: release, facts: batch.Observed{Now: r.Clock.Now(), Release: release, Owned: owned(release), Labels: r.Labels}}
	if obs.facts.Wanted, err = r.Server.Wanted(ctx, release); err != nil {
		return nil, err
	}
	ref := release.Spec.WorkloadRef
	if ref == nil {
		return obs, nil
	}
	if err := r.observeTaken(ctx, obs, *ref); err != nil {
		return nil, err
	}
	style := cmp.Or(release.Spec.Plan.RollingStyle, rollouts.StylePartition)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		return nil, nil // the Rollout says what is not supported
	}
	readable, err := r.observeWorkload(ctx, obs, row)
	if err != nil || !readable {
		return nil, err // the Rollout says what may not be read
	}
	if obs.workload == nil {
		return obs, nil
	}
	return obs, r.observePods(ctx, obs, style)
}

// observeWorkload reads the workload, if there is one, and reports whether it may be
// read at all.
func (r *Reconciler) observeWorkload(ctx context.Context, obs *observation, row workload.Row) (readable bool, err error) {
	absence, err := r.kinds.Absent(ctx, r.Server, row)
	if err != nil || absence.Why != "" {
		return !absence.Forbidden, err
	}
	b := obs.release
	obs.workload, err = r.Server.Workload(ctx, row, b.Namespace, b.Spec.WorkloadRef.Name, planner.KnownOf(nil, b))
	if err == nil && obs.workload != nil {
		facts := obs.workload.Facts()
		obs.facts.Workload = &facts
	}
	return true, err
}

// observeTaken finds the Rollout that releases what is named by the BatchRelease of
// nobody, or of a Rollout that is gone or another one.
func (r *Reconciler) observeTaken(ctx context.Context, obs *observation, ref rollouts.ObjectRef) error {
	if obs.facts.Wanted {
		return nil
	}
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	var err error
	obs.facts.Taken, err = r.Server.RolloutNaming(ctx, gk, types.NamespacedName{Namespace: obs.release.Namespace, Name: ref.Name})
	return err
}

// observePods looks at the pods that are waited for, to find out why they do not
// get ready, and at those of the update revision where they are to be labelled.
func (r *Reconciler) observePods(ctx context.Context, obs *observation, style rollouts.Style) error {
	facts := obs.facts.Workload
	if revision, whose := batch.Awaits(obs.release, facts); revision != "" {
		pods, err := r.pods(ctx, obs.workload, revision)
		if err != nil {
			return err
		}
		obs.facts.Trouble, obs.again = workload.Trouble(pods, whose, r.Clock.Now())
		if refusal := facts.Refusals[revision]; refusal != "" {
			obs.facts.Trouble = whose + " " + refusal
		}
	}
	if facts.PodTemplateHash == "" || !batch.Marks(r.Labels, style, facts) {
		return nil
	}
	pods, err := r.pods(ctx, obs.workload, facts.PodTemplateHash)
	obs.facts.Pods = workload.Pods(pods)
	return err
}

// pods are those of a revision of the workload. They are found by who owns them:
// another workload may have pods with the same label, and a namespace has many.
func (r *Reconciler) pods(ctx context.Context, w *cluster.Workload, revision string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for _, owner := range append([]object.Object{w.Object}, w.Owned...) {
		var pods corev1.PodList
		// They are only looked at, so that the cache need not copy them.
		if err := r.Server.List(ctx, &pods, client.InNamespace(w.Object.GetNamespace()), client.MatchingLabels{w.Row.RevisionKey: revision},
			client.MatchingFields{cluster.ByOwner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing pods of revision %s: %w", revision, err)
		}
		all = append(all, pods.Items...)
	}
	return all, nil
}

// owned reports whether the controller of the BatchRelease is, or was, a Rollout.
func owned(b *rollouts.BatchRelease) bool {
	ref := metav1.GetControllerOf(b)
	return ref != nil && ref.Kind == "Rollout"
}

func (r *Reconciler) apply(ctx context.Context, obs *observation, plan batch.Plan) error {
	for _, action := range plan.Actions {
		logf.FromContext(ctx).Info("Acting", "action", action.String(), "reason", plan.Rule)
		if err := r.act(ctx, obs, action); err != nil {
			return err
		}
	}
	return nil
}

// announce tells what has happened.
func (r *Reconciler) announce(b *rollouts.BatchRelease, announced []planner.Event) {
	for _, e := range announced {
		r.Recorder.Eventf(cluster.AboutBatch(b), nil, cluster.EventType(e), e.Reason, "Release", "%s", e.Message)
	}
}

// recordWriteError notes that the server has denied an action; the Rollout says it.
func (r *Reconciler) recordWriteError(ctx context.Context, obs *observation, err error) error {
	writeError, denied := cluster.WriteError(err)
	if !denied {
		return err
	}
	next := *obs.release.Status.DeepCopy()
	next.Conditions, _ = planner.RecordWriteError(next.Conditions, writeError, r.Clock.Now())
	if commit := r.Server.CommitBatchRelease(ctx, obs.release, next, false); commit != nil {
		return errors.Join(err, commit)
	}
	return err
}

func (r *Reconciler) act(ctx context.Context, obs *observation, action planner.Action) error {
	switch a := action.(type) {
	case planner.DropFinalizer:
		return r.Server.ReleaseBatchRelease(ctx, obs.release)
	case planner.MarkPods:
		return r.Server.Mark(ctx, obs.release.Namespace, a.Marks)
	}
	changes, err := onWorkload(obs, action)
	if err != nil {
		return err
	}
	return r.Server.Write(ctx, changes)
}

// onWorkload is what an action changes on the workload and on what it owns.
func onWorkload(obs *observation, action planner.Action) ([]object.Change, error) {
	w := obs.workload
	switch a := action.(type) {
	case planner.SetTarget:
		return w.Changes(w.Row.SetTarget(w.Object, w.Owned, a, cluster.OwnedByBatchRelease(obs.release))), nil
	case planner.Discard:
		return w.Changes(w.Row.Discard(w.Object, w.Owned)), nil
	case planner.Tell:
		return w.Changes(w.Row.Tell(w.Object, w.Owned)), nil
	case planner.RestoreStrategy:
		return w.Changes(w.Row.RestoreStrategy(w.Object, w.Owned)), nil
	case planner.Hold:
		return w.Changes(w.Row.Take(w.Object, obs.release.Name, a.Again)), nil
	case planner.RestoreWorkload:
		return w.Changes(w.Row.Restore(w.Object, w.Owned, a)), nil
	default:
		return nil, fmt.Errorf("no effect for %q", action)
	}
}
