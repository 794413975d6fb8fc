// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// A hold starts from a clean object: annotations that came with the template do not count.
func TestHeldClean(t *testing.T) {
	t.Parallel()
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			row, _ := findRow(kindOf(s.plain), s.in(false))
			update := copyOf(s.plain)
			for _, key := range recordKeys {
				update = edited(update, key, adds)
			}
			s.pods(update).Spec.Containers[0].Image = "v2"
			want := copyOf(s.plain)
			s.pods(want).Spec.Containers[0].Image = "v2"
			row.Hold(want, "web", false)
			got, _ := admit(t, s.in(false), sent{as: "alice", old: s.plain, update: update})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", path, kind, diff)
			}
		}
	}
}

// For kinds with ControllerRevisions, every label belongs to the template.
func TestEveryLabelIsATemplate(t *testing.T) {
	t.Parallel()
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, "a"} {
				update := copyOf(s.plain)
				s.pods(update).Labels = map[string]string{label: "x"}
				got, _ := admit(t, s.in(false), sent{as: "alice", old: s.plain, update: update})
				row, _ := findRow(kindOf(got), nil)
				if want := kind != "Deployment" || label != appsv1.DefaultDeploymentUniqueLabelKey; row.Held(got) != want {
					t.Errorf("%s: %s with another %s: held %t, want %t", path, kind, label, row.Held(got), want)
				}
			}
		}
	}
}

// A new template of a workload that cannot be held is refused, with the same message at each path, as long
// as a Rollout in use references the workload.
func TestUnfitRefused(t *testing.T) {
	t.Parallel()
	v2 := func(o object.Object) object.Object {
		o = copyOf(o)
		for _, s := range samples {
			if kindOf(s.plain) == kindOf(o) {
				s.pods(o).Spec.Containers[0].Image = "v2"
			}
		}
		return o
	}
	advancedOnDelete := advancedStatefulSet()
	advancedOnDelete.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	stopping := statefulSet(sized(0))
	stopping.Status.Replicas = 3
	surge := daemonSet(withSurge(intstr.FromString("100%")))
	surge.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(0))
	const filled = "first spec.template, and when"
	sized0 := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }
	none, forgetting := deployment(sized0), deployment(sized0, forgetful)
	const onDeleteText, emptied = "spec.updateStrategy.type OnDelete", "a workload without pods cannot be held"
	for name, c := range map[string]struct {
		sample      string
		old, update object.Object
		want        string
	}{
		"a template with OnDelete":            {"StatefulSet", statefulSet(), v2(statefulSet(onDelete)), onDeleteText},
		"a template after OnDelete":           {"StatefulSet", statefulSet(onDelete), v2(statefulSet(onDelete)), onDeleteText},
		"a template and back from OnDelete":   {"StatefulSet", statefulSet(onDelete), v2(statefulSet()), ""},
		"OnDelete alone":                      {"StatefulSet", statefulSet(), statefulSet(onDelete), ""},
		"a template without replicas":         {"StatefulSet", statefulSet(), v2(statefulSet(sized(0))), emptied},
		"a template while the last pods stop": {"StatefulSet", stopping, v2(stopping), emptied},
		"a template where no pod is":          {"StatefulSet", statefulSet(sized(0)), v2(statefulSet(sized(0))), ""},
		"a template with a surge":             {"DaemonSet", daemonSet(), v2(surge), "spec.updateStrategy.rollingUpdate.maxSurge"},
		"a template after a surge":            {"DaemonSet", surge, v2(surge), "spec.updateStrategy.rollingUpdate.maxSurge"},
		"a surge alone":                       {"DaemonSet", daemonSet(), surge, ""},
		"advanced, OnDelete":                  {"advanced StatefulSet", advancedStatefulSet(), v2(advancedOnDelete), onDeleteText},
		"advanced, a selector":                {"advanced DaemonSet", advancedDaemonSet(), v2(advancedDaemonSet(advancedChoosy)), "rollingUpdate.selector"},
		"the first pods with a template":      {"Deployment", none, v2(deployment(scaled)), filled},
		"the first pods alone":                {"Deployment", none, deployment(scaled), ""},
		"a template of no pods":               {"Deployment", none, v2(none), ""},
		"a template and the last pods go":     {"Deployment", deployment(), v2(none), ""},
		"a template, and none is kept":        {"Deployment", none, v2(forgetting), ""},
		"a template where none is kept":       {"Deployment", forgetting, v2(forgetting), ""},
		"a template of pods that none keeps":  {"Deployment", deployment(forgetful), v2(deployment(forgetful)), ""},
		"a CloneSet without replicas":         {"CloneSet", cloneSet(), v2(cloneSet(cloneSized(0))), emptied},
	} {
		s, said := samples[c.sample], map[string]bool{}
		for path, admit := range admissionPaths(t) {
			if !s.native && path != "webhook" {
				continue
			}
			_, words := admit(t, s.in(false), sent{as: "alice", old: copyOf(c.old), update: copyOf(c.update)})
			for _, write := range []struct{ old, update object.Object }{
				{c.old, c.update}, {c.old, edited(c.update, rollouts.AnnotationInProgress, adds)},
				{storing(c.old, "x"), storing(c.update, "x")}, {storing(c.old, words), storing(c.update, words)}, {storing(c.old, "x"), c.update},
			} {
				_, refused := admit(t, s.in(false), sent{as: "alice", old: copyOf(write.old), update: copyOf(write.update)})
				said[refused] = true
			}
			for as, all := range map[string]named{"alice": s.in(true), weir: s.in(false)} {
				if path == "webhook" && as == weir {
					continue
				}
				if _, refused := admit(t, all, sent{as: as, old: copyOf(c.old), update: copyOf(c.update)}); refused != "" {
					t.Errorf("%s, %s, %s: refused: %s", name, path, as, refused)
				}
			}
		}
		if len(said) != 1 {
			t.Errorf("%s: the paths differ: %v", name, said)
		}
		for refused := range said {
			if (refused == "") != (c.want == "") || !containsAll(refused, c.want) {
				t.Errorf("%s: says %q, want %q", name, refused, c.want)
			}
		}
	}
}

