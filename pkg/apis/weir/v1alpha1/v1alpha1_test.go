// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// Every type survives encoding and decoding, in a server that keeps it in memory.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1alpha1.AddInternal} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme)
	roundtrip.RoundTripExternalTypesWithoutProtobuf(t, scheme, codecs, fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), codecs), nil)
}

func spec(t *testing.T, text string) *v1alpha1.CheckSpec {
	t.Helper()
	s := &v1alpha1.CheckSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

const heap = `
args: [{name: heap, default: "0.8"}, {name: area}]
gate: true
failAfter: 2
query: {source: jvm-$area, promql: 'max(used{area="$area",pod=~"$pods"}) / 2$', max: $heap}
`

func TestWith(t *testing.T) {
	t.Parallel()
	s := spec(t, heap)
	before := s.DeepCopy()
	got, errs := s.With(map[string]string{"area": "old"})
	want := &rollouts.Check{Gate: new(true), FailAfter: new(int32(2)), Query: &rollouts.QueryCheck{
		Source: "jvm-old", PromQL: `max(used{area="old",pod=~"$pods"}) / 2$`, Max: new("0.8"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("with arguments: %v (-want +got)\n%s", errs, diff)
	}
	if diff := cmp.Diff(before, s); diff != "" {
		t.Errorf("the check itself has changed (-before +after)\n%s", diff)
	}
}

// Each text of a check takes arguments, and each field of it is taken over.
func TestWithEverything(t *testing.T) {
	t.Parallel()
	const args = "args: [{name: a, default: x}]\n"
	for text, want := range map[string]*rollouts.Check{
		"successRate: $a%": {SuccessRate: new("x%")},
		"{latency: {share: $a%, belowMilliseconds: 5}, tolerance: {ratio: $a, margin: $a%}}": {
			Latency: &rollouts.LatencyCheck{Share: "x%", BelowMilliseconds: 5}, Tolerance: &rollouts.Tolerance{Ratio: new("x"), Margin: new("x%")},
		},
		"asGoodAs: Stable":                          {AsGoodAs: rollouts.AsGoodAsStable},
		"query: {source: $a, bad: b$a, total: t$a}": {Query: &rollouts.QueryCheck{Source: "x", Bad: "bx", Total: "tx"}},
		"query: {promql: $a, min: $a, max: $a}":     {Query: &rollouts.QueryCheck{PromQL: "x", Min: new("x"), Max: new("x")}},
		"http: {service: $a, port: 8080, path: /$a, pass: code == $a}": {
			HTTP: &rollouts.HTTPCheck{Service: "x", Port: 8080, Path: "/x", Pass: "code == x"},
		},
		"job: {cronJob: $a}": {Job: &rollouts.JobCheck{CronJob: "x"}},
	} {
		s := spec(t, text)
		s.Args = spec(t, args).Args
		got, errs := s.With(nil)
		if diff := cmp.Diff(want, got); diff != "" || errs != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, errs, diff)
		}
	}
}

func TestWithRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		args map[string]string
		want string
	}{
		"no value":               {heap, nil, "args[area]: Required value: give a value; the check has no default"},
		"one too many":           {heap, map[string]string{"area": "x", "are": "y"}, `args: Unsupported value: "are": supported values: "area", "heap"`},
		"the end of a string":    {heap, map[string]string{"area": `x"} or up{a="`}, "args[area]: Invalid value"},
		"a name of nothing":      {`query: {promql: 'up{a="$foo"}', max: "1"}`, nil, `spec.query.promql: Invalid value: "$foo": add it to spec.args`},
		"a release without pods": {`http: {service: web, path: /$pods}`, nil, `spec.http.path: Invalid value: "$pods": add it to spec.args`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, errs := spec(t, c.spec).With(c.args); len(errs) != 1 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("got %v, want %s", errs, c.want)
			}
		})
	}
}

// What a Rollout says of a check, and what a shared check says, is together all of it.
func TestNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	ofRollout := []string{"name", "steps", "at", "onFail", "onInconclusive", "afterSeconds", "podsHealthy", "use"}
	want := append(fieldsOf[v1beta1.Check](t), "args")
	got := append(fieldsOf[v1alpha1.CheckSpec](t), ofRollout...)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("fields of both (-Rollout +shared)\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	none := &v1alpha1.MetricSourceSpec{}
	all := &v1alpha1.MetricSourceSpec{
		LagSeconds: new(int32(0)), Labels: v1alpha1.LabelsPlain, Newborn: v1alpha1.NewbornSkip, RawQueries: new(true), QueriesPerSecond: new(int32(1)),
	}
	type values struct {
		Lag      time.Duration
		Spelling v1alpha1.LabelSpelling
		Newborn  v1alpha1.Newborn
		Raw      bool
		Rate     float64
	}
	of := func(s *v1alpha1.MetricSourceSpec) values {
		return values{s.Lag(), s.Spelling(), s.CountsNewborn(), s.AllowsRawQueries(), s.Rate()}
	}
	if diff := cmp.Diff(values{15 * time.Second, "Auto", "Known", false, 20}, of(none)); diff != "" {
		t.Errorf("defaults (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(values{0, "Plain", "Skip", true, 1}, of(all)); diff != "" {
		t.Errorf("what is written (-want +got)\n%s", diff)
	}
}

// fieldsOf are the names of the fields of T in JSON.
func fieldsOf[T any](t *testing.T) (names []string) {
	t.Helper()
	for f := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
