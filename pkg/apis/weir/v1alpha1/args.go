// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

var (
	// OfRelease are the names that the texts of a query get from the release. No argument has one.
	OfRelease = []string{"namespace", "pods", "service", "window", "workload"}

	placeholder = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	argument    = regexp.MustCompile(`^[A-Za-z0-9_.:/-]*$`)
)

// IsArgument reports whether a check may be given such a value. None of the characters ends
// a string in PromQL, in CEL or in a URL.
func IsArgument(value string) bool { return argument.MatchString(value) }

// With returns the check with arguments in place of their names; those of the release are
// left. The result is as good as the arguments: validate it before it is used.
func (s *CheckSpec) With(args map[string]string) (*rollouts.Check, field.ErrorList) {
	values, errs := s.values(args)
	wire := v1beta1.Check{
		Gate: s.Gate, FailAfter: s.FailAfter, SuccessRate: s.SuccessRate, Latency: s.Latency, AsGoodAs: s.AsGoodAs,
		Tolerance: s.Tolerance, Query: s.Query, HTTP: s.HTTP, Job: s.Job,
	}
	check := &rollouts.Check{}
	if err := v1beta1.Convert_v1beta1_Check_To_rollouts_Check(wire.DeepCopy(), check, nil); err != nil {
		errs = append(errs, field.InternalError(field.NewPath("spec"), err))
	}
	for _, t := range texts(check) {
		errs = append(errs, t.fill(values)...)
	}
	return check, errs
}

// values are those of all arguments.
func (s *CheckSpec) values(args map[string]string) (map[string]string, field.ErrorList) {
	var errs field.ErrorList
	values, path := map[string]string{}, field.NewPath("args")
	for _, arg := range s.Args {
		value, given := args[arg.Name]
		if !given && arg.Default != nil {
			value, given = *arg.Default, true
		}
		values[arg.Name] = value
		switch {
		case !given:
			errs = append(errs, field.Required(path.Key(arg.Name), "give a value; the check has no default"))
		case !IsArgument(value):
			errs = append(errs, field.Invalid(path.Key(arg.Name), value, "use letters, digits and _ . : / - only"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if _, ok := values[name]; !ok {
			errs = append(errs, field.NotSupported(path, name, slices.Sorted(maps.Keys(values))))
		}
	}
	return values, errs
}

// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false

// text is one of a check, where the object has it, and whether it gets names of the release.
type text struct {
	path      *field.Path
	value     *string
	ofRelease bool
}

// fill sets values in place of their names.
func (t text) fill(values map[string]string) (errs field.ErrorList) {
	*t.value = placeholder.ReplaceAllStringFunc(*t.value, func(name string) string {
		if value, ok := values[name[1:]]; ok {
			return value
		}
		if !t.ofRelease || !slices.Contains(OfRelease, name[1:]) {
			errs = append(errs, field.Invalid(t.path, name, "add it to spec.args; of the release, queries get $"+strings.Join(OfRelease, ", $")))
		}
		return name
	})
	return errs
}

// texts are those in which arguments are named.
func texts(c *rollouts.Check) []text {
	var all []text
	add := func(ofRelease bool, value *string, path ...string) {
		if value != nil {
			all = append(all, text{field.NewPath("spec", path...), value, ofRelease})
		}
	}
	add(false, c.SuccessRate, "successRate")
	if l := c.Latency; l != nil {
		add(false, &l.Share, "latency", "share")
	}
	if t := c.Tolerance; t != nil {
		add(false, t.Ratio, "tolerance", "ratio")
		add(false, t.Margin, "tolerance", "margin")
	}
	if q := c.Query; q != nil {
		add(false, &q.Source, "query", "source")
		add(true, &q.Bad, "query", "bad")
		add(true, &q.Total, "query", "total")
		add(true, &q.PromQL, "query", "promql")
		add(false, q.Min, "query", "min")
		add(false, q.Max, "query", "max")
	}
	if h := c.HTTP; h != nil {
		add(false, &h.Service, "http", "service")
		add(false, &h.Path, "http", "path")
		add(false, &h.Pass, "http", "pass")
	}
	if j := c.Job; j != nil {
		add(false, &j.CronJob, "job", "cronJob")
	}
	return all
}
