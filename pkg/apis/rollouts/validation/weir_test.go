// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), v); err != nil {
		t.Fatal(err)
	}
	return v
}

// expect compares errors with the expected prefixes.
func expect(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestValidateMetricSource(t *testing.T) {
	t.Parallel()
	const url = "prometheus: {url: 'http://p:9090'}\n"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"least": {spec: url},
		"everything": {spec: `
prometheus: {url: 'https://p.monitoring.svc:9090/prom', auth: {secret: p}, headers: {X-Scope-OrgID: $namespace}, serverName: p.example.com}
namespaces: {matchLabels: {tier: prod}}
lagSeconds: 0
labels: Exported
newborn: Zero
rawQueries: true
queriesPerSecond: 1`},
		"nothing":     {spec: "{}", want: []string{"spec.prometheus: Required value"}},
		"no address":  {spec: "prometheus: {url: ''}", want: []string{"spec.prometheus.url: Required value"}},
		"a file":      {spec: "prometheus: {url: 'file:///etc/passwd'}", want: []string{`spec.prometheus.url: Invalid value: "file:///etc/passwd": use http://HOST:PORT`}},
		"no host":     {spec: "prometheus: {url: 'http://:9090'}", want: []string{"spec.prometheus.url: Invalid value"}},
		"a password":  {spec: "prometheus: {url: 'http://me:secret@p'}", want: []string{`spec.prometheus.url: Invalid value: "http://me:xxxxx@p": remove the user name and password; use auth`}},
		"a query":     {spec: "prometheus: {url: 'http://p?x=1'}", want: []string{"spec.prometheus.url: Invalid value"}},
		"no secret":   {spec: "prometheus: {url: 'http://p', auth: {secret: ''}}", want: []string{"spec.prometheus.auth.secret: Required value: give the name of a Secret in the namespace weir-sources"}},
		"a path":      {spec: "prometheus: {url: 'http://p', auth: {secret: ../p}}", want: []string{"spec.prometheus.auth.secret: Invalid value"}},
		"a star":      {spec: "prometheus: {url: 'http://p', serverName: '*.p'}", want: []string{"spec.prometheus.serverName: Invalid value"}},
		"credentials": {spec: "prometheus: {url: 'http://p', headers: {authorization: Bearer x}}", want: []string{"spec.prometheus.headers[authorization]: Forbidden"}},
		"a header within a header": {
			spec: `prometheus: {url: 'http://p', headers: {A: "b\r\nC: d"}}`, want: []string{"spec.prometheus.headers[A]: Invalid value"},
		},
		"no header":     {spec: "prometheus: {url: 'http://p', headers: {'a b': c}}", want: []string{"spec.prometheus.headers[a b]: Invalid value"}},
		"a long header": {spec: "prometheus: {url: 'http://p', headers: {a: " + strings.Repeat("x", 257) + "}}", want: []string{"spec.prometheus.headers[a]: Too long"}},
		"many headers":  {spec: "prometheus: {url: 'http://p', headers: {" + strings.Join(numbered(17), ": x, ") + ": x}}", want: []string{"spec.prometheus.headers: Too many: 17"}},
		"a wrong operator": {
			spec: url + "namespaces: {matchExpressions: [{key: a, operator: Is}]}", want: []string{"spec.namespaces.matchExpressions[0].operator: Invalid value"},
		},
		"a negative lag": {spec: url + "lagSeconds: -1", want: []string{"spec.lagSeconds: Invalid value: -1: use a number from 0 to 600"}},
		"no queries":     {spec: url + "queriesPerSecond: 0", want: []string{"spec.queriesPerSecond: Invalid value: 0: use a number from 1 to 1000"}},
		"unknown values": {spec: url + "labels: plain\nnewborn: Old", want: []string{"spec.labels: Unsupported value", "spec.newborn: Unsupported value"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *decode[weir.MetricSourceSpec](t, c.spec)}
			expect(t, validation.ValidateMetricSource(s), c.want)
		})
	}
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, "h"+strings.Repeat("x", i))
	}
	return names
}

