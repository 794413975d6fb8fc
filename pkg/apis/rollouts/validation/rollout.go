// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation validates one object, or a change of one. It answers "may this be
// stored", names the field as the version of the request spells it, and says what to
// write instead. It must not know any other object: other code finds two Rollouts
// with one workload.
package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// DefaultPartitionPercentLimit is how much of a partitioned workload may be
// upgraded in a step that routes traffic.
const DefaultPartitionPercentLimit = 50

// Options depend on the configuration of the server and on the version of the request.
type Options struct {
	// PartitionPercentLimit in percent; 0 means the default.
	PartitionPercentLimit int
	// EnforcePartitionPercentLimit reports steps above the limit as errors, not as warnings.
	EnforcePartitionPercentLimit bool
	// AnyWorkloadKind accepts workloads of unknown kinds.
	AnyWorkloadKind bool
	// Version of the request; empty means v1beta1. A request in v1alpha1 may
	// change the number of steps of a release in progress, may give a weight of
	// 0, and keeps the style in an annotation.
	Version string
	// OwnNamespace is the namespace of Weir. Rollouts in it are refused.
	OwnNamespace string
}

// v1alpha1 is the older version. Its schema limits neither steps nor matches,
// and its lists of headers are not keyed by name.
const v1alpha1 = "v1alpha1"

func (o Options) older() bool { return o.Version == v1alpha1 }

// workloadRef is the path of the reference to the workload in the version.
func (o Options) workloadRef() *field.Path {
	if o.older() {
		return field.NewPath("spec", "objectRef", "workloadRef")
	}
	return field.NewPath("spec", "workloadRef")
}

// traffic is the name of the share of a step in the version.
func (o Options) traffic() string {
	if o.older() {
		return "weight"
	}
	return "traffic"
}

func (o Options) percentLimit() int {
	return cmp.Or(o.PartitionPercentLimit, DefaultPartitionPercentLimit)
}

var (
	workloadKinds = []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "apps", Kind: "DaemonSet"},
		{Group: "apps.kruise.io", Kind: "CloneSet"},
		{Group: "apps.kruise.io", Kind: "StatefulSet"},
		{Group: "apps.kruise.io", Kind: "DaemonSet"},
	}
	blueGreenKinds = []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps.kruise.io", Kind: "CloneSet"},
	}
)

// ValidateRollout validates a new Rollout.
func ValidateRollout(r *rollouts.Rollout, o Options) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if why := rollouts.Unheld(r.Namespace, o.OwnNamespace); why != "" {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), r.Namespace, why))
	}
	return append(errs, validateSpec(r, o)...)
}

// ValidateRolloutUpdate validates a change. Fields that do not change stay accepted:
// otherwise, nobody could remove a finalizer from an object that a newer rule refuses.
func ValidateRolloutUpdate(r, old *rollouts.Rollout, o Options) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, newErrors(validateSpec(r, o), validateSpec(old, o))...)
	if InFlight(&old.Status) {
		errs = append(errs, validateInFlight(&r.Spec, &old.Spec, o)...)
	}
	return errs
}

func validateSpec(r *rollouts.Rollout, o Options) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateWorkloadRef(&r.Spec, o.workloadRef(), o)
	errs = append(errs, validateStyleAnnotation(r, o)...)
	return append(errs, validateStrategy(&r.Spec, spec.Child("strategy"), o)...)
}

func validateWorkloadRef(s *rollouts.RolloutSpec, path *field.Path, o Options) field.ErrorList {
	if s.WorkloadRef == nil {
		return field.ErrorList{field.Required(path, "name the workload to release by apiVersion, kind and name")}
	}
	errs := validateRef(s.WorkloadRef, path)
	if len(errs) > 0 {
		return errs
	}
	kind := groupKind(s.WorkloadRef)
	// A StatefulSet of another group may have the fields of a native one.
	statefulSetLike := kind.Kind == "StatefulSet" && strings.Contains(kind.Group, ".")
	if !o.AnyWorkloadKind && !statefulSetLike && !slices.Contains(workloadKinds, kind) {
		return field.ErrorList{field.Invalid(path.Child("kind"), kind.String(), "use one of "+joinKinds(workloadKinds)+", or a StatefulSet of another group")}
	}
	if s.Strategy.BlueGreen != nil && !slices.Contains(blueGreenKinds, kind) {
		return field.ErrorList{field.Invalid(path.Child("kind"), kind.String(), "the blueGreen strategy needs one of "+joinKinds(blueGreenKinds)+"; use canary for other kinds")}
	}
	return nil
}

