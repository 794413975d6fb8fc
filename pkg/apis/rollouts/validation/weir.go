// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

const (
	maxSourceHeaders = 16
	maxHeader        = 256
	maxArgs          = 16
)

// reservedHeaders are set by Weir, or by the credentials.
var reservedHeaders = []string{
	"Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Www-Authenticate",
}

// ValidateMetricSource validates a new MetricSource.
func ValidateMetricSource(s *weir.MetricSource) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateMetricSourceSpec(&s.Spec)...)
}

// ValidateMetricSourceUpdate validates a change. Fields that do not change stay accepted.
func ValidateMetricSourceUpdate(s, old *weir.MetricSource) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, newErrors(validateMetricSourceSpec(&s.Spec), validateMetricSourceSpec(&old.Spec))...)
}

func validateMetricSourceSpec(s *weir.MetricSourceSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validatePrometheus(s.Prometheus, path.Child("prometheus"))
	errs = append(errs, metav1validation.ValidateLabelSelector(s.Namespaces, metav1validation.LabelSelectorValidationOptions{}, path.Child("namespaces"))...)
	for _, n := range []struct {
		name        string
		value       *int32
		least, most int32
	}{{"lagSeconds", s.LagSeconds, 0, 600}, {"queriesPerSecond", s.QueriesPerSecond, 1, 1000}} {
		if n.value != nil && (*n.value < n.least || *n.value > n.most) {
			errs = append(errs, field.Invalid(path.Child(n.name), *n.value, fmt.Sprintf("use a number from %d to %d", n.least, n.most)))
		}
	}
	errs = append(errs, oneOf(path.Child("labels"), s.Labels, []weir.LabelSpelling{weir.LabelsAuto, weir.LabelsPlain, weir.LabelsExported})...)
	return append(errs, oneOf(path.Child("newborn"), s.Newborn, []weir.Newborn{weir.NewbornKnown, weir.NewbornZero, weir.NewbornSkip})...)
}

func validatePrometheus(p *weir.Prometheus, path *field.Path) field.ErrorList {
	if p == nil {
		return field.ErrorList{field.Required(path, "set prometheus.url to the address of the server")}
	}
	errs := validateSourceURL(p.URL, path.Child("url"))
	if p.Auth != nil {
		if p.Auth.Secret == "" {
			errs = append(errs, field.Required(path.Child("auth", "secret"), "give the name of a Secret in the namespace "+weir.SecretNamespace))
		} else {
			errs = append(errs, validateName(p.Auth.Secret, path.Child("auth", "secret"))...)
		}
	}
	if p.ServerName != "" {
		for _, message := range utilvalidation.IsDNS1123Subdomain(p.ServerName) {
			errs = append(errs, field.Invalid(path.Child("serverName"), p.ServerName, message))
		}
	}
	if len(p.Headers) > maxSourceHeaders {
		return append(errs, field.TooMany(path.Child("headers"), len(p.Headers), maxSourceHeaders))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		at := path.Child("headers").Key(name)
		for _, message := range utilvalidation.IsHTTPHeaderName(name) {
			errs = append(errs, field.Invalid(at, name, message))
		}
		if slices.Contains(reservedHeaders, textproto.CanonicalMIMEHeaderKey(name)) {
			errs = append(errs, field.Forbidden(at, "Weir sets this header; put credentials into the Secret that auth names"))
		}
		errs = append(errs, validateText(at, p.Headers[name], maxHeader)...)
	}
	return errs
}

func validateSourceURL(text string, path *field.Path) field.ErrorList {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return field.ErrorList{field.Required(path, "such as https://prometheus.monitoring.svc:9090")}
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return field.ErrorList{field.Invalid(path, text, "use http://HOST:PORT or https://HOST:PORT, and a path if there is one")}
	case u.User != nil:
		return field.ErrorList{field.Invalid(path, u.Redacted(), "remove the user name and password; use auth")}
	case u.RawQuery != "" || u.Fragment != "":
		return field.ErrorList{field.Invalid(path, text, "remove the query and the fragment; use headers")}
	}
	return nil
}

// ValidateSharedCheck validates a new Check or ClusterCheck.
func ValidateSharedCheck(meta *metav1.ObjectMeta, namespaced bool, spec *weir.CheckSpec) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(meta, namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateCheckSpec(spec)...)
}

// ValidateSharedCheckUpdate validates a change. Fields that do not change stay accepted.
func ValidateSharedCheckUpdate(meta, oldMeta *metav1.ObjectMeta, spec, old *weir.CheckSpec) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(meta, oldMeta, field.NewPath("metadata"))
	return append(errs, newErrors(validateCheckSpec(spec), validateCheckSpec(old))...)
}

// validateCheckSpec validates the check as with its defaults. An argument without one
// counts as "1", which is a name, a number and a part of a percentage.
func validateCheckSpec(s *weir.CheckSpec) field.ErrorList {
	path := field.NewPath("spec")
	if len(s.Args) > maxArgs {
		return field.ErrorList{field.TooMany(path.Child("args"), len(s.Args), maxArgs)}
	}
	if errs := validateArgs(s.Args, path.Child("args")); len(errs) > 0 {
		return errs
	}
	sample := map[string]string{}
	for _, arg := range s.Args {
		if arg.Default == nil {
			sample[arg.Name] = "1"
		}
	}
	check, errs := s.With(sample)
	if len(errs) > 0 {
		return errs // a variable without a value would be invalid in the query, too
	}
	if len(kindsOfCheck(check)) == 0 {
		return field.ErrorList{field.Required(path, "set one of successRate, latency, asGoodAs, query, http and job")}
	}
	return ValidateCheck(check, path)
}

var argName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func validateArgs(args []weir.CheckArg, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, arg := range args {
		at := path.Index(i)
		switch {
		case !argName.MatchString(arg.Name):
			errs = append(errs, field.Invalid(at.Child("name"), arg.Name, "use a letter, and then letters, digits and _, 63 at most"))
		case slices.Contains(weir.OfRelease, arg.Name):
			errs = append(errs, field.Invalid(at.Child("name"), arg.Name, "choose another name: $"+arg.Name+" is a variable of the release"))
		case names[arg.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), arg.Name))
		}
		names[arg.Name] = true
		if arg.Default != nil && !weir.IsArgument(*arg.Default) {
			errs = append(errs, field.Invalid(at.Child("default"), *arg.Default, "use letters, digits and _ . : / - only"))
		}
	}
	return errs
}
