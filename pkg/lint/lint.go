// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lint validates manifests without a server. It decodes and validates with the code of weir-apiserver, so
// that it reports the same errors and warnings. It sees one object at a time, and no cluster.
package lint

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// Result has the errors and warnings that weir-apiserver would return.
type Result struct {
	// Known reports whether the object is of a kind that Weir serves.
	Known            bool
	Errors, Warnings []string
}

// groups are the API groups that Weir serves.
var groups = []string{rollouts.GroupName, weir.GroupName}

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	utilruntime.Must(weir.AddToScheme(scheme))
	return scheme
}()

var decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(rollouts.SchemeGroupVersion, weir.SchemeGroupVersion)

// Object validates a manifest like a create request. A manifest without a namespace gets the namespace default.
func Object(u *unstructured.Unstructured) Result {
	r := Result{Known: slices.Contains(groups, u.GroupVersionKind().Group)}
	if !r.Known {
		return r
	}
	u = u.DeepCopy()
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return Result{Known: true, Errors: []string{err.Error()}}
	}
	if r.Errors = fieldErrors(u); len(r.Errors) > 0 {
		return r
	}
	object, _, err := decoder.Decode(data, nil, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			r.Errors = append(r.Errors, e.Error())
		}
	} else if err != nil {
		return Result{Known: true, Errors: []string{err.Error()}}
	}
	errs, warnings := validate(object, validation.Options{Version: u.GroupVersionKind().Version})
	for _, e := range errs {
		r.Errors = append(r.Errors, e.Error())
	}
	r.Warnings = warnings
	return r
}

// fieldErrors returns the errors about fields that are unknown or have values of a wrong type. Like the server, it says
// what to write instead.
func fieldErrors(u *unstructured.Unstructured) []string {
	object, err := scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil // the decoder reports the unknown kind
	}
	found := validation.CheckFields(object, u.Object)
	var errs []string
	for _, e := range found.WrongTypes {
		errs = append(errs, e.Error())
	}
	for _, unknown := range found.Unknown {
		errs = append(errs, unknown.String())
	}
	return errs
}

// validate validates an object by its kind.
func validate(object runtime.Object, o validation.Options) (field.ErrorList, []string) {
	switch v := object.(type) {
	case *rollouts.Rollout:
		if errs := validation.ValidateRollout(v, o); len(errs) > 0 {
			return errs, nil
		}
		return nil, append(validation.RolloutWarnings(v, o), validation.FinalizerWarnings(v, nil)...)
	case *rollouts.BatchRelease:
		return validation.ValidateBatchRelease(v), nil
	case *rollouts.TrafficRouting:
		return validation.ValidateTrafficRouting(v), nil
	case *weir.MetricSource:
		v.Namespace = "" // a MetricSource is cluster-scoped
		return validation.ValidateMetricSource(v), nil
	case *weir.Check:
		return validation.ValidateSharedCheck(&v.ObjectMeta, true, &v.Spec), nil
	case *weir.ClusterCheck:
		v.Namespace = ""
		return validation.ValidateSharedCheck(&v.ObjectMeta, false, &v.Spec), nil
	case nil:
		return nil, nil
	}
	return nil, []string{fmt.Sprintf("%T is written by Weir, not by people", object)}
}
