// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// lost is a driven Deployment whose stable set is on file only.
func lost(t *testing.T) (d *appsv1.Deployment, owned []object.Object, kept File) {
	t.Helper()
	d, owned = read(t, "driven")
	stable := set(t, owned, "web-one")
	data, err := json.Marshal(stable.Spec)
	if err != nil {
		t.Fatal(err)
	}
	owned = slices.DeleteFunc(owned, func(o object.Object) bool { return o == object.Object(stable) })
	return d, owned, File{Name: "web-one", Spec: data}
}

// stranger is a set of the namespace that somebody else owns.
func stranger(name, hash string) object.Object {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hashKey: hash}}}
}

// The stable set comes back as it was, at its share; under another name or label
// only where its own are taken, and the Deployment says which one it is.
func TestRemake(t *testing.T) {
	t.Parallel()
	going := stranger("web-one", "one")
	going.SetDeletionTimestamp(&metav1.Time{})
	for name, c := range map[string]struct {
		beside      []object.Object
		edit        edit
		name, label string
		size        int32
	}{
		"as it was":            {nil, nil, "web-one", "one", 7},
		"its name is taken":    {[]object.Object{stranger("web-one", "x")}, nil, "web-fdb8b46d4", "one", 7},
		"it is still going":    {[]object.Object{going}, nil, "web-fdb8b46d4", "one", 7},
		"its label is taken":   {[]object.Object{stranger("other", "one")}, nil, "web-fdb8b46d4", "fdb8b46d4", 7},
		"the next one as well": {[]object.Object{stranger("web-one", "one"), stranger("web-fdb8b46d4", "x")}, nil, "", "", 7},
		"scaled": {nil, func(_ *testing.T, d *appsv1.Deployment, _ []object.Object) { *d.Spec.Replicas = 20 },
			"web-one", "one", 14},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, owned, kept := lost(t)
			if c.edit != nil {
				c.edit(t, d, owned)
			}
			changes := deployment{}.Remake(d, owned, append(c.beside, owned...), kept, planner.RemakeStable{Revision: "one"})
			d, owned = apply(d, owned, changes)
			rs := owned[len(owned)-1].(*appsv1.ReplicaSet)
			hash := rs.Labels[hashKey]
			if c.name != "" && (rs.Name != c.name || hash != c.label) || *rs.Spec.Replicas != c.size {
				t.Errorf("made %s of %s with %d, want %s of %s with %d", rs.Name, hash, *rs.Spec.Replicas, c.name, c.label, c.size)
			}
			for _, o := range c.beside {
				if o.GetName() == rs.Name {
					t.Errorf("the name %s is taken", rs.Name)
				}
			}
			if rs.Spec.Selector.MatchLabels[hashKey] != hash || rs.Spec.Template.Labels[hashKey] != hash ||
				d.Labels[rollouts.LabelStableRevision] != hash || !metav1.IsControlledBy(rs, d) {
				t.Errorf("selector %v, template %v, owner %v, the Deployment says %q", rs.Spec.Selector, rs.Spec.Template.Labels,
					rs.OwnerReferences, d.Labels[rollouts.LabelStableRevision])
			}
			if w := (deployment{}).Observe(d, owned); w.StableGone || w.StableRevision != hash {
				t.Errorf("stable is %s, gone %t", w.StableRevision, w.StableGone)
			}
			if more := (deployment{}).Remake(d, owned, owned, kept, planner.RemakeStable{Revision: hash}); len(more) > 0 {
				t.Errorf("it is made again: %v", more)
			}
		})
	}
}

// older0 is a set of the Deployment of an older version, which has pods again.
func older0(d *appsv1.Deployment) *appsv1.ReplicaSet {
	rs := stranger("web-zero", "zero").(*appsv1.ReplicaSet)
	rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)}
	rs.ResourceVersion, rs.Spec.Replicas = "7", new(int32(10))
	return rs
}

// A set of the same template is stable, whatever its label; what is on file and
// no set makes nothing; and what the native controller revived goes.
func TestRemakeBesides(t *testing.T) {
	t.Parallel()
	d, owned, kept := lost(t)
	if got := (deployment{}).Remake(d, owned, owned, File{Name: "x", Spec: []byte("{}")}, planner.RemakeStable{Revision: "one"}); got != nil {
		t.Errorf("nothing on file: %v", got)
	}
	twin := older0(d)
	owned = append(owned, twin)
	twin.Spec.Template = *plain(&filed(kept).Spec.Template).DeepCopy()
	changes := deployment{}.Remake(d, owned, owned, kept, planner.RemakeStable{Revision: "one"})
	if len(changes) != 1 || changes[0].Want.GetLabels()[rollouts.LabelStableRevision] != "zero" {
		t.Errorf("a twin: %v", changes)
	}
	d, owned, kept = lost(t)
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	owned = append(owned, older0(d))
	var gone []string
	for _, c := range (deployment{}).Remake(d, owned, owned, kept, planner.RemakeStable{Revision: "one"}) {
		if c.Want == nil {
			gone = append(gone, c.Base.GetName()+c.Base.GetResourceVersion())
		}
	}
	if !slices.Equal(gone, []string{"web-zero"}) {
		t.Errorf("%q go", gone)
	}
	if k := (deployment{}).Kept(d, owned, kept); k.Live {
		t.Error("another template is live")
	}
	d.Spec.Template = *plain(&filed(kept).Spec.Template).DeepCopy()
	if k := (deployment{}).Kept(d, owned, kept); !k.Live {
		t.Error("the template of the file is live")
	}
}