// validateRef validates a reference to an object in the namespace.
func validateRef(ref *rollouts.ObjectRef, path *field.Path) field.ErrorList {
	errs := validateAPIVersion(ref.APIVersion, path.Child("apiVersion"))
	if ref.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), "give the kind, such as Deployment"))
	} else if len(utilvalidation.IsDNS1035Label(strings.ToLower(ref.Kind))) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), ref.Kind, "give the kind, such as Deployment: a letter, then letters, digits and -"))
	}
	return append(errs, validateName(ref.Name, path.Child("name"))...)
}

// validateAPIVersion accepts any group and version that a cluster could serve.
func validateAPIVersion(apiVersion string, path *field.Path) field.ErrorList {
	const fix = "give group and version, such as apps/v1"
	if apiVersion == "" {
		return field.ErrorList{field.Required(path, fix)}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(utilvalidation.IsDNS1035Label(gv.Version)) > 0 ||
		strings.Contains(apiVersion, "/") && len(utilvalidation.IsDNS1123Subdomain(gv.Group)) > 0 {
		return field.ErrorList{field.Invalid(path, apiVersion, fix)}
	}
	return nil
}

func validateName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "give the name of an object in this namespace")}
	}
	var errs field.ErrorList
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func groupKind(ref *rollouts.ObjectRef) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

func joinKinds(kinds []schema.GroupKind) string {
	names := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		names = append(names, kind.String())
	}
	return strings.Join(names, ", ")
}

// validateStyleAnnotation applies to older requests only: v1beta1 has a field instead
// and ignores the annotation.
func validateStyleAnnotation(r *rollouts.Rollout, o Options) field.ErrorList {
	style := r.Annotations[rollouts.AnnotationRollingStyle]
	if !o.older() || style == "" || strings.EqualFold(style, "canary") || strings.EqualFold(style, "partition") {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(rollouts.AnnotationRollingStyle)
	return field.ErrorList{field.NotSupported(path, style, []string{"canary", "partition"})}
}

// InFlight reports whether a release is in progress or still has to be taken back, for
// which the controller needs the spec.
func InFlight(s *rollouts.RolloutStatus) bool {
	p := s.Active()
	return s.UnderWay() || s.Network != nil || p != nil && p.FinalisingStep != "" && p.FinalisingStep != rollouts.FinalisingEnd
}

const waitForEnd = "cannot change until the release or its abort has ended"

// validateInFlight validates a change of the plan of a release in progress.
func validateInFlight(s, old *rollouts.RolloutSpec, o Options) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(s.WorkloadRef, old.WorkloadRef) {
		errs = append(errs, field.Forbidden(o.workloadRef(), waitForEnd))
	}
	style, release := s.Strategy.Active()
	oldStyle, oldRelease := old.Strategy.Active()
	if release == nil || oldRelease == nil {
		return errs
	}
	path := spec.Child("strategy", style.Key())
	if style != oldStyle {
		return append(errs, field.Forbidden(path, fmt.Sprintf("the style %s (from %s, or enableExtraWorkloadForCanary) ", style, oldStyle)+waitForEnd))
	}
	if !equality.Semantic.DeepEqual(release.TrafficRoutings, oldRelease.TrafficRoutings) {
		errs = append(errs, field.Forbidden(path.Child("trafficRoutings"), waitForEnd))
	}
	if !o.older() && len(release.Steps) != len(oldRelease.Steps) {
		errs = append(errs, field.Forbidden(path.Child("steps"), fmt.Sprintf("the number of steps (%d) ", len(oldRelease.Steps))+waitForEnd+"; wait, or edit the existing steps"))
	}
	return errs
}