// storing returns a workload in which a user has put the words of a refusal before a Rollout referenced it.
func storing(o object.Object, words string) object.Object {
	o = copyOf(o)
	annotations := map[string]string{rollouts.AnnotationRefused: words}
	maps.Copy(annotations, o.GetAnnotations())
	o.SetAnnotations(annotations)
	return o
}

// containsAll reports whether a refusal contains its reason, the field and what the user can do.
func containsAll(text, want string) bool {
	return want == "" || strings.Contains(text, want) && strings.HasPrefix(text, "spec.template ") && strings.HasSuffix(text, "disable the Rollout web")
}

// A workload that is already held also accepts only templates that can be held.
func TestHeldRefuses(t *testing.T) {
	t.Parallel()
	const filled = "first spec.template, and when the release has begun, spec.replicas"
	sized0 := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }
	none := deployment(held, sized0)
	pods := statefulSet()
	row, _ := findRow(kindOf(pods), nil)
	row.Hold(pods, "web", false)
	gone := pods.DeepCopy()
	setImage("v2")(gone)
	sized(0)(gone)
	for name, c := range map[string]struct {
		old, update object.Object
		want        string
	}{
		"the first pods with a template": {none, deployment(held, image("v2"), scaled), filled},
		"the first pods, and no mark":    {none, deployment(image("v2"), scaled), filled},
		"the first pods alone":           {none, deployment(held, scaled), ""},
		"a template of no pods":          {none, deployment(held, sized0, image("v2")), ""},
		"a template and the last pods":   {pods, gone, ""},
	} {
		for path, admit := range admissionPaths(t) {
			for _, all := range []named{nil, samples[kindOf(c.old).Kind].in(false)} {
				_, refused := admit(t, all, sent{as: "alice", old: copyOf(c.old), update: copyOf(c.update)})
				if (refused == "") != (c.want == "") || !strings.Contains(refused, c.want) {
					t.Errorf("%s, %s: says %q, want %q", name, path, refused, c.want)
				}
			}
		}
	}
}
