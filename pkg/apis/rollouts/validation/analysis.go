// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/expression"
	"github.com/weir-rollouts/weir/pkg/metric"
)

const (
	maxChecks = 16
	maxQuery  = 4096
)

// ValidateAnalysis validates the checks of a plan with this number of steps.
func ValidateAnalysis(a *rollouts.Analysis, steps int, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	errs := validateNumber(a.Risk, path.Child("risk"), 1e-9, 0.5, `"0.001"`)
	for _, s := range []struct {
		name    string
		seconds *int32
		least   int32
	}{{"everySeconds", a.EverySeconds, 1}, {"atLeastSeconds", a.AtLeastSeconds, 0}, {"withinSeconds", a.WithinSeconds, 1}} {
		if s.seconds != nil && (*s.seconds < s.least || *s.seconds > maxSeconds) {
			errs = append(errs, field.Invalid(path.Child(s.name), *s.seconds, fmt.Sprintf("use seconds from %d to %d", s.least, maxSeconds)))
		}
	}
	errs = append(errs, validateWarmUp(a.AfterSeconds, a, path.Child("afterSeconds"))...)
	errs = append(errs, oneOf(path.Child("onFail"), a.OnFail, onFails)...)
	errs = append(errs, oneOf(path.Child("onInconclusive"), a.OnInconclusive, onInconclusives)...)
	if len(a.Checks) > maxChecks {
		return append(errs, field.TooMany(path.Child("checks"), len(a.Checks), maxChecks))
	}
	names := map[string]bool{}
	for i := range a.Checks {
		c, at := &a.Checks[i], path.Child("checks").Index(i)
		errs = append(errs, ValidateCheck(c, at)...)
		errs = append(errs, validateCheckSteps(c.Steps, steps, at.Child("steps"))...)
		errs = append(errs, validateWarmUp(c.AfterSeconds, a, at.Child("afterSeconds"))...)
		if name := rollouts.CheckName(c); names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		} else {
			names[name] = true
		}
	}
	return errs
}

const (
	// maxSeconds is a day.
	maxSeconds = 86400
	// maxWarmUp is an hour.
	maxWarmUp = 3600
	// defaultWithin is withinSeconds of an analysis that does not set it.
	defaultWithin = 3600
)

// validateWarmUp refuses a warm-up that leaves no time to judge a step.
func validateWarmUp(after *int32, a *rollouts.Analysis, path *field.Path) field.ErrorList {
	within := int32(defaultWithin)
	if a.WithinSeconds != nil {
		within = *a.WithinSeconds
	}
	switch {
	case after == nil:
		return nil
	case *after < 0 || *after > maxWarmUp:
		return field.ErrorList{field.Invalid(path, *after, fmt.Sprintf("use seconds from 0 to %d", maxWarmUp))}
	case *after >= within && *after > 0:
		return field.ErrorList{field.Invalid(path, *after, fmt.Sprintf("use less than withinSeconds, which is %d: the checks of a step run between the two", within))}
	}
	return nil
}

var (
	onFails         = []rollouts.OnFail{rollouts.OnFailAbort, rollouts.OnFailWait, rollouts.OnFailReport}
	onInconclusives = []rollouts.OnInconclusive{rollouts.OnInconclusiveWait, rollouts.OnInconclusivePass, rollouts.OnInconclusiveAbort}
	checkPoints     = []rollouts.CheckPoint{rollouts.AtStep, rollouts.AtBeforeTraffic}
)

func oneOf[S ~string](path *field.Path, value S, of []S) field.ErrorList {
	if value == "" || slices.Contains(of, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, of)}
}

// validateNumber accepts nil and decimal numbers.
func validateNumber(value *string, path *field.Path, least, most float64, such string) field.ErrorList {
	if value == nil {
		return nil
	}
	if n, err := strconv.ParseFloat(*value, 64); err == nil && n >= least && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("use a number from %g to %g, such as %s", least, most, such))}
}

// validateShare accepts a percentage, which may have decimals.
func validateShare(value string, path *field.Path, most float64, such string) field.ErrorList {
	if n, ok := rollouts.Share(value); ok && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("use a percentage up to %g%%, such as %s", most*100, such))}
}

func validateCheckSteps(of []int32, steps int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, step := range of {
		if step < 1 || int(step) > steps {
			errs = append(errs, field.Invalid(path.Index(i), step, fmt.Sprintf("use steps from 1 to %d", steps)))
		}
	}
	return errs
}

