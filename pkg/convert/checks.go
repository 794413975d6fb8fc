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

// checkName returns the name of the check for a metric of a template.
func checkName(template, metric string, at int) string {
	if at == 0 {
		return template
	}
	if metric == "" {
		metric = strconv.Itoa(at + 1)
	}
	return template + "-" + strings.ToLower(metric)
}

// argName converts the name of an argument. Weir allows only letters, digits and _, and reserves some
// names.
func argName(name string) string {
	name = strings.ReplaceAll(name, "-", "_")
	if slices.Contains(weir.OfRelease, name) {
		return name + "_arg"
	}
	return name
}

var argumentPattern = regexp.MustCompile(`\{\{ *args\.([A-Za-z0-9_-]+) *\}\}`)

// conditionPattern matches a comparison of the metric's only value with a number.
var conditionPattern = regexp.MustCompile(`^ *(?:result(?:\[0\])?|default\(result(?:\[0\])?, *[0-9.]+\)) *(>=|<=|>|<) *([0-9.]+) *$`)

// convertAnalysisTemplate converts each metric of a template of Argo to a Check.
func convertAnalysisTemplate(s *manifestSource, _ *templates) []any {
	m, spec := takeMetadata(s), getChild(s.object, "spec")
	var args []weir.CheckArg
	var made []any
	for i, metric := range takeObjects(spec, "metrics") {
		name, query := takeText(metric, "name"), takeText(metric, "provider", "prometheus", "query")
		if query == "" {
			s.noteRemaining(0, "spec.metrics["+name+"]", metric)
			continue
		}
		if made == nil {
			args = convertArgs(s, spec)
		}
		c := weir.CheckSpec{Args: args, Query: &v1beta1.QueryCheck{}}
		c.Query.PromQL = strings.TrimSpace(argumentPattern.ReplaceAllStringFunc(query, func(found string) string {
			return "$" + argName(argumentPattern.FindStringSubmatch(found)[1])
		}))
		s.convertConditions(c.Query, metric)
		if failures, ok := takeNumber(metric, "failureLimit"); ok {
			c.FailAfter = new(int32(failures + 1))
			s.addNote(0, "spec.metrics[%s].failureLimit counts all failures, and failAfter those in a row", name)
		}
		if address := takeText(metric, "provider", "prometheus", "address"); address != "" {
			s.addNote(0, "spec.metrics[%s].provider.prometheus.address: %s: name it in a MetricSource", name, address)
		}
		s.noteRemaining(0, "spec.metrics["+name+"]", metric)
		of := *m.DeepCopy()
		of.Name = checkName(m.Name, name, i)
		made = append(made, newCheck(of, m.Namespace == "" && s.cluster, c))
	}
	return made
}

// convertArgs converts the arguments of a template.
func convertArgs(s *manifestSource, spec map[string]any) []weir.CheckArg {
	var args []weir.CheckArg
	for _, arg := range takeObjects(spec, "args") {
		a := weir.CheckArg{Name: argName(takeText(arg, "name"))}
		if value, ok := takeField[string](arg, "value"); ok {
			a.Default = &value
		}
		s.noteRemaining(0, "spec.args["+a.Name+"]", arg)
		args = append(args, a)
	}
	return args
}

// convertConditions converts the conditions of a metric to bounds of the check.
func (s *manifestSource) convertConditions(q *v1beta1.QueryCheck, metric map[string]any) {
	for _, field := range []string{"successCondition", "failureCondition"} {
		text, _ := metric[field].(string)
		found := conditionPattern.FindStringSubmatch(text)
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
			s.addNote(0, "%s: %s: the bound itself counts as good here", field, text)
		}
	}
}

// flaggerVariables maps the variables of Flagger's queries to those of Weir.
var flaggerVariables = map[string]string{"namespace": "$namespace", "target": "$workload", "service": "$service", "interval": "$window"}

var variablePattern = regexp.MustCompile(`\{\{ *([a-z]+) *\}\}`)

