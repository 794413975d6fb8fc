// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"maps"
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

// Result is a manifest for Weir, and what has no counterpart in it. The object may be nil.
type Result struct {
	Object any
	Notes  []Note
	// From names the source.
	From string
}

// kinds that are converted, by group and kind.
var kinds = map[string]func(s *source, all *templates) []any{
	"argoproj.io/Rollout":                 argoRollout,
	"argoproj.io/AnalysisTemplate":        analysisTemplate,
	"argoproj.io/ClusterAnalysisTemplate": analysisTemplate,
	"flagger.app/Canary":                  flaggerCanary,
	"flagger.app/MetricTemplate":          metricTemplate,
}

// Known reports whether an object is converted.
func Known(u *unstructured.Unstructured) bool {
	return kinds[u.GroupVersionKind().Group+"/"+u.GetKind()] != nil
}

// templates are among the manifests: those of Argo with the names of the checks that they
// become, those of Flagger with their queries.
type templates struct {
	checks  map[string][]string
	queries map[string]string
	// used are the templates of Flagger that a Canary names.
	used map[string]bool
}

func templatesOf(manifests []*unstructured.Unstructured) *templates {
	all := &templates{map[string][]string{}, map[string]string{}, map[string]bool{}}
	for _, u := range manifests {
		if !Known(u) {
			continue
		}
		object := u.DeepCopy().Object
		if query := text(object, "spec", "query"); query != "" {
			all.queries[u.GetName()] = flaggerQuery(query)
		}
		for _, m := range objects(object, "spec", "analysis", "metrics") {
			all.used[text(m, "templateRef", "name")] = true
		}
		for i, m := range objects(object, "spec", "metrics") {
			if text(m, "provider", "prometheus", "query") != "" {
				all.checks[u.GetName()] = append(all.checks[u.GetName()], checkName(u.GetName(), text(m, "name"), i))
			}
		}
	}
	return all
}

// All converts manifests. Those of other kinds are left out.
func All(manifests []*unstructured.Unstructured) []Result {
	all := templatesOf(manifests)
	var results []Result
	for _, u := range manifests {
		if !Known(u) {
			continue
		}
		s := &source{object: u.DeepCopy().Object, cluster: strings.HasPrefix(u.GetKind(), "Cluster")}
		for _, field := range []string{"apiVersion", "kind", "status"} {
			delete(s.object, field)
		}
		made := kinds[u.GroupVersionKind().Group+"/"+u.GetKind()](s, all)
		s.left(0, "", s.object)
		for _, object := range made {
			s.refused(object)
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

// refused says what Weir does not take.
func (s *source) refused(object any) {
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return // a Deployment
	}
	for _, e := range lint.Object(&unstructured.Unstructured{Object: converted}).Errors {
		s.note(0, "Weir refuses this: %s", e)
	}
}

// meta takes the metadata out of a source, without what a server or Argo writes.
func meta(s *source) metav1.ObjectMeta {
	u := unstructured.Unstructured{Object: map[string]any{"metadata": s.object["metadata"]}}
	delete(s.object, "metadata")
	annotations := u.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return slices.Contains(notCopied, key) })
	return metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), Labels: u.GetLabels(), Annotations: annotations}
}

// notCopied are annotations that others write.
var notCopied = []string{"kubectl.kubernetes.io/last-applied-configuration", "rollout.argoproj.io/revision"}

// workloadOf takes a reference to a workload.
func workloadOf(ref map[string]any) v1beta1.ObjectRef {
	return v1beta1.ObjectRef{APIVersion: cmp.Or(text(ref, "apiVersion"), "apps/v1"), Kind: text(ref, "kind"), Name: text(ref, "name")}
}

func rolloutOf(m metav1.ObjectMeta, workload v1beta1.ObjectRef) *v1beta1.Rollout {
	r := &v1beta1.Rollout{ObjectMeta: m, Spec: v1beta1.RolloutSpec{WorkloadRef: workload}}
	r.APIVersion, r.Kind = v1beta1.SchemeGroupVersion.String(), "Rollout"
	return r
}

func checkOf(m metav1.ObjectMeta, cluster bool, spec weir.CheckSpec) any {
	version := weir.SchemeGroupVersion.String()
	if cluster {
		m.Namespace = ""
		return &weir.ClusterCheck{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterCheck"}, ObjectMeta: m, Spec: spec}
	}
	return &weir.Check{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Check"}, ObjectMeta: m, Spec: spec}
}

// share is a percentage of pods, which is above 0.
func share(weight int64) *intstr.IntOrString {
	n := intstr.FromString(fmt.Sprintf("%d%%", min(max(weight, 1), 100)))
	return &n
}

// finish adds the step in which every pod is new, and has no step with fewer pods than the
// one before, which Weir refuses.
func finish(s *source, steps []v1beta1.Step) []v1beta1.Step {
	most := int64(0)
	for i := range steps {
		n, isShare := percentOf(steps[i].Replicas)
		if !isShare {
			continue
		}
		if n < most {
			s.note(i+1, "fewer pods than in the step before: %d%%", n)
			steps[i].Replicas = share(most)
		}
		most = max(most, n)
	}
	if most < 100 {
		steps = append(steps, v1beta1.Step{Replicas: share(100)})
	} else {
		last := &steps[len(steps)-1]
		last.Traffic = nil // every pod is new
	}
	return steps
}

func percentOf(n *intstr.IntOrString) (int64, bool) {
	if n == nil || n.Type != intstr.String {
		return 0, false
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(n, 100, true)
	return int64(value), err == nil
}

func pause(seconds int64) *v1beta1.Pause { return &v1beta1.Pause{Duration: new(int32(seconds))} }

// valueMatch takes how a header is matched.
func valueMatch(name string, from map[string]any) v1beta1.ValueMatch {
	for _, row := range []struct{ field, before, after string }{{"regex", "", ""}, {"prefix", "", ".*"}, {"suffix", ".*", ""}} {
		value := text(from, row.field)
		if value == "" {
			continue
		}
		if row.field != "regex" {
			value = row.before + regexp.QuoteMeta(value) + row.after
		}
		return v1beta1.ValueMatch{Name: name, Type: new("RegularExpression"), Value: value}
	}
	return v1beta1.ValueMatch{Name: name, Value: text(from, "exact")}
}
