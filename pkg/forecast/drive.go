// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// moveToTarget moves pods once toward the target.
func (r *simulation) moveToTarget(to planner.Target) {
	switch {
	case r.style != rollouts.StylePartition:
		r.surgePods(to)
	case r.Workload.SizedByStore:
		r.scaleReplicaSets(to)
	default:
		r.replacePods(to)
	}
}

// surgePods adds all canary pods at once, in addition to the stable pods.
func (r *simulation) surgePods(to planner.Target) {
	n := max(planner.Limit(rollouts.StyleCanary, to.Partition, r.Workload.Replicas), to.MinExtraReplicas)
	if r.Workload.KeepsLastStablePod {
		n = r.Workload.Limit(r.style, to.Partition)
	}
	if to.Abort {
		n = 0
	}
	r.movePods(n-r.Update, 0)
}

// scaleReplicaSets sizes the ReplicaSets with the same code as a reconcile.
func (r *simulation) scaleReplicaSets(to planner.Target) {
	n := r.Workload.Replicas
	s := sizes.Scaling{
		Replicas: n, Surge: r.Surge, Unavailable: r.Workload.MaxUnavailable, Target: to.Limit(n), AllPods: to.IsAllPods(n), Abort: to.Abort,
		Stable: replicaSet("stable", 1, r.Stable),
	}
	if r.Update > 0 || to.Abort {
		s.Update = replicaSet(revision, 3, r.Update)
	}
	if r.Others > 0 {
		s.Others = []sizes.Set{*replicaSet("others", 2, r.Others)}
	}
	scale := sizes.Decide(s)
	var start, stop int32
	ready := r.totalPods()
	for _, step := range scale.Steps {
		of := map[string]*int32{"": &r.Update, revision: &r.Update, "stable": &r.Stable, "others": &r.Others}[step.Name]
		by := step.Replicas - *of
		*of = step.Replicas
		start, stop = start+max(by, 0), stop+max(-by, 0)
		ready += min(by, 0)
		r.recordMoment(r.Update, r.Stable+r.Others, ready)
	}
	if sole := r.totalPods(); len(scale.Steps) == 0 && sole < n && (sole == r.Update || sole == r.Stable) {
		// The Deployment controller scales up the only ReplicaSet.
		if r.Update > 0 {
			r.movePods(n-sole, 0)
		} else {
			r.movePods(0, n-sole)
		}
		return
	}
	r.recordWave(start, stop)
}

func replicaSet(name string, created int64, n int32) *sizes.Set {
	return &sizes.Set{Name: name, Revision: created, Replicas: n, Ready: n, Available: n}
}

// replacePods replaces as many pods as may be unavailable at once, as the native controller does.
func (r *simulation) replacePods(to planner.Target) {
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
		r.recordMoment(r.Update+more, r.Stable+r.Others, r.totalPods())
	}
	gone := max(by, -by) - more
	r.recordMoment(r.Update, r.Stable+r.Others-gone, r.totalPods()-gone)
	others := min(r.Others, max(by, 0))
	r.Others, r.Update, r.Stable = r.Others-others, r.Update+by, r.Stable-by+others
	r.recordMoment(r.Update, r.Stable+r.Others, r.totalPods()-gone)
	r.recordWave(max(by, -by), max(by, -by))
}

// movePods starts or stops pods of both revisions at once.
func (r *simulation) movePods(update, stable int32) {
	if update == 0 && stable == 0 {
		return
	}
	ready := r.totalPods() + min(update, 0) + min(stable, 0)
	start, stop := max(update, 0)+max(stable, 0), -min(update, 0)-min(stable, 0)
	r.Update += update
	if stable < 0 && r.Others > 0 {
		r.Others = 0
		stable = -r.Stable
	}
	r.Stable += stable
	r.recordMoment(r.Update, r.Stable+r.Others, ready)
	r.recordWave(start, stop)
}

// recordMoment appends a moment, and updates the peak and the minimum of the step.
func (r *simulation) recordMoment(update, stable, ready int32) {
	r.currentStep.Peak, r.currentStep.MinReady = max(r.currentStep.Peak, update+stable), min(r.currentStep.MinReady, ready)
	m := Moment{Step: r.currentStep.Step, Update: update, Stable: stable, Ready: ready}
	if m != r.Moments[len(r.Moments)-1] {
		r.Moments = append(r.Moments, m)
	}
}

// recordWave records started and stopped pods. Pods that stop right after others have started
// belong to the same wave.
func (r *simulation) recordWave(start, stop int32) {
	if start == 0 && stop == 0 {
		return
	}
	waves, next := r.currentStep.Waves, rollouts.Wave{Start: start, Stop: stop, Times: 1}
	if n := len(waves); n > 0 && start == 0 && waves[n-1].Stop == 0 {
		next.Start, waves = waves[n-1].Start, removeLastWave(waves)
	}
	switch n := len(waves); {
	case n > 0 && waves[n-1].Start == next.Start && waves[n-1].Stop == next.Stop:
		waves[n-1].Times++
	case n < maxWaves:
		waves = append(waves, next)
	}
	r.currentStep.Waves = waves
}

// removeLastWave removes one occurrence of the last wave.
func removeLastWave(waves []rollouts.Wave) []rollouts.Wave {
	n := len(waves) - 1
	if waves[n].Times--; waves[n].Times == 0 {
		return waves[:n]
	}
	return waves
}
