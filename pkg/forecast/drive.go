// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// drive moves pods once as the workload is told.
func (r *run) drive(to planner.Target) {
	switch {
	case r.style != rollouts.StylePartition:
		r.beside(to)
	case r.Workload.SizedByStore:
		r.sized(to)
	default:
		r.replaced(to)
	}
}

// beside has pods come beside the stable ones, all at once.
func (r *run) beside(to planner.Target) {
	n := max(planner.Limit(rollouts.StyleCanary, to.Partition, r.Workload.Replicas), to.MinExtraReplicas)
	if r.Workload.KeepsLastStablePod {
		n = r.Workload.Limit(r.style, to.Partition)
	}
	if to.Abort {
		n = 0
	}
	r.move(n-r.Update, 0)
}

// sized has the ReplicaSets sized as in a pass.
func (r *run) sized(to planner.Target) {
	n := r.Workload.Replicas
	s := sizes.Scaling{
		Replicas: n, Surge: r.Surge, Unavailable: r.Workload.MaxUnavailable, Target: to.Limit(n), Full: to.IsAllPods(n), Abort: to.Abort,
		Stable: set("stable", 1, r.Stable),
	}
	if r.Update > 0 || to.Abort {
		s.Update = set(revision, 3, r.Update)
	}
	if r.Others > 0 {
		s.Others = []sizes.Set{*set("others", 2, r.Others)}
	}
	scale := sizes.Decide(s)
	var start, stop int32
	ready := r.all()
	for _, step := range scale.Steps {
		of := map[string]*int32{"": &r.Update, revision: &r.Update, "stable": &r.Stable, "others": &r.Others}[step.Name]
		by := step.Replicas - *of
		*of = step.Replicas
		start, stop = start+max(by, 0), stop+max(-by, 0)
		ready += min(by, 0)
		r.note(r.Update, r.Stable+r.Others, ready)
	}
	if sole := r.all(); len(scale.Steps) == 0 && sole < n && (sole == r.Update || sole == r.Stable) {
		// The native controller fills the only set.
		if r.Update > 0 {
			r.move(n-sole, 0)
		} else {
			r.move(0, n-sole)
		}
		return
	}
	r.wave(start, stop)
}

func set(name string, created int64, n int32) *sizes.Set {
	return &sizes.Set{Name: name, Revision: created, Replicas: n, Ready: n, Available: n}
}

// replaced has the native controller, or Weir, replace as many pods as may be missing.
func (r *run) replaced(to planner.Target) {
	by := to.LimitFor(&r.Workload) - r.Update
	if to.Abort {
		by = -r.Update
	}
	at := max(r.Workload.MaxUnavailable+r.Surge, 1)
	by = max(min(by, at), -at)
	if by == 0 {
		return
	}
	more := min(max(by, -by), r.Surge)
	if more > 0 {
		r.note(r.Update+more, r.Stable+r.Others, r.all())
	}
	gone := max(by, -by) - more
	r.note(r.Update, r.Stable+r.Others-gone, r.all()-gone)
	others := min(r.Others, max(by, 0))
	r.Others, r.Update, r.Stable = r.Others-others, r.Update+by, r.Stable-by+others
	r.note(r.Update, r.Stable+r.Others, r.all()-gone)
	r.wave(max(by, -by), max(by, -by))
}

// move starts or stops pods of both versions at once.
func (r *run) move(update, stable int32) {
	if update == 0 && stable == 0 {
		return
	}
	ready := r.all() + min(update, 0) + min(stable, 0)
	start, stop := max(update, 0)+max(stable, 0), -min(update, 0)-min(stable, 0)
	r.Update += update
	if stable < 0 && r.Others > 0 {
		r.Others = 0
		stable = -r.Stable
	}
	r.Stable += stable
	r.note(r.Update, r.Stable+r.Others, ready)
	r.wave(start, stop)
}

// note keeps a moment.
func (r *run) note(update, stable, ready int32) {
	r.now.Peak, r.now.MinReady = max(r.now.Peak, update+stable), min(r.now.MinReady, ready)
	m := Moment{Step: r.now.Step, Update: update, Stable: stable, Ready: ready}
	if m != r.Moments[len(r.Moments)-1] {
		r.Moments = append(r.Moments, m)
	}
}

// wave keeps what has moved. Pods that stop when others have started are of the same wave.
func (r *run) wave(start, stop int32) {
	if start == 0 && stop == 0 {
		return
	}
	waves, next := r.now.Waves, rollouts.Wave{Start: start, Stop: stop, Times: 1}
	if n := len(waves); n > 0 && start == 0 && waves[n-1].Stop == 0 {
		next.Start, waves = waves[n-1].Start, once(waves)
	}
	switch n := len(waves); {
	case n > 0 && waves[n-1].Start == next.Start && waves[n-1].Stop == next.Stop:
		waves[n-1].Times++
	case n < maxWaves:
		waves = append(waves, next)
	}
	r.now.Waves = waves
}

// once takes off the last wave, once.
func once(waves []rollouts.Wave) []rollouts.Wave {
	n := len(waves) - 1
	if waves[n].Times--; waves[n].Times == 0 {
		return waves[:n]
	}
	return waves
}
