// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// RolloutHistories are written rarely and contain copies of whole objects. So no informer caches them, and
// reads go to the API server. WriteTracker remembers for a while the histories that this process stored.

// Histories returns the status of the stored histories that a pass needs, by release number.
func (s Reader) Histories(ctx context.Context, r *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error) {
	found := map[int64]rollouts.RolloutHistoryStatus{}
	for _, release := range planner.ReleasesWithoutHistory(r.Status) {
		if status, filed := s.WriteTracker.history(planner.HistoryName(r, release.Number)); filed {
			found[release.Number] = status
			continue
		}
		h, err := getHub[rollouts.RolloutHistory, v1alpha1.RolloutHistory](ctx, s.Live, historyKey(r, release.Number))
		if err != nil {
			return nil, err
		}
		if h != nil {
			found[release.Number] = h.Status
		}
	}
	return found, nil
}

func historyKey(r *rollouts.Rollout, number int64) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: planner.HistoryName(r, number)}
}

// ReleaseObjects are the objects of a release that a history copies.
type ReleaseObjects struct {
	Rollout  *rollouts.Rollout
	Workload *Workload
	// Stable is the revision that ran before the release.
	Stable  planner.Revision
	Traffic traffic.Objects
	// Annotations names the annotations that say what was built into the release, by the fields of
	// ReleaseSource.
	Annotations map[string]string
}

// ErrNamespaceTerminating is the error of a write that creates an object in a namespace that is being
// deleted.
var ErrNamespaceTerminating = errors.New("the namespace ends")

// WriteHistory stores a history, and reports whether it was created now. The status needs a second write,
// because a create ignores the status.
func (s Server) WriteHistory(ctx context.Context, p ReleaseObjects, f planner.HistoryEntry) (made bool, err error) {
	key := historyKey(p.Rollout, f.Release.Number)
	h, err := get(ctx, s.Live, key.Namespace, key.Name, &v1alpha1.RolloutHistory{})
	if err != nil {
		return false, err
	}
	if made = h == nil; made {
		if h, err = s.createHistory(ctx, p, f.Release); err != nil {
			return false, err
		}
	}
	if f.Status != nil {
		if !made {
			if err := s.checkHistoryUnchanged(h, f); err != nil {
				return false, err
			}
		}
		if err := s.updateHistoryStatus(ctx, h, p, f); err != nil {
			return made, err
		}
	}
	return made, s.rememberHistory(h)
}

// createHistory creates a history without a status.
func (s Server) createHistory(ctx context.Context, p ReleaseObjects, release rollouts.ReleaseRecord) (*v1alpha1.RolloutHistory, error) {
	h, err := newHistory(p, release)
	if err != nil {
		return nil, err
	}
	if err := s.Create(ctx, h); err != nil {
		return nil, err
	}
	if h.ResourceVersion == "" {
		return nil, ErrNamespaceTerminating
	}
	return h, nil
}

// checkHistoryUnchanged returns a conflict if the status must not replace the stored one.
func (s Server) checkHistoryUnchanged(h *v1alpha1.RolloutHistory, f planner.HistoryEntry) error {
	stored, err := convert[rollouts.RolloutHistory](h)
	if err != nil || f.MayReplace(stored.Status) {
		return err
	}
	s.WriteTracker.recordHistory(h.Name, stored.Status) // the next pass observes this status
	return apierrors.NewConflict(rollouts.Resource("rollouthistories"), h.Name, errors.New("its status changed after the pass had read it"))
}

// updateHistoryStatus stores the status of a history, including the release's earlier decisions.
func (s Server) updateHistoryStatus(ctx context.Context, h *v1alpha1.RolloutHistory, p ReleaseObjects, f planner.HistoryEntry) error {
	status := *f.Status
	earlier, err := s.earlierDecisions(ctx, p.Rollout, f)
	if err != nil {
		return err
	}
	status.Decisions = append(earlier, status.Decisions...)
	wire, err := convert[v1alpha1.RolloutHistory](&rollouts.RolloutHistory{Status: status})
	if err != nil {
		return err
	}
	h.Status = wire.Status
	return s.Status().Update(ctx, h)
}

