// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// likeOf returns the StatefulSet of a scene as one of another group.
func likeOf(s *statefulScene) *StatefulSetLike { return &StatefulSetLike{StatefulSet: *s.set} }

// customRows returns the rows whose kinds keep unknown fields.
func customRows() map[string]Row {
	rows := map[string]Row{}
	for _, r := range Kinds() {
		if _, keeps := r.New().(keepsUnknownFields); keeps {
			rows[r.GVK.GroupKind().String()] = r
		}
	}
	like, _ := Find("apps.example.com/v1", "StatefulSet", rollouts.StylePartition)
	rows[like.GVK.GroupKind().String()] = like
	return rows
}

// TestCustomKindsKeepUnknownFields checks that every kind outside apps/v1 keeps unknown fields.
func TestCustomKindsKeepUnknownFields(t *testing.T) {
	rows := customRows()
	for _, r := range Kinds() {
		if _, keeps := rows[r.GVK.GroupKind().String()]; keeps == (r.GVK.Group == appsv1.GroupName) {
			t.Errorf("%s keeps unknown fields: %t", r.GVK, keeps)
		}
	}
	if len(rows) != 4 {
		t.Errorf("there are %d kinds", len(rows))
	}
}

// TestUnknownFieldsRoundTrip checks that unknown fields at every level survive reading and writing.
func TestUnknownFieldsRoundTrip(t *testing.T) {
	const template = `{"a":null,"metadata":{"labels":{"app":"web"},"labelſ":{"app":"x"},"annotations":{"k":"v"}},"spec":{` +
		`"containers":[{"name":"c","image":"v1","imagE":"v2","resources":{"limits":{"cpu":"1"},"x":1.5},"env":[{"name":"a"},{"name":"b","valueFrom":{"fileKeyReF":{"z":9007199254740993}}}]},{"name":"d"}],` +
		`"volumes":[{"name":"v","emptyDir":{"size":[1,{"b":true}]},"emptydir":{}}],"tolerations":[{"key":"k"}],"zzz":["é","\u0000"]}}`
	const unknown = `{"a":null,"metadata":{"labelſ":{"app":"x"}},"spec":{` +
		`"containers":[{"env":[null,{"valueFrom":{"fileKeyReF":{"z":9007199254740993}}}],"imagE":"v2","resources":{"x":1.5}},null],` +
		`"volumes":[{"emptyDir":{"size":[1,{"b":true}]},"emptydir":{}}],"zzz":["é","\u0000"]}}`
	for kind, row := range customRows() {
		obj, err := row.FromJSON([]byte(`{"metadata":{"name":"web"},"spec":{"template":` + template + `},"status":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(UnknownFields(unknown), unknownIn(obj)); diff != "" {
			t.Errorf("%s: unknown fields (-want +got):\n%s", kind, diff)
		}
		content, err := Content(obj)
		if err != nil {
			t.Fatal(err)
		}
		again, err := row.FromContent(content)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(obj, again); diff != "" {
			t.Errorf("%s: written and read (-want +got):\n%s", kind, diff)
		}
		if copied := obj.DeepCopyObject().(object.Object); unknownIn(copied) != unknownIn(obj) {
			t.Errorf("%s: a copy has %s", kind, unknownIn(copied))
		}
		maps.Copy(content, map[string]any{"-": map[string]any{"Unknown": "x"}, "Unknown": "x"})
		if forged, err := row.FromContent(content); err != nil || unknownIn(forged) != unknownIn(obj) {
			t.Errorf("%s: a forged key counts: %v", kind, err)
		}
	}
}

// revisionWith replaces the data of a ControllerRevision.
func revisionWith(s *statefulScene, name, data string) {
	for _, o := range s.owned {
		if cr, ok := o.(*appsv1.ControllerRevision); ok && cr.Name == name {
			cr.Data = runtime.RawExtension{Raw: []byte(data)}
		}
	}
}

const unknownX = UnknownFields(`{"spec":{"x":1}}`)

// TestUnknownFieldsMakeARevision checks that a template that differs from the stable one only in an
// unknown field is another revision: the one with the field, or the one that the controller names
// once it has observed the template.
func TestUnknownFieldsMakeARevision(t *testing.T) {
	withX := func(s *statefulScene, revision string) {
		revisionWith(s, "db-"+revision, strings.Replace(encode(map[string]any{"spec": map[string]any{"template": templateOf("a")}}), `"spec":{"containers"`, `"$patch":"replace","spec":{"x":1,"containers"`, 1))
	}
	observed := func(t *testing.T, at func(*statefulScene), edits ...func(*appsv1.StatefulSet)) planner.Workload {
		s := newStatefulScene(t, "a", "AAAAA", edits...)
		if at != nil {
			at(s)
		}
		like := likeOf(s)
		like.Unknown = unknownX
		statefulSetLike.Hold(like, "db", hasHoldMark(like))
		return statefulSetLike.Observe(like, s.owned, HoldFromRecords(like))
	}
	unseen := func(s *appsv1.StatefulSet) { s.Generation = 4 }
	named := func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "db-c" }
	for name, tt := range map[string]struct {
		w        planner.Workload
		live     string
		atStable bool
	}{
		"the controller has not seen it": {observed(t, nil, unseen), "", false},
		"its revision has the field":     {observed(t, func(s *statefulScene) { withX(s, "c") }, unseen), "db-c", false},
		"the controller names another":   {observed(t, nil, named), "db-c", false},
		"the stable revision has it": {observed(t, func(s *statefulScene) {
			withX(s, "a")
			s.owned = append(s.owned[:1:1], s.owned[3:]...)
		}), "db-a", true},
	} {
		if tt.w.LiveRevision != tt.live || tt.w.HasStableTemplate != tt.atStable {
			t.Errorf("%s: live %q, at stable %t; want %q, %t", name, tt.w.LiveRevision, tt.w.HasStableTemplate, tt.live, tt.atStable)
		}
	}
}

// TestUnknownFieldsGoWithTheirTemplate checks that an abort sets the stable template with its own
// unknown fields, and without those of the aborted template.
func TestUnknownFieldsGoWithTheirTemplate(t *testing.T) {
	s := newStatefulScene(t, "b", "AAAAB", setStatefulTarget(4, 1, false, ""))
	revisionWith(s, "db-a", `{"spec":{"template":{"$patch":"replace","extra":true,"spec":{"containers":[{"name":"db","image":"db:a","y":1}]}}}}`)
	revisionWith(s, "db-b", `{"spec":{"template":{"$patch":"replace","spec":{"x":1,"containers":[{"name":"db","image":"db:b"}]}}}}`)
	like := likeOf(s)
	like.Unknown = unknownX
	template := func(o object.Object) string {
		t.Helper()
		content, err := Content(o)
		if err != nil {
			t.Fatal(err)
		}
		spec := content["spec"].(map[string]any)["template"].(map[string]any)
		delete(spec, "metadata")
		return encode(spec)
	}
	changes := statefulSetLike.SetTarget(like, s.owned, HoldFromRecords(like), setTarget("1", true), owner())
	if len(changes) != 1 {
		t.Fatalf("%d changes", len(changes))
	}
	back := changes[0].Want
	if got, want := template(back), `{"extra":true,"spec":{"containers":[{"image":"db:a","name":"db","resources":{},"y":1}]}}`; got != want {
		t.Errorf("the abort sets %s, want %s", got, want)
	}
	set := statefulSetLike.SetStable(like, s.owned, HoldFromRecords(like))
	if len(set) != 1 || template(set[0].Want) != template(back) {
		t.Errorf("the stable template is set by %v", set)
	}
	given := statefulSetLike.Restore(back, s.owned, HoldFromRecords(back), planner.RestoreWorkload{})
	if len(given) != 1 || template(given[0].Want) != template(like) {
		t.Errorf("the owner's template is %s, want %s", template(given[0].Want), template(like))
	}
	if f := snapshotControllerRevision(like, s.owned, planner.Revision{Name: "db-a"}); f == nil || !strings.Contains(string(f.Spec), `"extra":true`) || !strings.Contains(string(f.Spec), `"y":1`) {
		t.Errorf("on file is %v", f)
	}
}

// TestDigestOfRevisions checks that the digest of a revision covers what its controller reads: keys
// are case-sensitive, the last of two equal keys counts, and unknown fields count.
func TestDigestOfRevisions(t *testing.T) {
	digestWith := func(data string) string {
		s := newStatefulScene(t, "a", "AAAAA")
		revisionWith(s, "db-a", data)
		return statefulSet.Observe(s.set, s.owned, HoldFromRecords(s.set)).StableTemplate
	}
	const good, evil = `{"$patch":"replace","spec":{"containers":[{"name":"db","image":"db:a"}]}}`, `{"$patch":"replace","spec":{"containers":[{"name":"db","image":"db:evil"}]}}`
	plain := digestWith(`{"spec":{"template":` + good + `}}`)
	if plain != digestWithLabels(templateOf("a")) {
		t.Errorf("the digest of a template without unknown fields is %s, want that of the typed template", plain)
	}
	for name, data := range map[string]string{
		"a folded spec":      `{"spec":{"template":` + evil + `},"Spec":{"template":` + good + `}}`,
		"a folded template":  `{"spec":{"template":` + evil + `,"templatE":` + good + `}}`,
		"a template twice":   `{"spec":{"template":` + good + `,"template":` + evil + `}}`,
		"an image twice":     `{"spec":{"template":{"$patch":"replace","spec":{"containers":[{"name":"db","image":"db:a","image":"db:evil"}]}}}}`,
		"an unknown field":   strings.Replace(`{"spec":{"template":`+good+`}}`, `"name"`, `"x":1,"name"`, 1),
		"another directive":  strings.Replace(`{"spec":{"template":`+good+`}}`, `"replace"`, `"merge"`, 1),
		"a directive inside": strings.Replace(`{"spec":{"template":`+good+`}}`, `"containers"`, `"$retainKeys":["volumes"],"containers"`, 1),
	} {
		if got := digestWith(data); got == plain {
			t.Errorf("%s: the digest is that of the template", name)
		}
	}
	if got := digestWith(`{"spec":{"template":` + evil + `,"template":` + good + `}}`); got != plain {
		t.Errorf("the last of two templates does not count")
	}
}

// TestAnnotationsAreCaseSensitive checks that keys in annotation values are case-sensitive, too.
func TestAnnotationsAreCaseSensitive(t *testing.T) {
	s := newStatefulScene(t, "a", "AAAAA")
	note := func(key, value string) { metav1.SetMetaDataAnnotation(&s.set.ObjectMeta, key, value) }
	note(rollouts.AnnotationOriginalStrategy, `{"partition":1,"Partition":4}`)
	note(rollouts.AnnotationDeploymentStrategy, `{"revision":"a","REVISION":"b","partition":"10%","PARTITION":"100%"}`)
	note(rollouts.AnnotationControlInfo, `{"uid":"mine","UID":"theirs"}`)
	if own := readOriginalStrategy(s.set); own.Partition != 1 {
		t.Errorf("the owner's strategy is %+v", own)
	}
	if v, ok := readStrategy(s.set); !ok || v.Revision != "a" || v.Partition.String() != "10%" {
		t.Errorf("the target is %+v", v)
	}
	if uid, _ := readController(s.set); uid != "mine" {
		t.Errorf("the owner is %s", uid)
	}
	clone := &CloneSet{}
	clone.Annotations = map[string]string{rollouts.AnnotationOriginalStrategy: `{"paused":true,"Paused":false}`}
	if !readOriginalCloneSet(clone).Paused {
		t.Error("the owner's pause is lost")
	}
}
