// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/json"
	"maps"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	rolloutsfuzzer "github.com/weir-rollouts/weir/pkg/apis/rollouts/fuzzer"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const rounds = 200

// What is written as empty reads back as empty and not as absent, but for
// metadata and for the records of decisions and releases, which nobody but Weir
// writes.
var compare = cmp.FilterPath(func(p cmp.Path) bool {
	return strings.Contains(p.String(), "ObjectMeta") || strings.Contains(p.String(), "Releases") || strings.HasSuffix(p.String(), "Decisions")
}, cmpopts.EquateEmpty())

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}

func newFiller(scheme *runtime.Scheme, seed int64) *randfill.Filler {
	filler := randfill.NewWithSeed(seed)
	return prepare(scheme, filler)
}

func prepare(scheme *runtime.Scheme, filler *randfill.Filler) *randfill.Filler {
	return filler.NilChance(.3).NumElements(0, 3).Funcs(rolloutsfuzzer.Funcs(serializer.NewCodecFactory(scheme))...)
}

// Every wire type survives encoding, decoding and defaulting.
func TestExternalTypes(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	filler := fuzzer.FuzzerFor(rolloutsfuzzer.Funcs, rand.NewSource(1), codecs)
	roundtrip.RoundTripExternalTypesWithoutProtobuf(t, scheme, codecs, filler, nil)
}

// Every kind of every version has its conversion from and to the hub.
func TestEveryKindConverts(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Group != rollouts.GroupName || gvk.Version == runtime.APIVersionInternal || !scheme.Recognizes(rollouts.SchemeGroupVersion.WithKind(gvk.Kind)) {
			continue
		}
		t.Run(gvk.Version+"/"+gvk.Kind, func(t *testing.T) {
			t.Parallel()
			wire, err := scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			hub, err := scheme.ConvertToVersion(wire, rollouts.SchemeGroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := scheme.ConvertToVersion(hub, gvk.GroupVersion()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What the hub holds survives v1beta1, the stored version.
func TestHubThroughV1beta1(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		rollout, batch := &rollouts.Rollout{}, &rollouts.BatchRelease{}
		filler.Fill(rollout)
		filler.Fill(batch)
		checkV1beta1(t, scheme, rollout, batch)
	}
}

// Answers about a Rollout lose nothing on their way to a client.
func TestViewsThroughV1beta1(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		why, tree, plan, releases := &rollouts.RolloutWhy{}, &rollouts.RolloutTree{}, &rollouts.RolloutPlan{}, &rollouts.RolloutReleases{}
		filler.Fill(why)
		filler.Fill(tree)
		filler.Fill(plan)
		filler.Fill(releases)
		if plan.Spec.Rollout != nil {
			plan.Spec.Rollout.RolloutID = "" // exists in v1alpha1 only
		}
		through(t, scheme, why, &v1beta1.RolloutWhy{}, &v1beta1.RolloutWhy{}, &rollouts.RolloutWhy{})
		through(t, scheme, tree, &v1beta1.RolloutTree{}, &v1beta1.RolloutTree{}, &rollouts.RolloutTree{})
		through(t, scheme, plan, &v1beta1.RolloutPlan{}, &v1beta1.RolloutPlan{}, &rollouts.RolloutPlan{})
		through(t, scheme, releases, &v1beta1.RolloutReleases{}, &v1beta1.RolloutReleases{}, &rollouts.RolloutReleases{})
	}
}

func checkV1beta1(t *testing.T, scheme *runtime.Scheme, rollout *rollouts.Rollout, batch *rollouts.BatchRelease) {
	t.Helper()
	rollout.Spec.RolloutID = "" // exists in v1alpha1 only
	through(t, scheme, rollout, &v1beta1.Rollout{}, &v1beta1.Rollout{}, &rollouts.Rollout{})
	through(t, scheme, batch, &v1beta1.BatchRelease{}, &v1beta1.BatchRelease{}, &rollouts.BatchRelease{})
}

// What v1alpha1 can say of the hub survives v1alpha1.
func TestHubThroughV1alpha1(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		rollout, batch := &rollouts.Rollout{}, &rollouts.BatchRelease{}
		filler.Fill(rollout)
		filler.Fill(batch)
		checkV1alpha1(t, scheme, rollout, batch)
	}
}

func checkV1alpha1(t *testing.T, scheme *runtime.Scheme, rollout *rollouts.Rollout, batch *rollouts.BatchRelease) {
	t.Helper()
	sayable(rollout)
	through(t, scheme, rollout, &v1alpha1.Rollout{}, &v1alpha1.Rollout{}, &rollouts.Rollout{})
	batch.Status.Message = ""
	batch.Annotations = with(batch.Annotations, rollouts.AnnotationRollingStyle, strings.ToLower(string(batch.Spec.Plan.RollingStyle)))
	through(t, scheme, batch, &v1alpha1.BatchRelease{}, &v1alpha1.BatchRelease{}, &rollouts.BatchRelease{})
}

// TrafficRouting and RolloutHistory exist in v1alpha1 only, which is what is
// stored of them: nothing of theirs is lost either way.
func TestOlderKinds(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		routing, history := &rollouts.TrafficRouting{}, &rollouts.RolloutHistory{}
		filler.Fill(routing)
		filler.Fill(history)
		through(t, scheme, routing, &v1alpha1.TrafficRouting{}, &v1alpha1.TrafficRouting{}, &rollouts.TrafficRouting{})
		through(t, scheme, history, &v1alpha1.RolloutHistory{}, &v1alpha1.RolloutHistory{}, &rollouts.RolloutHistory{})

		wireRouting, wireHistory := &v1alpha1.TrafficRouting{}, &v1alpha1.RolloutHistory{}
		filler.Fill(wireRouting)
		filler.Fill(wireHistory)
		throughHub(t, scheme, wireRouting, &rollouts.TrafficRouting{}, &v1alpha1.TrafficRouting{}, wireRouting.DeepCopy())
		throughHub(t, scheme, wireHistory, &rollouts.RolloutHistory{}, &v1alpha1.RolloutHistory{}, wireHistory.DeepCopy())
	}
}

// What is written in v1beta1 reads back the same, but for the mirror of the
// step, which is computed.
func TestV1beta1ThroughHub(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		rollout, batch := &v1beta1.Rollout{}, &v1beta1.BatchRelease{}
		filler.Fill(rollout)
		filler.Fill(batch)

		want := rollout.DeepCopy()
		want.Status.CurrentStepIndex, want.Status.CurrentStepState = 0, ""
		if c := want.Status.Canary; c != nil {
			want.Status.CurrentStepIndex, want.Status.CurrentStepState = c.CurrentStepIndex, c.State
		}
		if b := want.Status.BlueGreen; b != nil {
			want.Status.CurrentStepIndex, want.Status.CurrentStepState = b.CurrentStepIndex, b.State
		}
		throughHub(t, scheme, rollout, &rollouts.Rollout{}, &v1beta1.Rollout{}, want)
		throughHub(t, scheme, batch, &rollouts.BatchRelease{}, &v1beta1.BatchRelease{}, batch.DeepCopy())
	}
}