// kindsOfCheck returns the set fields of those of which a check needs exactly one.
func kindsOfCheck(c *rollouts.Check) []string {
	var kinds []string
	for _, kind := range []struct {
		name string
		has  bool
	}{
		{"podsHealthy", c.PodsHealthy != ""},
		{"successRate", c.SuccessRate != nil},
		{"latency", c.Latency != nil},
		{"asGoodAs", c.AsGoodAs != ""},
		{"query", c.Query != nil},
		{"http", c.HTTP != nil},
		{"job", c.Job != nil},
		{"use", c.Use != nil},
	} {
		if kind.has {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

const allKindsOfCheck = "podsHealthy, successRate, latency, asGoodAs, query, http, job and use"

// ValidateCheck validates one check.
func ValidateCheck(c *rollouts.Check, path *field.Path) field.ErrorList {
	kinds := kindsOfCheck(c)
	if len(kinds) == 0 {
		return field.ErrorList{field.Required(path, "set one of "+allKindsOfCheck)}
	}
	if len(kinds) > 1 {
		return field.ErrorList{field.Invalid(path, strings.Join(kinds, " and "), "set only one of them, and add another check for each of the others")}
	}
	var errs field.ErrorList
	if c.Name != "" {
		for _, message := range utilvalidation.IsDNS1123Label(c.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, message))
		}
	}
	errs = append(errs, oneOf(path.Child("onFail"), c.OnFail, onFails)...)
	errs = append(errs, oneOf(path.Child("onInconclusive"), c.OnInconclusive, onInconclusives)...)
	errs = append(errs, oneOf(path.Child("at"), c.At, checkPoints)...)
	if c.FailAfter != nil && (*c.FailAfter < 1 || *c.FailAfter > 100) {
		errs = append(errs, field.Invalid(path.Child("failAfter"), *c.FailAfter, "use a number from 1 to 100"))
	}
	errs = append(errs, validateFieldsOf(c, kinds[0], path)...)
	return append(errs, validateMeasure(c, path)...)
}

// fieldsOf lists fields that are only valid for some kinds of checks.
var fieldsOf = map[string][]string{
	"tolerance":    {"successRate", "latency", "asGoodAs", "query"},
	"gate":         {"http", "query"},
	"failAfter":    {"http", "query"},
	"at":           {"http", "job", "query", "use"},
	"afterSeconds": {"successRate", "latency", "asGoodAs", "query", "use"},
}

func validateFieldsOf(c *rollouts.Check, kind string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"tolerance", c.Tolerance != nil}, {"gate", c.Gate != nil}, {"failAfter", c.FailAfter != nil},
		{"at", c.At == rollouts.AtBeforeTraffic}, {"afterSeconds", c.AfterSeconds != nil},
	} {
		if of := fieldsOf[f.name]; f.set && !slices.Contains(of, kind) {
			errs = append(errs, field.Forbidden(path.Child(f.name), kind+" does not have this field: remove it, or use one of "+strings.Join(of, ", ")))
		}
	}
	if c.At == rollouts.AtBeforeTraffic && c.Query != nil && c.Query.PromQL == "" {
		errs = append(errs, field.Forbidden(path.Child("at"), "query.bad and query.total count requests, and the new version gets no requests before the traffic of the step; "+
			"remove at, or use query.promql with one number"))
	}
	if waits := c.At == rollouts.AtBeforeTraffic || c.Gate != nil && *c.Gate; waits && c.AfterSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("afterSeconds"), "a gate and a check at BeforeTraffic wait until they pass and need no warm-up: remove afterSeconds"))
	}
	return errs
}

// validateMeasure validates what is measured.
func validateMeasure(c *rollouts.Check, path *field.Path) field.ErrorList {
	errs := validateTolerance(c.Tolerance, path.Child("tolerance"))
	switch {
	case c.PodsHealthy != "":
		return append(errs, oneOf(path.Child("podsHealthy"), c.PodsHealthy, []rollouts.PodsHealthy{rollouts.PodsHealthyOn, rollouts.PodsHealthyOff})...)
	case c.SuccessRate != nil:
		return append(errs, validateObjective(*c.SuccessRate, path.Child("successRate"))...)
	case c.Latency != nil:
		return append(errs, validateLatency(c.Latency, path.Child("latency"))...)
	case c.AsGoodAs != "":
		return append(errs, oneOf(path.Child("asGoodAs"), c.AsGoodAs, []rollouts.AsGoodAs{rollouts.AsGoodAsStable})...)
	case c.Query != nil:
		return append(errs, validateQuery(c.Query, path.Child("query"))...)
	case c.HTTP != nil:
		return append(errs, validateHTTP(c.HTTP, path.Child("http"))...)
	case c.Job != nil:
		return append(errs, validateName(c.Job.CronJob, path.Child("job", "cronJob"))...)
	default:
		return append(errs, validateCheckRef(c.Use, path.Child("use"))...)
	}
}

func validateTolerance(t *rollouts.Tolerance, path *field.Path) field.ErrorList {
	if t == nil {
		return nil
	}
	errs := validateNumber(t.Ratio, path.Child("ratio"), 1, 100, `"1.5"`)
	if t.Margin != nil {
		errs = append(errs, validateShare(*t.Margin, path.Child("margin"), 0.5, `"0.1%"`)...)
	}
	return errs
}

