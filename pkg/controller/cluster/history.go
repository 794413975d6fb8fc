// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

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

// Histories are written once in a while and hold copies of whole objects. They
// are read from the server, and kept in no cache. What this process filed itself
// it knows for a while.

// Histories reads the stored histories that a pass needs to know, by number of
// release.
func (s Reader) Histories(ctx context.Context, r *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error) {
	found := map[int64]rollouts.RolloutHistoryStatus{}
	for _, release := range planner.ReleasesWithoutHistory(r.Status) {
		if status, filed := s.WriteTracker.filed(planner.HistoryName(r, release.Number)); filed {
			found[release.Number] = status
			continue
		}
		h, err := hub[rollouts.RolloutHistory, v1alpha1.RolloutHistory](ctx, s.Live, historyKey(r, release.Number))
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

// Part is what takes part in a release.
type Part struct {
	Rollout  *rollouts.Rollout
	Workload *Workload
	// Stable is the revision that serves before the release.
	Stable  planner.Revision
	Traffic traffic.Objects
}

// ErrEnding is for what cannot be made in a namespace that ends.
var ErrEnding = errors.New("the namespace ends")

// File stores a history: made without a status, which is a write of its own. It returns
// whether it was made now.
func (s Server) File(ctx context.Context, p Part, f planner.HistoryEntry) (made bool, err error) {
	key := historyKey(p.Rollout, f.Release.Number)
	h, err := get(ctx, s.Live, key.Namespace, key.Name, &v1alpha1.RolloutHistory{})
	if err != nil {
		return false, err
	}
	if made = h == nil; made {
		if h, err = s.makeHistory(ctx, p, f.Release); err != nil {
			return false, err
		}
	}
	if f.Status != nil {
		if err := s.fill(ctx, h, p, f); err != nil {
			return made, err
		}
	}
	return made, s.filed(h)
}

// makeHistory makes a history without a status.
func (s Server) makeHistory(ctx context.Context, p Part, release rollouts.ReleaseRecord) (*v1alpha1.RolloutHistory, error) {
	h, err := newHistory(p, release)
	if err != nil {
		return nil, err
	}
	if err := s.Create(ctx, h); err != nil {
		return nil, err
	}
	if h.ResourceVersion == "" {
		return nil, ErrEnding
	}
	return h, nil
}

// fill gives a history its status.
func (s Server) fill(ctx context.Context, h *v1alpha1.RolloutHistory, p Part, f planner.HistoryEntry) error {
	status := *f.Status
	earlier, err := s.earlier(ctx, p.Rollout, f)
	if err != nil {
		return err
	}
	status.Decisions = append(earlier, status.Decisions...)
	wire, err := converted[v1alpha1.RolloutHistory](&rollouts.RolloutHistory{Status: status})
	if err != nil {
		return err
	}
	h.Status = wire.Status
	return s.Status().Update(ctx, h)
}

// earlier reads the decisions of a release that the status of its Rollout has no more. A
// list of one name has them.
func (s Server) earlier(ctx context.Context, r *rollouts.Rollout, f planner.HistoryEntry) ([]rollouts.Decision, error) {
	if f.Before == 0 {
		return nil, nil
	}
	list := &v1beta1.RolloutList{}
	if err := s.Live.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingFields{"metadata.name": r.Name}); err != nil {
		return nil, fmt.Errorf("reading the decisions about %s: %w", r.Name, err)
	}
	var out []rollouts.Decision
	for i := range list.Items {
		stored, err := converted[rollouts.Rollout](&list.Items[i])
		if err != nil {
			return nil, err
		}
		for _, d := range stored.Status.Decisions {
			if stored.UID == r.UID && d.ID >= f.Release.FirstDecision && d.ID < f.Before {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// filed remembers a history as the server answered it.
func (s Server) filed(h *v1alpha1.RolloutHistory) error {
	stored, err := converted[rollouts.RolloutHistory](h)
	if err == nil {
		s.WriteTracker.file(h.Name, stored.Status)
	}
	return err
}

// newHistory has copies of all that takes part, as it is now.
func newHistory(p Part, release rollouts.ReleaseRecord) (*v1alpha1.RolloutHistory, error) {
	r := p.Rollout
	h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: planner.HistoryName(r, release.Number), Labels: planner.HistoryLabels(r, release),
	}}
	data, err := rolloutSpec(r)
	h.Spec.Rollout = &v1alpha1.RolloutInfo{RolloutID: release.RolloutID, ObjectInfo: v1alpha1.ObjectInfo{Name: r.Name, Data: data}}
	errs := []error{err}
	copied := func(o runtime.Object, name string) *v1alpha1.ObjectInfo {
		data, err := specOf(o)
		errs = append(errs, err)
		return &v1alpha1.ObjectInfo{Name: name, Data: data}
	}
	if w, ref := p.Workload, r.Spec.WorkloadRef; w != nil && ref != nil {
		h.Spec.Workload = &v1alpha1.WorkloadInfo{APIVersion: ref.APIVersion, Kind: ref.Kind, ObjectInfo: *copied(w.Object, w.Object.GetName())}
		if f := w.Row.Snapshot(w.Object, w.Owned, p.Stable); p.Stable != (planner.Revision{}) && f != nil {
			h.Spec.Stable = &v1alpha1.ObjectInfo{Name: f.Name, Data: v1alpha1.RawJSON{Raw: f.Spec}}
		}
	}
	if svc := p.Traffic.Service; svc != nil {
		h.Spec.Service = copied(svc, svc.Name)
	}
	h.Spec.TrafficRouting = routersOf(p.Traffic, copied)
	return h, errors.Join(errs...)
}

// routersOf are the routers that a history has a place for.
func routersOf(o traffic.Objects, copied func(runtime.Object, string) *v1alpha1.ObjectInfo) *v1alpha1.TrafficRoutingInfo {
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

// rolloutSpec is spelled as in v1alpha1, where histories belong. That cannot
// say blue-green, which is spelled as in v1beta1.
func rolloutSpec(r *rollouts.Rollout) (v1alpha1.RawJSON, error) {
	var wire runtime.Object
	var err error
	if style, _ := r.Spec.Strategy.Active(); style == rollouts.StyleBlueGreen {
		wire, err = converted[v1beta1.Rollout](r)
	} else {
		wire, err = converted[v1alpha1.Rollout](r)
	}
	if err != nil {
		return v1alpha1.RawJSON{}, err
	}
	return specOf(wire)
}

// specOf is the spec of an object as the wire has it.
func specOf(o runtime.Object) (v1alpha1.RawJSON, error) {
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

// Prune deletes the histories of a Rollout that are too many or too old. Those
// that others wrote are not touched.
func (s Server) Prune(ctx context.Context, r *rollouts.Rollout, keep planner.HistoryRetention, now time.Time) error {
	list := &v1alpha1.RolloutHistoryList{}
	err := s.Live.List(ctx, list, client.InNamespace(r.Namespace), client.HasLabels{rollouts.LabelReleaseNumber},
		client.MatchingLabels{rollouts.LabelRolloutName: planner.HistoryLabel(r.Name)})
	if err != nil {
		return fmt.Errorf("listing rollouthistories of %s: %w", r.Name, err)
	}
	var all []planner.Aged
	for i := range list.Items {
		h := &list.Items[i]
		number, err := strconv.ParseInt(h.Labels[rollouts.LabelReleaseNumber], 10, 64)
		if err != nil {
			continue // not one of ours
		}
		all = append(all, planner.Aged{Name: h.Name, Number: number, Made: h.CreationTimestamp})
	}
	for _, name := range keep.Outdated(all, now) {
		h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
		if err := ignoreNotFound(s.Delete(ctx, h)); err != nil {
			return fmt.Errorf("deleting rollouthistory %s: %w", name, err)
		}
	}
	return nil
}