// earlierDecisions reads the decisions of a release that are no longer in the status of the cached Rollout.
// weir-apiserver adds them to the answer of a list that selects a single name.
func (s Server) earlierDecisions(ctx context.Context, r *rollouts.Rollout, f planner.HistoryEntry) ([]rollouts.Decision, error) {
	if f.DecisionsBefore == 0 {
		return nil, nil
	}
	list := &v1beta1.RolloutList{}
	if err := s.Live.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingFields{"metadata.name": r.Name}); err != nil {
		return nil, fmt.Errorf("reading the decisions about %s: %w", r.Name, err)
	}
	var out []rollouts.Decision
	for i := range list.Items {
		stored, err := convert[rollouts.Rollout](&list.Items[i])
		if err != nil {
			return nil, err
		}
		for _, d := range stored.Status.Decisions {
			if stored.UID == r.UID && d.ID >= f.Release.FirstDecision && d.ID < f.DecisionsBefore {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// rememberHistory remembers a history as the server returned it.
func (s Server) rememberHistory(h *v1alpha1.RolloutHistory) error {
	stored, err := convert[rollouts.RolloutHistory](h)
	if err == nil {
		s.WriteTracker.recordHistory(h.Name, stored.Status)
	}
	return err
}

// newHistory returns a history with copies of the objects of a release, as they are now.
func newHistory(p ReleaseObjects, release rollouts.ReleaseRecord) (*v1alpha1.RolloutHistory, error) {
	r := p.Rollout
	h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: planner.HistoryName(r, release.Number), Labels: planner.HistoryLabels(r, release),
	}}
	data, err := encodeRolloutSpec(r)
	h.Spec.Rollout = &v1alpha1.RolloutInfo{RolloutID: release.RolloutID, ObjectInfo: v1alpha1.ObjectInfo{Name: r.Name, Data: data}}
	errs := []error{err}
	copied := func(o runtime.Object, name string) *v1alpha1.ObjectInfo {
		data, err := encodeSpec(o)
		errs = append(errs, err)
		return &v1alpha1.ObjectInfo{Name: name, Data: data}
	}
	if w, ref := p.Workload, r.Spec.WorkloadRef; w != nil && ref != nil {
		h.Spec.Workload = &v1alpha1.WorkloadInfo{APIVersion: ref.APIVersion, Kind: ref.Kind, ObjectInfo: *copied(w.Object, w.Object.GetName())}
		h.Spec.Source = releaseSource(p.Annotations, h.Spec.Workload.Data, w.Object.GetAnnotations())
		if f := w.Row.Snapshot(w.Object, w.Owned, p.Stable); p.Stable != (planner.Revision{}) && f != nil {
			h.Spec.Stable = &v1alpha1.ObjectInfo{Name: f.Name, Data: v1alpha1.RawJSON{Raw: f.Spec}}
		}
	}
	if svc := p.Traffic.Service; svc != nil {
		h.Spec.Service = copied(svc, svc.Name)
	}
	h.Spec.TrafficRouting = routersInHistory(p.Traffic, copied)
	return h, errors.Join(errs...)
}

// releaseSource reads what was built into a release from the annotations of the pod template and of the workload.
func releaseSource(keys map[string]string, workload v1alpha1.RawJSON, annotations map[string]string) *v1alpha1.ReleaseSource {
	var spec struct {
		Template struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"template"`
	}
	if json.Unmarshal(workload.Raw, &spec) != nil {
		return nil // a kind without a pod template
	}
	s := rollouts.NewReleaseSource(keys, spec.Template.Metadata.Annotations, annotations)
	if s == nil {
		return nil
	}
	return &v1alpha1.ReleaseSource{Version: s.Version, Commit: s.Commit, Author: s.Author, Repository: s.Repository, Link: s.Link}
}

// routersInHistory returns copies of the routers that a history has fields for, or nil if there are none.
func routersInHistory(o traffic.Objects, copied func(runtime.Object, string) *v1alpha1.ObjectInfo) *v1alpha1.TrafficRoutingInfo {
	var info v1alpha1.TrafficRoutingInfo
	for _, r := range o.Routers {
		switch {
		case r.Object == nil:
		case r.IsIngress():
			info.Ingress = copied(r.Object, r.Name)
		case r.IsHTTPRoute():
			info.HTTPRoute = copied(r.Object, r.Name)
		}
	}
	if info == (v1alpha1.TrafficRoutingInfo{}) {
		return nil
	}
	return &info
}

// encodeRolloutSpec encodes the spec of a Rollout in version v1alpha1, which is the version of histories.
// v1alpha1 has no blue-green strategy, so such a spec is encoded in v1beta1.
func encodeRolloutSpec(r *rollouts.Rollout) (v1alpha1.RawJSON, error) {
	var wire runtime.Object
	var err error
	if style, _ := r.Spec.Strategy.Active(); style == rollouts.StyleBlueGreen {
		wire, err = convert[v1beta1.Rollout](r)
	} else {
		wire, err = convert[v1alpha1.Rollout](r)
	}
	if err != nil {
		return v1alpha1.RawJSON{}, err
	}
	return encodeSpec(wire)
}

// encodeSpec returns the spec of an object as JSON.
func encodeSpec(o runtime.Object) (v1alpha1.RawJSON, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return v1alpha1.RawJSON{}, fmt.Errorf("copying %T: %w", o, err)
	}
	var parts struct {
		Spec v1alpha1.RawJSON `json:"spec"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return v1alpha1.RawJSON{}, fmt.Errorf("copying %T: %w", o, err)
	}
	return parts.Spec, nil
}

// PruneHistories deletes the histories of a Rollout that are too many or too old. It does not delete
// histories that others created.
func (s Server) PruneHistories(ctx context.Context, r *rollouts.Rollout, keep planner.HistoryRetention, now time.Time) error {
	list := &v1alpha1.RolloutHistoryList{}
	err := s.Live.List(ctx, list, client.InNamespace(r.Namespace), client.HasLabels{rollouts.LabelReleaseNumber},
		client.MatchingLabels{rollouts.LabelRolloutName: planner.HistoryLabel(r.Name)})
	if err != nil {
		return fmt.Errorf("listing rollouthistories of %s: %w", r.Name, err)
	}
	var all []planner.StoredHistory
	for i := range list.Items {
		h := &list.Items[i]
		number, err := strconv.ParseInt(h.Labels[rollouts.LabelReleaseNumber], 10, 64)
		if err != nil {
			continue // not one of ours
		}
		all = append(all, planner.StoredHistory{Name: h.Name, Number: number, Created: h.CreationTimestamp})
	}
	for _, name := range keep.Outdated(all, now) {
		h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
		if err := ignoreNotFound(s.Delete(ctx, h)); err != nil {
			return fmt.Errorf("deleting rollouthistory %s: %w", name, err)
		}
	}
	return nil
}