// validateObjective refuses 0 % and 100 %, which no number of requests proves.
func validateObjective(value string, path *field.Path) field.ErrorList {
	if n, ok := rollouts.Share(value); ok && n > 0 && n < 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, `use a percentage above 0% and below 100%, such as "99%"`)}
}

func validateLatency(l *rollouts.LatencyCheck, path *field.Path) field.ErrorList {
	errs := validateObjective(l.Share, path.Child("share"))
	if l.BelowMilliseconds < 1 {
		errs = append(errs, field.Invalid(path.Child("belowMilliseconds"), l.BelowMilliseconds, "use milliseconds, 1 or more"))
	}
	return errs
}

func validateQuery(q *rollouts.QueryCheck, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Source != "" {
		errs = append(errs, validateName(q.Source, path.Child("source"))...)
	}
	if wrong := wrongTexts(q, path); wrong != nil {
		return append(errs, wrong)
	}
	for _, text := range []struct {
		name, value string
		verify      func(string) error
	}{{"bad", q.Bad, metric.VerifyCounter}, {"total", q.Total, metric.VerifyCounter}, {"promql", q.PromQL, metric.VerifyNumber}} {
		if len(text.value) > maxQuery {
			errs = append(errs, field.TooLong(path.Child(text.name), "", maxQuery))
		} else if text.value != "" {
			if err := text.verify(text.value); err != nil {
				errs = append(errs, field.Invalid(path.Child(text.name), text.value, err.Error()))
			}
		}
	}
	const most = 1e308
	errs = append(errs, validateNumber(q.Min, path.Child("min"), -most, most, `"0.5"`)...)
	return append(errs, validateNumber(q.Max, path.Child("max"), -most, most, `"5e8"`)...)
}

// wrongTexts returns an error if a text of a query is missing or not allowed.
func wrongTexts(q *rollouts.QueryCheck, path *field.Path) *field.Error {
	counts, limited := q.Bad != "" || q.Total != "", q.Min != nil || q.Max != nil
	if q.PromQL != "" {
		return wrongNumber(counts, limited, path)
	}
	switch {
	case counts && limited:
		return field.Forbidden(path.Child("max"), "use min and max with promql only")
	case q.Bad == "":
		return field.Required(path.Child("bad"), "set bad and total to counters of bad and of all requests, or set promql to a query for one number")
	case q.Total == "":
		return field.Required(path.Child("total"), "set total to a counter of all requests")
	}
	return nil
}

// wrongNumber returns an error if a query for one number has other fields, or has no limits.
func wrongNumber(counts, limited bool, path *field.Path) *field.Error {
	switch {
	case counts:
		return field.Forbidden(path.Child("promql"), "set either bad and total, or promql")
	case !limited:
		return field.Required(path.Child("max"), "set min, max or both: a number outside of them is bad")
	}
	return nil
}

func validateHTTP(h *rollouts.HTTPCheck, path *field.Path) field.ErrorList {
	errs := validateName(h.Service, path.Child("service"))
	if h.Port < 0 || h.Port > 65535 {
		errs = append(errs, field.Invalid(path.Child("port"), h.Port, "use a port from 1 to 65535"))
	}
	if h.Path != "" {
		errs = append(errs, validateURLPath(h.Path, path.Child("path"))...)
	}
	if h.Pass != "" {
		if _, err := expression.Compile(h.Pass); err != nil {
			errs = append(errs, field.Invalid(path.Child("pass"), h.Pass, "use an expression in CEL over code and body, such as body.state == 'open': "+err.Error()))
		}
	}
	return errs
}

// maxURLPath is the largest length of a path including its query.
const maxURLPath = 1024

func validateURLPath(text string, path *field.Path) field.ErrorList {
	if !strings.HasPrefix(text, "/") {
		return field.ErrorList{field.Invalid(path, text, "start the path with /")}
	}
	if len(text) > maxURLPath {
		return field.ErrorList{field.TooLong(path, "", maxURLPath)}
	}
	if _, err := url.ParseRequestURI(text); err != nil || strings.Contains(text, "#") {
		return field.ErrorList{field.Invalid(path, text, "use the path of a URL, such as /approved?change=7")}
	}
	return nil
}

func validateCheckRef(ref *rollouts.CheckRef, path *field.Path) field.ErrorList {
	errs := validateName(ref.Name, path.Child("name"))
	if ref.Kind != "Check" && ref.Kind != "ClusterCheck" {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, []string{"Check", "ClusterCheck"}))
	}
	for name, value := range ref.Args {
		if strings.Trim(value, argCharacters) != "" {
			errs = append(errs, field.Invalid(path.Child("args").Key(name), value, "use letters, digits and _ . : / - only"))
		}
	}
	return errs
}

const argCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-"
