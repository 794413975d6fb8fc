// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && replicas && upgrade

package e2e

import (
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
// answers and whichever controller leads, and requests never fail.
func TestUpgrade(t *testing.T) {
	older := version{*previous, os.DirFS(filepath.Join(*previous, "artifacts"))}
	newer := version{here.cluster.WeirBin(), artifacts.Files}
	replicated(t, cluster.Options{WeirBin: older.bin, Artifacts: older.manifests, Apart: true})

	waiting, aborted, green := midway(t), midway(t), start(t, switched())
	aborted.abort()
	green.release("v2")
	green.until("step 1 waits", green.green(1))
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
	}

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
