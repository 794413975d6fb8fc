// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/lint"
)

// Result is a manifest for Weir, and the notes about what was not converted. The object may be nil.
type Result struct {
	Object any
	Notes  []Note
	// From is the kind and name of the source.
	From string
	// StepsComment is a comment before the first step, with "# " before each line; empty for none.
	StepsComment string
}

// converters are the functions that convert a manifest, by its group and kind.
var converters = map[string]func(s *manifestSource, all *templates) []any{
	"argoproj.io/Rollout":                 convertArgoRollout,
	"argoproj.io/AnalysisTemplate":        convertAnalysisTemplate,
	"argoproj.io/ClusterAnalysisTemplate": convertAnalysisTemplate,
	"flagger.app/Canary":                  convertFlaggerCanary,
	"flagger.app/MetricTemplate":          convertMetricTemplate,
}

// IsSupported reports whether ConvertAll converts objects of this kind.
func IsSupported(u *unstructured.Unstructured) bool {
	return converters[u.GroupVersionKind().Group+"/"+u.GetKind()] != nil
}

// templates are the analysis templates among the manifests: the names of the checks for those of Argo, and
// the queries of those of Flagger.
type templates struct {
	checks  map[string][]string
	queries map[string]string
	// used are the names of Flagger's templates that Canaries reference.
	used map[string]bool
	// services are the canary Services of Argo's Rollouts.
	services canaryServices
}

func collectTemplates(manifests []*unstructured.Unstructured) *templates {
	all := &templates{map[string][]string{}, map[string]string{}, map[string]bool{}, canaryServices{}}
	for _, u := range manifests {
		if !IsSupported(u) {
			continue
		}
		object := u.DeepCopy().Object
		if query := takeText(object, "spec", "query"); query != "" {
			all.queries[u.GetName()] = convertFlaggerQuery(query)
		}
		for _, m := range takeObjects(object, "spec", "analysis", "metrics") {
			all.used[takeText(m, "templateRef", "name")] = true
		}
		metrics := takeObjects(object, "spec", "metrics")
		for i, name := range checkNames(u.GetName(), metrics) {
			if isCheck(metrics[i]) {
				all.checks[u.GetName()] = append(all.checks[u.GetName()], name)
			}
		}
		all.services.collect(u)
	}
	return all
}

// Manifests converts manifests. It ignores other kinds.
func Manifests(manifests []*unstructured.Unstructured) []Result {
	all := collectTemplates(manifests)
	var results []Result
	for _, u := range manifests {
		if !IsSupported(u) {
			continue
		}
		s := &manifestSource{object: u.DeepCopy().Object, cluster: strings.HasPrefix(u.GetKind(), "Cluster")}
		for _, field := range []string{"apiVersion", "kind", "status"} {
			delete(s.object, field)
		}
		made := converters[u.GroupVersionKind().Group+"/"+u.GetKind()](s, all)
		s.noteRemaining(0, "", s.object)
		for _, object := range made {
			s.noteLintErrors(object)
		}
		from := strings.ToLower(u.GetKind()) + "/" + u.GetName()
		for i, object := range made {
			r := Result{Object: object, From: from}
			if i == len(made)-1 {
				r.Notes = s.notes
			}
			results = append(results, r)
		}
		if len(made) == 0 {
			results = append(results, Result{From: from, Notes: s.notes})
		}
	}
	return results
}

// noteLintErrors adds a note for each reason for which Weir refuses the object.
func (s *manifestSource) noteLintErrors(object any) {
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return // the object is a Deployment, which lint does not check
	}
	for _, e := range lint.Object(&unstructured.Unstructured{Object: converted}).Errors {
		s.notes = append(s.notes, Note{Kind: Refused, Text: e})
	}
}