// What is written in v1alpha1 reads back the same, but for replicas that follow
// from the weight and for the style, which the annotation decides.
func TestV1alpha1ThroughHub(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		filler := newFiller(scheme, seed)
		rollout, batch := &v1alpha1.Rollout{}, &v1alpha1.BatchRelease{}
		filler.Fill(rollout)
		filler.Fill(batch)

		want := rollout.DeepCopy()
		if canary := want.Spec.Strategy.Canary; canary != nil {
			want.Annotations = with(want.Annotations, rollouts.AnnotationRollingStyle, "canary")
			for i := range canary.Steps {
				if step := &canary.Steps[i]; step.Replicas == nil && step.Weight != nil {
					replicas := intstr.FromString(strconv.Itoa(int(*step.Weight)) + "%")
					step.Replicas = &replicas
				}
			}
		}
		throughHub(t, scheme, rollout, &rollouts.Rollout{}, &v1alpha1.Rollout{}, want)

		wantBatch := batch.DeepCopy()
		wantBatch.Annotations = with(wantBatch.Annotations, rollouts.AnnotationRollingStyle, "")
		wantBatch.Spec.ReleasePlan.RollingStyle = ""
		throughHub(t, scheme, batch, &rollouts.BatchRelease{}, &v1alpha1.BatchRelease{}, wantBatch)
	}
}

// A client of v1alpha1 that writes back what it read changes nothing.
func TestOlderClientLosesNothing(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		stored := &rollouts.Rollout{}
		newFiller(scheme, seed).Fill(stored)
		stored.Spec.RolloutID = ""
		if stored.Spec.Strategy.Canary != nil && stored.Spec.Strategy.BlueGreen != nil {
			stored.Spec.Strategy.BlueGreen = nil // validation refuses both
		}
		if stored.Status.Canary != nil {
			stored.Status.BlueGreen = nil // nobody sets both
		}
		if canary := stored.Spec.Strategy.Canary; canary != nil {
			annotateStyle(stored, canary)
			requireReplicas(canary)
		}
		want := stored.DeepCopy()

		wire, written := &v1alpha1.Rollout{}, &rollouts.Rollout{}
		convert(t, scheme, stored, wire)
		convert(t, scheme, wire, written)
		v1alpha1.Preserve(written, stored)
		if diff := cmp.Diff(want, written, compare); diff != "" {
			t.Fatalf("seed %d: (-want +got)\n%s", seed, diff)
		}
	}
}