// convertFlaggerQuery replaces the variables in a query of Flagger.
func convertFlaggerQuery(query string) string {
	return strings.TrimSpace(variablePattern.ReplaceAllStringFunc(query, func(found string) string {
		return cmp.Or(flaggerVariables[variablePattern.FindStringSubmatch(found)[1]], found)
	}))
}

// convertMetricTemplate adds notes only: the checks of the Canaries that use the template contain its query.
func convertMetricTemplate(s *manifestSource, all *templates) []any {
	name, spec := takeMetadata(s).Name, getChild(s.object, "spec")
	if rest := variablePattern.FindString(convertFlaggerQuery(takeText(spec, "query"))); rest != "" {
		s.addNote(0, "spec.query: %s", rest)
	}
	if !all.used[name] {
		s.addNote(0, "spec.query: no Canary among the manifests uses it: convert it together with those that do")
	}
	if kind := takeText(spec, "provider", "type"); kind != "prometheus" {
		s.addNote(0, "spec.provider.type: %s", kind)
	}
	if address := takeText(spec, "provider", "address"); address != "" {
		s.addNote(0, "spec.provider.address: %s: name it in a MetricSource", address)
	}
	return nil
}

// convertFlaggerMetric converts a metric of a Canary. It reports whether that was possible.
func convertFlaggerMetric(s *manifestSource, metric map[string]any, all *templates, of *v1beta1.Analysis) (v1beta1.Check, bool) {
	name := takeText(metric, "name")
	least, most := takeBound(metric, "thresholdRange", "min"), takeBound(metric, "thresholdRange", "max")
	if older := takeBound(metric, "threshold"); name == "request-success-rate" {
		least = cmp.Or(least, older)
	} else {
		most = cmp.Or(most, older)
	}
	s.setFlaggerInterval(metric, name, of)
	query := cmp.Or(s.flaggerTemplateQuery(metric, all), convertFlaggerQuery(takeText(metric, "query")))
	s.noteRemaining(0, "spec.analysis.metrics["+name+"]", metric)
	milliseconds, err := strconv.ParseInt(most, 10, 32)
	switch {
	case query != "" && (least != "" || most != ""):
		q := &v1beta1.QueryCheck{PromQL: query, Min: optionalString(least), Max: optionalString(most)}
		return v1beta1.Check{Name: name, Query: q}, true
	case name == "request-success-rate" && least != "":
		return v1beta1.Check{SuccessRate: new(least + "%")}, true
	case name == "request-duration" && err == nil:
		return v1beta1.Check{Latency: &v1beta1.LatencyCheck{Share: "99%", BelowMilliseconds: int32(milliseconds)}}, true
	}
	s.addNote(0, "spec.analysis.metrics: %s, min %q, max %q", name, least, most)
	return v1beta1.Check{}, false
}

// setFlaggerInterval sets the interval of the analysis to that of the first metric.
func (s *manifestSource) setFlaggerInterval(metric map[string]any, name string, of *v1beta1.Analysis) {
	window, ok := parseSeconds(takeText(metric, "interval"))
	switch {
	case !ok:
	case of.EverySeconds == nil:
		of.EverySeconds = new(int32(window))
	case *of.EverySeconds != int32(window):
		s.addNote(0, "spec.analysis.metrics[%s].interval: %ds: all checks have one window, of %ds", name, window, *of.EverySeconds)
	}
}

// flaggerTemplateQuery returns the query of the template that a metric references; empty if it references none.
func (s *manifestSource) flaggerTemplateQuery(metric map[string]any, all *templates) string {
	name := takeText(metric, "templateRef", "name")
	takeText(metric, "templateRef", "namespace") // the check contains the query, not a reference
	if name != "" && all.queries[name] == "" {
		s.addNote(0, "spec.analysis.metrics.templateRef: %s is not among the manifests: convert it, too", name)
	}
	return all.queries[name]
}

func optionalString(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func takeBound(metric map[string]any, path ...string) string {
	if value, ok := takeField[any](metric, path...); ok && value != nil {
		return fmt.Sprint(value)
	}
	return ""
}