// takeMetadata takes the metadata from a source, without annotations of kubectl and Argo.
func takeMetadata(s *manifestSource) metav1.ObjectMeta {
	u := unstructured.Unstructured{Object: map[string]any{"metadata": s.object["metadata"]}}
	delete(s.object, "metadata")
	annotations := u.GetAnnotations()
	for _, key := range sortedKeys(annotations) {
		switch {
		case strings.HasPrefix(key, "notifications.argoproj.io/"):
			s.addNote(0, "metadata.annotations[%s]: Weir does not read it", key)
			delete(annotations, key)
		case slices.Contains(droppedAnnotations, key):
			delete(annotations, key)
		}
	}
	return metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), Labels: u.GetLabels(), Annotations: annotations}
}

// droppedAnnotations are annotations that other programs write.
var droppedAnnotations = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"notified.notifications.argoproj.io",
	"rollout.argoproj.io/revision",
	"rollout.argoproj.io/workload-generation",
}

// takeWorkloadRef converts a reference to a workload.
func takeWorkloadRef(ref map[string]any) v1beta1.ObjectRef {
	return v1beta1.ObjectRef{APIVersion: cmp.Or(takeText(ref, "apiVersion"), "apps/v1"), Kind: takeText(ref, "kind"), Name: takeText(ref, "name")}
}

func newRollout(m metav1.ObjectMeta, workload v1beta1.ObjectRef) *v1beta1.Rollout {
	r := &v1beta1.Rollout{ObjectMeta: m, Spec: v1beta1.RolloutSpec{WorkloadRef: workload}}
	r.APIVersion, r.Kind = v1beta1.SchemeGroupVersion.String(), "Rollout"
	return r
}

func newCheck(m metav1.ObjectMeta, cluster bool, spec weir.CheckSpec) any {
	version := weir.SchemeGroupVersion.String()
	if cluster {
		m.Namespace = ""
		return &weir.ClusterCheck{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterCheck"}, ObjectMeta: m, Spec: spec}
	}
	return &weir.Check{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Check"}, ObjectMeta: m, Spec: spec}
}

// percentage returns a percentage of pods, which must be above 0.
func percentage(weight int64) *intstr.IntOrString {
	n := intstr.FromString(fmt.Sprintf("%d%%", min(max(weight, 1), 100)))
	return &n
}

// completeSteps adds a last step with all pods if there is none. It raises the percentage of steps with fewer pods
// than the step before, because Weir refuses them.
func completeSteps(s *manifestSource, steps []v1beta1.Step) []v1beta1.Step {
	most := int64(0)
	for i := range steps {
		n, isShare := parsePercent(steps[i].Replicas)
		if !isShare {
			continue
		}
		if n < most {
			s.addHint(i+1, "the source has %d%% of the pods here; a step of Weir cannot have fewer pods than the step before", n)
			steps[i].Replicas = percentage(most)
		}
		most = max(most, n)
	}
	if most < 100 {
		steps = append(steps, v1beta1.Step{Replicas: percentage(100)})
	} else {
		last := &steps[len(steps)-1]
		last.Traffic = nil // the last step replaces all pods
	}
	return steps
}

func parsePercent(n *intstr.IntOrString) (int64, bool) {
	if n == nil || n.Type != intstr.String {
		return 0, false
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(n, 100, true)
	return int64(value), err == nil
}

func pauseFor(seconds int64) *v1beta1.Pause { return &v1beta1.Pause{Duration: new(int32(seconds))} }

// convertValueMatch converts the match of a header.
func convertValueMatch(name string, from map[string]any) v1beta1.ValueMatch {
	for _, row := range []struct{ field, before, after string }{{"regex", "", ""}, {"prefix", "", ".*"}, {"suffix", ".*", ""}} {
		value := takeText(from, row.field)
		if value == "" {
			continue
		}
		if row.field != "regex" {
			value = row.before + regexp.QuoteMeta(value) + row.after
		}
		return v1beta1.ValueMatch{Name: name, Type: new("RegularExpression"), Value: value}
	}
	return v1beta1.ValueMatch{Name: name, Value: takeText(from, "exact")}
}
