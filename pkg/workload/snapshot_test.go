// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestSnapshotComparesDigests checks that a history does not keep the template of a revision that a user
// has edited: the digest in the store identifies the revision, not its name.
func TestSnapshotComparesDigests(t *testing.T) {
	t.Parallel()
	d, sets := readState(t, "driven")
	one := findSet(t, sets, "web-one")
	ordered := newStatefulScene(t, "a", "AAAAA")
	for name, tt := range map[string]struct {
		row           func(digest string) *RevisionSnapshot
		digest, filed string
	}{
		"a ReplicaSet": {
			row: func(digest string) *RevisionSnapshot {
				return snapshotReplicaSet(d, sets, planner.Revision{Name: "one", Template: digest})
			},
			digest: Digest(&one.Spec.Template), filed: "web-one",
		},
		"a ControllerRevision": {
			row: func(digest string) *RevisionSnapshot {
				return snapshotControllerRevision(ordered.set, ordered.owned, planner.Revision{Name: "db-a", Template: digest})
			},
			digest: digestWithLabels(templateOf("a")), filed: "db-a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for digest, want := range map[string]string{tt.digest: tt.filed, strings.Repeat("0", 64): "", "": tt.filed} {
				got := ""
				if f := tt.row(digest); f != nil {
					got = f.Name
				}
				if got != want {
					t.Errorf("with digest %q %q is filed, want %q", digest, got, want)
				}
			}
		})
	}
}

// TestStableByRecord checks that after a release the stable revision is the one whose digest is
// recorded, whichever ReplicaSets have pods.
func TestStableByRecord(t *testing.T) {
	t.Parallel()
	row, _ := Find("apps/v1", "Deployment", rollouts.StylePartition)
	d, sets := readState(t, "held")
	zero := findSet(t, sets, "web-one").DeepCopy()
	zero.Name, *zero.Spec.Replicas = "web-zero", 0
	zero.Spec.Selector.MatchLabels[hashLabel] = "zero"
	zero.Spec.Template.Spec.Containers[0].Image = "web:v0"
	sets = append(sets, zero)
	for name, tt := range map[string]struct {
		known planner.HoldState
		want  string
	}{
		"nothing is on record":    {planner.HoldState{}, "one"},
		"a set without pods":      {planner.HoldState{StableTemplate: Digest(&zero.Spec.Template)}, "zero"},
		"no set has the template": {planner.HoldState{StableTemplate: "gone"}, "one"},
		"a release names it":      {planner.HoldState{Stable: "one", StableTemplate: Digest(&zero.Spec.Template), Releasing: true, Holder: "web"}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := row.Facts(d, sets, row.HoldOf(d, sets, tt.known), nil).StableRevision; got != tt.want {
				t.Errorf("stable is %q, want %q", got, tt.want)
			}
		})
	}
}
