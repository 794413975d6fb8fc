// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// checkNames returns the names of the checks for the metrics of a template: that of the template for the first one.
func checkNames(template string, metrics []map[string]any) []string {
	var names []string
	for i, metric := range metrics {
		name, _ := metric["name"].(string)
		if name = template + "-" + toLabel(cmp.Or(name, strconv.Itoa(i+1))); i == 0 {
			name = template
		}
		names = append(names, uniqueName(name, func(name string) bool { return slices.Contains(names, name) }))
	}
	return names
}

// isCheck reports whether a metric of a template becomes a check.
func isCheck(metric map[string]any) bool {
	query, _ := getChild(metric, "provider", "prometheus")["query"].(string)
	return query != "" || getChild(metric, "provider", "job", "spec", "template") != nil
}

var outsideLabel = regexp.MustCompile(`[^a-z0-9]+`)

// toLabel returns a name with the characters that the name of a check may have.
func toLabel(name string) string {
	label := outsideLabel.ReplaceAllString(strings.ToLower(name), "-")
	return cmp.Or(strings.Trim(label[:min(len(label), maxLabel)], "-"), "check")
}

// maxLabel leaves room for the number of uniqueName in the 63 characters of a label.
const maxLabel = 60

// uniqueName returns the name, with a number if the name is in use. An empty name is never in use.
func uniqueName(name string, isUsed func(name string) bool) string {
	unique := name
	for n := 2; unique != "" && isUsed(unique); n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	return unique
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
func convertAnalysisTemplate(s *manifestSource, all *templates) []any {
	m, spec := takeMetadata(s), getChild(s.object, "spec")
	var args []weir.CheckArg
	var made []any
	metrics := takeObjects(spec, "metrics")
	names := checkNames(m.Name, metrics)
	for i, metric := range metrics {
		if !isCheck(metric) {
			name := takeText(metric, "name")
			s.noteRemaining(0, "spec.metrics["+name+"]", metric)
			continue
		}
		if made == nil {
			args = convertArgs(s, spec, m.Namespace, all)
		}
		name, query := takeText(metric, "name"), takeText(metric, "provider", "prometheus", "query")
		of := *m.DeepCopy()
		of.Name = names[i]
		if query == "" {
			job := s.convertJob(of, name, getChild(metric, "provider", "job"))
			s.noteRemaining(0, "spec.metrics["+name+"]", metric)
			made = append(made, job, newCheck(of, m.Namespace == "" && s.cluster, weir.CheckSpec{Args: args, Job: &v1beta1.JobCheck{CronJob: of.Name}}))
			continue
		}
		query, renamed := all.services.rename(m.Namespace, query)
		for _, service := range renamed {
			s.addHint(0, "spec.metrics[%s]: %s is now %s in the query, the Service that Weir creates for each release", name, service, all.services[m.Namespace+"/"+service])
		}
		c := weir.CheckSpec{Args: args, Query: &v1beta1.QueryCheck{}}
		c.Query.PromQL = strings.TrimSpace(argumentPattern.ReplaceAllStringFunc(query, func(found string) string {
			return "$" + argName(argumentPattern.FindStringSubmatch(found)[1])
		}))
		s.convertConditions(c.Query, metric)
		if failures, ok := takeNumber(metric, "failureLimit"); ok {
			c.FailAfter = new(int32(failures + 1))
			s.addHint(0, "spec.metrics[%s].failureLimit: Argo counts all failures; failAfter counts failures in a row", name)
		}
		if address := takeText(metric, "provider", "prometheus", "address"); address != "" {
			s.addNote(0, "spec.metrics[%s].provider.prometheus.address: %s: an administrator creates a MetricSource with this address", name, address)
		}
		s.noteRemaining(0, "spec.metrics["+name+"]", metric)
		made = append(made, newCheck(of, m.Namespace == "" && s.cluster, c))
	}
	return made
}

// convertJob converts the Job of a metric to a suspended CronJob, whose template Weir runs.
func (s *manifestSource) convertJob(m metav1.ObjectMeta, metric string, job map[string]any) map[string]any {
	template := map[string]any{}
	for _, field := range []string{"metadata", "spec"} {
		if value, ok := takeField[any](job, field); ok {
			template[field] = value
		}
	}
	text, _ := json.Marshal(template) // a manifest was JSON before
	arguments := argumentPattern.FindAllString(string(text), -1)
	slices.Sort(arguments)
	for _, argument := range slices.Compact(arguments) {
		s.addHint(0, "spec.metrics[%s].provider.job: Weir does not replace %s in a Job: write the value, or read WEIR_NEW_SERVICE, WEIR_REVISION or WEIR_STEP", metric, argument)
	}
	metadata := map[string]any{"name": m.Name}
	if m.Namespace != "" {
		metadata["namespace"] = m.Namespace
	} else if s.cluster {
		s.addHint(0, "CronJob %s: create it in the namespace of each Rollout that uses the ClusterCheck", m.Name)
	}
	if len(m.Labels) > 0 {
		metadata["labels"] = m.Labels
	}
	return map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": map[string]any{
		"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": template, // the schedule is required, and never used
	}}
}

// convertArgs converts the arguments of a template.
func convertArgs(s *manifestSource, spec map[string]any, namespace string, all *templates) []weir.CheckArg {
	var args []weir.CheckArg
	for _, arg := range takeObjects(spec, "args") {
		a := weir.CheckArg{Name: argName(takeText(arg, "name"))}
		if value, ok := takeField[string](arg, "value"); ok {
			value, renamed := all.services.rename(namespace, value)
			for _, service := range renamed {
				s.addHint(0, "spec.args[%s]: %s is now %s, the Service that Weir creates for each release", a.Name, service, all.services[namespace+"/"+service])
			}
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
			s.addHint(0, "%s: %s: in Weir the bound itself counts as good", field, text)
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
		s.addNote(0, "spec.query: no Canary among the manifests uses it: convert it in one command with the Canaries that do")
	}
	if kind := takeText(spec, "provider", "type"); kind != "prometheus" {
		s.addNote(0, "spec.provider.type: %s", kind)
	}
	if address := takeText(spec, "provider", "address"); address != "" {
		s.addNote(0, "spec.provider.address: %s: an administrator creates a MetricSource with this address", address)
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
		label := toLabel(name)
		if label != name {
			s.addHint(0, "spec.analysis.metrics[%s]: the check is named %s, because names of checks have only lower-case letters, digits and -", name, label)
		}
		return v1beta1.Check{Name: label, Query: q}, true
	case name == "request-success-rate" && least != "":
		return v1beta1.Check{SuccessRate: new(least + "%")}, true
	case name == "request-duration" && err == nil:
		return v1beta1.Check{Latency: &v1beta1.LatencyCheck{Share: "99%", BelowMilliseconds: int32(milliseconds)}}, true
	}
	s.addNote(0, "spec.analysis.metrics[%s], min %q, max %q: Weir has no such check", name, least, most)
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
		s.addHint(0, "spec.analysis.metrics[%s].interval: %ds: Weir uses one interval for all checks; %ds was chosen", name, window, *of.EverySeconds)
	}
}

// flaggerTemplateQuery returns the query of the template that a metric references; empty if it references none.
func (s *manifestSource) flaggerTemplateQuery(metric map[string]any, all *templates) string {
	name := takeText(metric, "templateRef", "name")
	takeText(metric, "templateRef", "namespace") // the check contains the query, not a reference
	if name != "" && all.queries[name] == "" {
		s.addNote(0, "spec.analysis.metrics.templateRef: %s is not among the manifests: convert it in the same command", name)
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