// Defaulting a second time changes nothing.
func TestDefaultingIsIdempotent(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for seed := range int64(rounds) {
		// Without the functions of the fuzzer, which would set the defaults.
		filler := randfill.NewWithSeed(seed).NilChance(.5).NumElements(0, 3)
		beta, alpha, routing := &v1beta1.Rollout{}, &v1alpha1.Rollout{}, &v1alpha1.TrafficRouting{}
		filler.Fill(&beta.Spec.Strategy)
		filler.Fill(&alpha.Spec.Strategy)
		filler.Fill(&routing.Spec)
		for _, once := range []runtime.Object{beta, alpha, routing} {
			scheme.Default(once)
			twice := once.DeepCopyObject()
			scheme.Default(twice)
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Fatalf("seed %d: (-once +twice)\n%s", seed, diff)
			}
		}
	}
}

func FuzzHubThroughVersions(f *testing.F) {
	f.Add([]byte("a weir holds a river back"))
	scheme := newScheme()
	f.Fuzz(func(t *testing.T, data []byte) {
		filler := prepare(scheme, randfill.NewFromGoFuzz(data))
		rollout, batch := &rollouts.Rollout{}, &rollouts.BatchRelease{}
		filler.Fill(rollout)
		filler.Fill(batch)
		checkV1beta1(t, scheme, rollout.DeepCopy(), batch.DeepCopy())
		checkV1alpha1(t, scheme, rollout, batch)
	})
}

// through sends the hub object to JSON of the wire type and back, and wants it
// unchanged, the source included.
func through(t *testing.T, scheme *runtime.Scheme, hub, wire, decoded, back runtime.Object) {
	t.Helper()
	want := hub.DeepCopyObject()
	convert(t, scheme, hub, wire)
	data, err := json.Marshal(wire)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, decoded); err != nil {
		t.Fatal(err)
	}
	convert(t, scheme, decoded, back)
	if diff := cmp.Diff(want, back, compare); diff != "" {
		t.Fatalf("through %T: (-want +got)\n%s\n%s", wire, diff, data)
	}
	if diff := cmp.Diff(want, hub); diff != "" {
		t.Fatalf("%T was changed by converting it: (-want +got)\n%s", hub, diff)
	}
}

// throughHub sends the wire object to the hub and back; the source stays as it is.
func throughHub(t *testing.T, scheme *runtime.Scheme, wire, hub, back, want runtime.Object) {
	t.Helper()
	source := wire.DeepCopyObject()
	convert(t, scheme, wire, hub)
	convert(t, scheme, hub, back)
	if diff := cmp.Diff(want, back, compare); diff != "" {
		t.Fatalf("%T through the hub: (-want +got)\n%s", wire, diff)
	}
	if diff := cmp.Diff(source, wire); diff != "" {
		t.Fatalf("%T was changed by converting it: (-want +got)\n%s", wire, diff)
	}
}

func convert(t *testing.T, scheme *runtime.Scheme, in, out any) {
	t.Helper()
	if err := scheme.Convert(in, out, nil); err != nil {
		t.Fatal(err)
	}
}

// sayable reduces a Rollout to what v1alpha1 can say.
func sayable(r *rollouts.Rollout) {
	r.Spec.Strategy.BlueGreen, r.Status.BlueGreen, r.Status.Analysis = nil, nil, nil
	canary := r.Spec.Strategy.Canary
	if canary == nil {
		return
	}
	canary.Analysis = nil
	annotateStyle(r, canary)
	requireReplicas(canary)
	canary.ExtraWorkloadGiven = canary.ExtraWorkload
	if canary.TrafficRouting() == "" {
		canary.TrafficRoutingRef = nil
	}
	for i := range canary.Steps {
		for j := range canary.Steps[i].Matches {
			canary.Steps[i].Matches[j].Path, canary.Steps[i].Matches[j].QueryParams = nil, nil
		}
	}
}

// annotateStyle keeps in the annotations what v1alpha1 will write there.
func annotateStyle(r *rollouts.Rollout, canary *rollouts.Release) {
	style := "partition"
	if canary.ExtraWorkload {
		style = "canary"
	}
	r.Annotations = with(r.Annotations, rollouts.AnnotationRollingStyle, style)
	if name := canary.TrafficRouting(); name != "" {
		r.Annotations = with(r.Annotations, rollouts.AnnotationTrafficRouting, name)
	}
}

// requireReplicas, as validation does: v1alpha1 fills them from the weight.
func requireReplicas(canary *rollouts.Release) {
	for i := range canary.Steps {
		if canary.Steps[i].Replicas == nil {
			canary.Steps[i].Traffic = nil
		}
	}
}

func with(annotations map[string]string, key, value string) map[string]string {
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}
