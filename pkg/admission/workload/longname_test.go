// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// The policies find a workload in the index by its key, even if the workload has the longest possible name.
// A key in a ConfigMap has at most 253 characters.
func TestLongNames(t *testing.T) {
	t.Parallel()
	called := func(o, update object.Object, name string) (object.Object, object.Object) {
		o, update = copyOf(o), copyOf(update)
		o.SetName(name)
		update.SetName(name)
		return o, update
	}
	for kind, both := range map[string]struct {
		old, update object.Object
		longest     int
	}{
		"Deployment":  {deployment(), deployment(image("v2")), 252}, // beyond 242 no ReplicaSet can have the name
		"StatefulSet": {statefulSet(), statefulSet(setImage("v2")), 252},
		"DaemonSet":   {daemonSet(), daemonSet(daemonImage("v2")), 253},
	} {
		for _, n := range []int{200, 236, 237, 238, 239, both.longest} {
			name := strings.Repeat("x", n)
			for of, holds := range map[string]bool{kind: true, "Deployment": kind == "Deployment", "DaemonSet": kind == "DaemonSet"} {
				for path, admit := range admissionPaths(t) {
					old, update := called(both.old, both.update, name)
					ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: of, Name: name}
					all := named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef = ref })}
					if path != "policies" && !holds {
						continue // the webhook is told which Rollouts name the workload
					}
					got, refused := admit(t, all, sent{as: "alice", old: old, update: update})
					if held := got.GetAnnotations()[rollouts.AnnotationInProgress] != ""; held != holds || refused != "" {
						t.Errorf("%s: a %s with a name of %d characters, and a Rollout of a %s: held %t, want %t %s", path, kind, n, of, held, holds, refused)
					}
				}
			}
		}
	}
}

// No two workloads have the same key.
func TestIndexKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "CloneSet"} {
		for _, group := range []string{appsv1.GroupName, "apps.kruise.io"} {
			for _, first := range "xsd0" {
				for n := range 254 {
					if n == 0 {
						continue
					}
					name := string(first) + strings.Repeat("x", n-1)
					key := workload.IndexKey(schema.GroupKind{Group: group, Kind: kind}, name)
					what := fmt.Sprintf("%s.%s %s", kind, group, name)
					if other := keys[key]; other != "" {
						t.Fatalf("%s and %s have the key %s", other, what, key)
					}
					keys[key] = what
					if !workload.Indexable(key) && group == appsv1.GroupName && kind != "CloneSet" && n < 253 {
						t.Errorf("%s has no place in the index: %s", what, key)
					}
				}
			}
		}
	}
	if key := workload.IndexKey(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web"); key != "Deployment.apps_web" {
		t.Errorf("the key of a short name became %s", key)
	}
}
