// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// checkName is that of the check that a metric of a template becomes.
func checkName(template, metric string, at int) string {
	if at == 0 {
		return template
	}
	if metric == "" {
		metric = strconv.Itoa(at + 1)
	}
	return template + "-" + strings.ToLower(metric)
}

// argName is the name of an argument: letters, digits and _, and none that Weir gives.
func argName(name string) string {
	name = strings.ReplaceAll(name, "-", "_")
	if slices.Contains(weir.OfRelease, name) {
		return name + "_arg"
	}
	return name
}

var argument = regexp.MustCompile(`\{\{ *args\.([A-Za-z0-9_-]+) *\}\}`)

// condition of a metric: a comparison of its only value with a number.
var condition = regexp.MustCompile(`^ *(?:result(?:\[0\])?|default\(result(?:\[0\])?, *[0-9.]+\)) *(>=|<=|>|<) *([0-9.]+) *$`)

// analysisTemplate converts each metric of a template of Argo to a Check.
func analysisTemplate(s *source, _ *templates) []any {
	m, spec := meta(s), child(s.object, "spec")
	var args []weir.CheckArg
	var made []any
	for i, metric := range objects(spec, "metrics") {
		name, query := text(metric, "name"), text(metric, "provider", "prometheus", "query")
		if query == "" {
			s.left(0, "spec.metrics["+name+"]", metric)
			continue
		}
		if made == nil {
			args = argsOf(s, spec)
		}
		c := weir.CheckSpec{Args: args, Query: &v1beta1.QueryCheck{}}
		c.Query.PromQL = strings.TrimSpace(argument.ReplaceAllStringFunc(query, func(found string) string {
			return "$" + argName(argument.FindStringSubmatch(found)[1])
		}))
		s.compare(c.Query, metric)
		if failures, ok := number(metric, "failureLimit"); ok {
			c.FailAfter = new(int32(failures + 1))
			s.note(0, "spec.metrics[%s].failureLimit counts all failures, and failAfter those in a row", name)
		}
		if address := text(metric, "provider", "prometheus", "address"); address != "" {
			s.note(0, "spec.metrics[%s].provider.prometheus.address: %s: name it in a MetricSource", name, address)
		}
		s.left(0, "spec.metrics["+name+"]", metric)
		of := *m.DeepCopy()
		of.Name = checkName(m.Name, name, i)
		made = append(made, checkOf(of, m.Namespace == "" && s.cluster, c))
	}
	return made
}

// argsOf takes the arguments of a template.
func argsOf(s *source, spec map[string]any) []weir.CheckArg {
	var args []weir.CheckArg
	for _, arg := range objects(spec, "args") {
		a := weir.CheckArg{Name: argName(text(arg, "name"))}
		if value, ok := take[string](arg, "value"); ok {
			a.Default = &value
		}
		s.left(0, "spec.args["+a.Name+"]", arg)
		args = append(args, a)
	}
	return args
}

// compare takes a condition as bounds of the number.
func (s *source) compare(q *v1beta1.QueryCheck, metric map[string]any) {
	for _, field := range []string{"successCondition", "failureCondition"} {
		text, _ := metric[field].(string)
		found := condition.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		delete(metric, field)
		least := strings.HasPrefix(found[1], ">") == (field == "successCondition")
		if least {
			q.Min = &found[2]
		} else {
			q.Max = &found[2]
		}
		if exact := strings.HasSuffix(found[1], "=") == (field == "successCondition"); !exact {
			s.note(0, "%s: %s: the bound itself counts as good here", field, text)
		}
	}
}

// variables of Flagger's queries, and what Weir has for them.
var variables = map[string]string{"namespace": "$namespace", "target": "$workload", "service": "$service", "interval": "$window"}

var variable = regexp.MustCompile(`\{\{ *([a-z]+) *\}\}`)

// flaggerQuery has the variables of Weir.
func flaggerQuery(query string) string {
	return strings.TrimSpace(variable.ReplaceAllStringFunc(query, func(found string) string {
		return cmp.Or(variables[variable.FindStringSubmatch(found)[1]], found)
	}))
}

// metricTemplate is in the checks of Canaries that use it. A note says what is not.
func metricTemplate(s *source, all *templates) []any {
	name, spec := meta(s).Name, child(s.object, "spec")
	if rest := variable.FindString(flaggerQuery(text(spec, "query"))); rest != "" {
		s.note(0, "spec.query: %s", rest)
	}
	if !all.used[name] {
		s.note(0, "spec.query: no Canary among the manifests uses it: convert it together with those that do")
	}
	if kind := text(spec, "provider", "type"); kind != "prometheus" {
		s.note(0, "spec.provider.type: %s", kind)
	}
	if address := text(spec, "provider", "address"); address != "" {
		s.note(0, "spec.provider.address: %s: name it in a MetricSource", address)
	}
	return nil
}

// flaggerMetric converts a metric of a Canary.
func flaggerMetric(s *source, metric map[string]any, all *templates, of *v1beta1.Analysis) (v1beta1.Check, bool) {
	name := text(metric, "name")
	least, most := bound(metric, "thresholdRange", "min"), bound(metric, "thresholdRange", "max")
	if older := bound(metric, "threshold"); name == "request-success-rate" {
		least = cmp.Or(least, older)
	} else {
		most = cmp.Or(most, older)
	}
	s.flaggerWindow(metric, name, of)
	query := cmp.Or(s.flaggerTemplate(metric, all), flaggerQuery(text(metric, "query")))
	s.left(0, "spec.analysis.metrics["+name+"]", metric)
	milliseconds, err := strconv.ParseInt(most, 10, 32)
	switch {
	case query != "" && (least != "" || most != ""):
		q := &v1beta1.QueryCheck{PromQL: query, Min: given(least), Max: given(most)}
		return v1beta1.Check{Name: name, Query: q}, true
	case name == "request-success-rate" && least != "":
		return v1beta1.Check{SuccessRate: new(least + "%")}, true
	case name == "request-duration" && err == nil:
		return v1beta1.Check{Latency: &v1beta1.LatencyCheck{Share: "99%", BelowMilliseconds: int32(milliseconds)}}, true
	}
	s.note(0, "spec.analysis.metrics: %s, min %q, max %q", name, least, most)
	return v1beta1.Check{}, false
}

// flaggerWindow has the window of the first metric for all checks.
func (s *source) flaggerWindow(metric map[string]any, name string, of *v1beta1.Analysis) {
	window, ok := seconds(text(metric, "interval"))
	switch {
	case !ok:
	case of.EverySeconds == nil:
		of.EverySeconds = new(int32(window))
	case *of.EverySeconds != int32(window):
		s.note(0, "spec.analysis.metrics[%s].interval: %ds: all checks have one window, of %ds", name, window, *of.EverySeconds)
	}
}

// flaggerTemplate is the query of the template that a metric names, if it names one.
func (s *source) flaggerTemplate(metric map[string]any, all *templates) string {
	name := text(metric, "templateRef", "name")
	text(metric, "templateRef", "namespace") // the query itself is in the check
	if name != "" && all.queries[name] == "" {
		s.note(0, "spec.analysis.metrics.templateRef: %s is not among the manifests: convert it, too", name)
	}
	return all.queries[name]
}

func given(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func bound(metric map[string]any, path ...string) string {
	if value, ok := take[any](metric, path...); ok && value != nil {
		return fmt.Sprint(value)
	}
	return ""
}