// TestValidateMetricSourceUpdate checks that an object which was stored before a rule existed can be changed in other fields.
func TestValidateMetricSourceUpdate(t *testing.T) {
	t.Parallel()
	old := &weir.MetricSource{
		ObjectMeta: metav1.ObjectMeta{Name: "default", ResourceVersion: "1"},
		Spec:       *decode[weir.MetricSourceSpec](t, "{prometheus: {url: 'ftp://p'}}"),
	}
	changed := old.DeepCopy()
	changed.Spec.LagSeconds = new(int32(5))
	expect(t, validation.ValidateMetricSourceUpdate(changed, old), nil)
	changed.Spec.Prometheus.URL = "ftp://q"
	expect(t, validation.ValidateMetricSourceUpdate(changed, old), []string{"spec.prometheus.url: Invalid value"})
}

func TestValidateSharedCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"a rate":                 {spec: "successRate: 99%"},
		"arguments":              {spec: "{args: [{name: heap, default: '0.8'}, {name: area}], query: {promql: 'max(used{area=\"$area\",pod=~\"$pods\"})', max: $heap}}"},
		"a percentage":           {spec: "{args: [{name: rate}], successRate: $rate%}"},
		"nothing":                {spec: "{}", want: []string{"spec: Required value: set one of successRate, latency, asGoodAs, query, http and job"}},
		"a tolerance alone":      {spec: "tolerance: {ratio: '2'}", want: []string{"spec: Required value"}},
		"two":                    {spec: "{successRate: 99%, asGoodAs: Stable}", want: []string{`spec: Invalid value: "successRate and asGoodAs": set only one of them`}},
		"a gate of requests":     {spec: "{successRate: 99%, gate: true}", want: []string{"spec.gate: Forbidden"}},
		"a wrong default":        {spec: "{args: [{name: max, default: much}], query: {promql: up, max: $max}}", want: []string{`spec.query.max: Invalid value: "much"`}},
		"an undeclared variable": {spec: "query: {promql: 'up{job=\"$job\"}', max: '1'}", want: []string{`spec.query.promql: Invalid value: "$job": add it to spec.args`}},
		"pods in a path":         {spec: "http: {service: web, path: /$pods}", want: []string{`spec.http.path: Invalid value: "$pods"`}},
		"a reserved name":        {spec: "{args: [{name: pods}], successRate: 99%}", want: []string{`spec.args[0].name: Invalid value: "pods": choose another name`}},
		"no name":                {spec: "{args: [{name: a-b}], successRate: 99%}", want: []string{"spec.args[0].name: Invalid value"}},
		"a name twice":           {spec: "{args: [{name: a}, {name: a}], successRate: 99%}", want: []string{"spec.args[1].name: Duplicate value"}},
		"a quote in a default":   {spec: "{args: [{name: a, default: '\"'}], successRate: 99%}", want: []string{"spec.args[0].default: Invalid value"}},
		"many arguments":         {spec: "{args: [{name: " + strings.Join(numbered(17), "}, {name: ") + "}], successRate: 99%}", want: []string{"spec.args: Too many: 17"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := decode[weir.CheckSpec](t, c.spec)
			expect(t, validation.ValidateSharedCheck(&metav1.ObjectMeta{Name: "x", Namespace: "shop"}, true, spec), c.want)
			expect(t, validation.ValidateSharedCheck(&metav1.ObjectMeta{Name: "x"}, false, spec), c.want)
		})
	}
}

func TestValidateSharedCheckUpdate(t *testing.T) {
	t.Parallel()
	meta := &metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}
	old, changed := decode[weir.CheckSpec](t, "{successRate: 100%, gate: true}"), decode[weir.CheckSpec](t, "{successRate: 100%}")
	expect(t, validation.ValidateSharedCheckUpdate(meta, meta, changed, old), nil)
	changed.SuccessRate = new("0%")
	expect(t, validation.ValidateSharedCheckUpdate(meta, meta, changed, old), []string{"spec.successRate: Invalid value"})
}
