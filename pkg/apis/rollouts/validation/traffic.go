// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The limits are those of the Gateway API: an HTTPRoute must accept every value that is
// accepted here.
const (
	maxHeaders     = 16
	maxHeaderName  = 256
	maxHeaderValue = 4096
	maxQueryValue  = 1024
	maxPathValue   = 1024
)

var (
	tokenPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]+$")
	pathPattern  = regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$`)
	pathTypes    = []string{"Exact", "PathPrefix", "RegularExpression"}
	valueTypes   = []string{"Exact", "RegularExpression"}
)

func validateTrafficRoutings(routings []rollouts.TrafficRoutingRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(routings) > 1 {
		errs = append(errs, field.TooMany(path, len(routings), 1))
	}
	for i := range routings {
		errs = append(errs, validateTrafficRouting(&routings[i], path.Index(i))...)
	}
	return errs
}

func validateTrafficRouting(r *rollouts.TrafficRoutingRef, path *field.Path) field.ErrorList {
	errs := validateName(r.Service, path.Child("service"))
	if r.GracePeriodSeconds < 0 || r.GracePeriodSeconds > rollouts.MaxGracePeriod {
		errs = append(errs, field.Invalid(path.Child("gracePeriodSeconds"), r.GracePeriodSeconds,
			fmt.Sprintf("use 0 to %d seconds; an abort also waits this long after each routing change", rollouts.MaxGracePeriod)))
	}
	if r.Ingress == nil && r.Gateway == nil && len(r.CustomNetworkRefs) == 0 {
		errs = append(errs, field.Required(path, "set at least one of ingress, gateway and customNetworkRefs"))
	}
	if r.Ingress != nil {
		errs = append(errs, validateName(r.Ingress.Name, path.Child("ingress", "name"))...)
	}
	if r.Gateway != nil {
		name := ""
		if r.Gateway.HTTPRouteName != nil {
			name = *r.Gateway.HTTPRouteName
		}
		errs = append(errs, validateName(name, path.Child("gateway", "httpRouteName"))...)
	}
	return append(errs, validateNetworkRefs(r.CustomNetworkRefs, path.Child("customNetworkRefs"))...)
}

// validateNetworkRefs limits how many objects a controller reads for one object.
func validateNetworkRefs(refs []rollouts.ObjectRef, path *field.Path) field.ErrorList {
	if len(refs) > rollouts.MaxNetworkRefs {
		return field.ErrorList{field.TooMany(path, len(refs), rollouts.MaxNetworkRefs)}
	}
	var errs field.ErrorList
	for i := range refs {
		errs = append(errs, validateRef(&refs[i], path.Index(i))...)
		if kind := groupKind(&refs[i]); kind.Kind != "" && !rollouts.MayRoute(kind) {
			errs = append(errs, field.Invalid(path.Index(i).Child("kind"), kind.String(), "this kind does not route requests: use a router, such as a VirtualService of networking.istio.io"))
		}
	}
	return errs
}

func validateMatch(m *rollouts.RouteMatch, path *field.Path, o Options) field.ErrorList {
	errs := validatePath(m.Path, path.Child("path"))
	errs = append(errs, validateValues(m.Headers, maxHeaderValue, path.Child("headers"), o)...)
	return append(errs, validateValues(m.QueryParams, maxQueryValue, path.Child("queryParams"), o)...)
}

func validatePath(m *rollouts.PathMatch, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := validateType(m.Type, pathTypes, path.Child("type"))
	if m.Value == nil {
		return errs
	}
	value := *m.Value
	if utf8.RuneCountInString(value) > maxPathValue {
		errs = append(errs, tooLong(path.Child("value"), value, maxPathValue))
	}
	if m.Type != nil && *m.Type == "RegularExpression" {
		return append(errs, validateExpression(value, path.Child("value"))...)
	}
	if fix := pathFix(value); fix != "" {
		errs = append(errs, field.Invalid(path.Child("value"), value, fix))
	}
	return errs
}

// validateExpression refuses expressions that are invalid in every dialect. Some routers
// accept more than Go does, so other errors of Go's parser do not count.
func validateExpression(value string, path *field.Path) field.ErrorList {
	_, err := syntax.Parse(value, syntax.Perl)
	broken, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return nil
	}
	switch broken.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrMissingBracket, syntax.ErrTrailingBackslash:
		return field.ErrorList{field.Invalid(path, value, "invalid regular expression: "+broken.Code.String())}
	default:
		return nil
	}
}

// pathFix says what to change in a path that is not normalized, or is empty.
func pathFix(value string) string {
	if !strings.HasPrefix(value, "/") {
		return "start the path with /"
	}
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F", "#"} {
		if strings.Contains(value, part) {
			return "remove " + part
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(value, end) {
			return "remove the " + end + " at the end"
		}
	}
	if !pathPattern.MatchString(value) {
		return "percent-encode all characters other than letters, digits and -/._~!$&'()*+,;=:@"
	}
	return ""
}

// validateValues accepts repeated names in an older request, since its lists are not
// keyed by name.
func validateValues(values []rollouts.ValueMatch, maxValue int, path *field.Path, o Options) field.ErrorList {
	errs := tooMany(len(values), path)
	seen := sets.New[string]()
	for i := range values {
		v, at := &values[i], path.Index(i)
		if o.older() {
			seen.Delete(v.Name)
		}
		errs = append(errs, validateType(v.Type, valueTypes, at.Child("type"))...)
		errs = append(errs, validateHeaderName(v.Name, at.Child("name"), seen)...)
		errs = append(errs, validateHeaderValue(v.Value, maxValue, at.Child("value"))...)
		if v.Type != nil && *v.Type == "RegularExpression" {
			errs = append(errs, validateExpression(v.Value, at.Child("value"))...)
		}
	}
	return errs
}

func validateHeaderModifier(m *rollouts.HeaderModifier, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := validateHeaders(m.Set, path.Child("set"))
	errs = append(errs, validateHeaders(m.Add, path.Child("add"))...)
	errs = append(errs, tooMany(len(m.Remove), path.Child("remove"))...)
	for i, name := range m.Remove {
		// Invalid names are accepted, because removing them has no effect.
		if slices.Contains(m.Remove[:i], name) {
			errs = append(errs, field.Duplicate(path.Child("remove").Index(i), name))
		}
	}
	return errs
}

func tooMany(n int, path *field.Path) field.ErrorList {
	if n <= maxHeaders {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, maxHeaders)}
}

func validateHeaders(headers []rollouts.Header, path *field.Path) field.ErrorList {
	errs := tooMany(len(headers), path)
	seen := sets.New[string]()
	for i := range headers {
		errs = append(errs, validateHeaderName(headers[i].Name, path.Index(i).Child("name"), seen)...)
		errs = append(errs, validateHeaderValue(headers[i].Value, maxHeaderValue, path.Index(i).Child("value"))...)
	}
	return errs
}

// validateType accepts no type, which means the default.
func validateType(t *string, known []string, path *field.Path) field.ErrorList {
	if t == nil {
		return nil
	}
	return validateOneOf(*t, known, path)
}

func validateOneOf[T ~string](value T, known []T, path *field.Path) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

// validateHeaderName adds the name to seen, since lists are keyed by name.
func validateHeaderName(name string, path *field.Path, seen sets.Set[string]) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "give the name of a header or parameter")}
	case utf8.RuneCountInString(name) > maxHeaderName:
		return field.ErrorList{tooLong(path, name, maxHeaderName)}
	case !tokenPattern.MatchString(name):
		return field.ErrorList{field.Invalid(path, name, "use letters, digits and !#$%&'*+-.^_`|~ only")}
	case seen.Has(name):
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen.Insert(name)
	return nil
}

func validateHeaderValue(value string, limit int, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "give the value")}
	case utf8.RuneCountInString(value) > limit:
		return field.ErrorList{tooLong(path, value, limit)}
	}
	return nil
}
