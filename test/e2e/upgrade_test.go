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

// previous is a directory that hack/previous.sh creates; "make upgrade" sets it.
var previous = flag.String("e2e.previous", "", "directory with the binaries and the artifacts of another version")

// version is an installable version of Weir.
type version struct {
	bin       string
	manifests fs.FS
}

// TestUpgrade replaces one process after the other with this version, downgrades all of them, and
// upgrades again, with artifacts/ha-apart and during releases. After each replacement a step is
// approved and released by whichever server answers and whichever controller leads, and no request
// fails. Decisions that an older version stored must still exist in their order.
func TestUpgrade(t *testing.T) {
	older := version{*previous, os.DirFS(filepath.Join(*previous, "artifacts"))}
	newer := version{testEnv.cluster.WeirBin(), artifacts.Files}
	startReplicatedCluster(t, cluster.Options{WeirBin: older.bin, Artifacts: older.manifests, Apart: true})

	waiting, aborted, green := startPausedAtStep1(t), startPausedAtStep1(t), start(t, blueGreenPlan())
	aborted.abort()
	green.release("v2")
	green.eventually("step 1 waits", green.waitsAtBlueGreenStep(1))
	busy := startPausedAtStep1(t)
	busy.jumpRepeatedly(50)
	a := start(t, planWithPods(14))
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	before, err := a.getRollout(t.Context())
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
		if err := testEnv.cluster.Upgrade(t.Context(), change.to.bin, change.to.manifests); err != nil {
			t.Fatal(err)
		}
		calls := waiting.startLoad(startPausedAtStep1(t))
		for _, process := range change.order {
			replaceProcess(t, process)
			a.approveSteps(step, step)
			step++
		}
		for _, failed := range calls.end(t) {
			t.Error(failed)
		}
		aborted.checkNow(aborted.isAborted)
		green.checkNow(green.waitsAtBlueGreenStep(1))
		busy.jumpRepeatedly(5)
		busy.checkNow(busy.hasUpgradeDecisions(change.to == newer))
	}
	busy.eventually("step 1 waits", busy.waitsAtStep(1))
	busy.promoteAll()
	busy.eventually("the release is complete", busy.released("v2"))
	busy.eventually("the history has each decision", busy.historyHasDecisions)

	a.promoteAll()
	a.eventually("the release is complete", a.released("v2"))
	a.checkNow(a.hasDecisions(promoteRecords(step)...))
	if after, err := a.getRollout(t.Context()); err != nil || after.UID != before.UID {
		t.Errorf("the uid was %s and is %s: %v", before.UID, after.UID, err)
	}
	a.checkRestored(workloadTypeLabel)
	green.promote(1)
	green.eventually("step 2 waits", green.waitsAtBlueGreenStep(2))
	green.promote(2)
	green.eventually("the Rollout is Healthy", green.released("v2"))
	aborted.cancel("v1")
}

// planWithPods is a plan with this many pods, one more in each step.
func planWithPods(pods int) plan {
	p := planWithoutTraffic()
	p.replicas, p.steps = int32(pods), nil
	for i := range pods {
		p.steps = append(p.steps, v1beta1.Step{Replicas: manualStep(strconv.Itoa(i + 1)).Replicas})
	}
	return p
}

// jumpRepeatedly sends this many jumps to the current step.
func (a *app) jumpRepeatedly(times int) {
	a.t.Helper()
	for range times {
		if err := a.sendVerbOnce("jump", `{"step":1}`); err != nil {
			a.t.Fatal(err)
		}
	}
}

// hasUpgradeDecisions returns a check that each decision is recorded once and in order. The
// previous version keeps older decisions outside of the status, so there only the latest are
// checked.
func (a *app) hasUpgradeDecisions(all bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
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

// historyHasDecisions returns an error unless the history has each decision, from before and after
// the upgrades.
func (a *app) historyHasDecisions(ctx context.Context) error {
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

// replaceProcess ends a process, and starts the installed version.
func replaceProcess(t *testing.T, process string) {
	t.Helper()
	if err := testEnv.cluster.End(process); err != nil {
		t.Fatal(err)
	}
	if err := testEnv.cluster.Start(process); err != nil {
		t.Fatal(err)
	}
}

// promoteRecords are the recorded decisions after the administrator has approved this many steps.
func promoteRecords(steps int32) []string {
	var all []string
	for i := range steps {
		all = append(all, fmt.Sprintf("promote %d admin applied", i+1))
	}
	return all
}
