// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && replicas && upgrade

package e2e

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// previous is made by hack/previous.sh; "make upgrade" names it.
var previous = flag.String("e2e.previous", "", "a directory with the binaries and the artifacts of another version")

// version is one of Weir that can be installed.
type version struct {
	bin       string
	manifests fs.FS
}

// TestUpgrade replaces one process after the other by this version, goes all the
// way back, and upgrades again, with artifacts/ha-apart and in the middle of releases.
// At every point of that a step is approved and released, by whichever server
// answers and whichever controller leads, and requests never fail. Decisions that an older
// version stored are there after that, in their order.
func TestUpgrade(t *testing.T) {
	older := version{*previous, os.DirFS(filepath.Join(*previous, "artifacts"))}
	newer := version{here.cluster.WeirBin(), artifacts.Files}
	replicated(t, cluster.Options{WeirBin: older.bin, Artifacts: older.manifests, Apart: true})

	waiting, aborted, green := midway(t), midway(t), start(t, switched())
	aborted.abort()
	green.release("v2")
	green.until("step 1 waits", green.green(1))
	busy := midway(t)
	busy.jumps(50)
	a := start(t, small(14))
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	before, err := a.stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	up := slices.Concat(servers(), controllers())
	back := slices.Concat(controllers(), servers())
	step := int32(1)
	for _, change := range []struct {
		to    version
		order []string
	}{{newer, up}, {older, back}, {newer, up}} {
		if err := here.cluster.Upgrade(t.Context(), change.to.bin, change.to.manifests); err != nil {
			t.Fatal(err)
		}
		calls := waiting.calls(midway(t))
		for _, process := range change.order {
			replace(t, process)
			a.approveSteps(step, step)
			step++
		}
		for _, failed := range calls.end(t) {
			t.Error(failed)
		}
		aborted.sees(aborted.isAborted)
		green.sees(green.green(1))
		busy.jumps(5)
		busy.sees(busy.hasDecisions(change.to == newer))
	}
	busy.until("step 1 waits", busy.waitsAt(1))
	busy.promoteAll()
	busy.until("the release is complete", busy.released("v2"))
	busy.until("each decision is on file", busy.decisionsFiled)

	a.promoteAll()
	a.until("the release is complete", a.released("v2"))
	a.sees(a.onRecord(promotions(step)...))
	if after, err := a.stored(t.Context()); err != nil || after.UID != before.UID {
		t.Errorf("the uid was %s and is %s: %v", before.UID, after.UID, err)
	}
	a.traceless(workloadType)
	green.promote(1)
	green.until("step 2 waits", green.green(2))
	green.promote(2)
	green.until("the Rollout is Healthy", green.released("v2"))
	aborted.cancel("v1")
}

// small is a plan of so many pods, one more in each step.
func small(pods int) plan {
	p := plain()
	p.replicas, p.steps = int32(pods), nil
	for i := range pods {
		p.steps = append(p.steps, v1beta1.Step{Replicas: manual(strconv.Itoa(i + 1)).Replicas})
	}
	return p
}

// jumps decides that many times to go on at the step where the release is.
func (a *app) jumps(times int) {
	a.t.Helper()
	for range times {
		if err := a.verb("jump", `{"step":1}`); err != nil {
			a.t.Fatal(err)
		}
	}
}

// hasDecisions wants each decision to be on record, once and in order; of the version before
// that keeps some beside the status only the latest.
func (a *app) hasDecisions(all bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err != nil {
			return err
		}
		ds := r.Status.Decisions
		for i := range ds {
			if i > 0 && ds[i].ID != ds[i-1].ID+1 || all && ds[i].ID != int64(i+1) {
				return fmt.Errorf("decision %d has the number %d", i+1, ds[i].ID)
			}
		}
		if len(ds) < 20 || ds[len(ds)-1].ID < 55 {
			return fmt.Errorf("%d decisions are on record", len(ds))
		}
		return nil
	}
}

// decisionsFiled wants the history to have each decision, those before the upgrades and after.
func (a *app) decisionsFiled(ctx context.Context) error {
	all, err := a.histories(ctx)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("there are %d histories", len(all))
	}
	ds := all[0].Status.Decisions
	for i := range ds {
		if ds[i].ID != int64(i+1) {
			return fmt.Errorf("decision %d on file has the number %d", i+1, ds[i].ID)
		}
	}
	if len(ds) < 65+1 {
		return fmt.Errorf("%d decisions are on file", len(ds))
	}
	return nil
}

// replace ends a process, and starts what is installed now.
func replace(t *testing.T, process string) {
	t.Helper()
	if err := here.cluster.End(process); err != nil {
		t.Fatal(err)
	}
	if err := here.cluster.Start(process); err != nil {
		t.Fatal(err)
	}
}

// promotions are on record when each of the steps was approved by the administrator.
func promotions(steps int32) []string {
	var all []string
	for i := range steps {
		all = append(all, fmt.Sprintf("promote %d admin applied", i+1))
	}
	return all
}
