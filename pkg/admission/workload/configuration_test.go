// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// asker returns a function that reports whether kube-apiserver calls the webhook for a request, according
// to the shipped configuration.
func asker(t *testing.T) func(s sent) bool {
	t.Helper()
	data, err := artifacts.Files.ReadFile("base/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		t.Fatal(err)
	}
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	var hooks []webhook.WebhookAccessor
	for i := range config.Webhooks {
		if config.Webhooks[i].ObjectSelector == nil { // as kube-apiserver defaults it
			config.Webhooks[i].ObjectSelector = &metav1.LabelSelector{}
		}
		hooks = append(hooks, webhook.NewMutatingWebhookAccessor("uid", config.Name, &config.Webhooks[i]))
	}
	return func(s sent) bool {
		t.Helper()
		return slices.ContainsFunc(hooks, func(hook webhook.WebhookAccessor) bool {
			selector, err := hook.GetParsedObjectSelector()
			if err != nil {
				t.Fatal(err)
			}
			if !s.selected(selector, hook.GetRules()) {
				return false
			}
			result := hook.GetCompiledMatcher(compiler).Match(t.Context(), s.attributes(), nil, nil)
			if result.Error != nil {
				t.Fatalf("evaluating %s: %v", result.FailedConditionName, result.Error)
			}
			return result.Matches
		})
	}
}

func kindOf(o object.Object) schema.GroupVersionKind { return o.GetObjectKind().GroupVersionKind() }

func resourceOf(o object.Object) schema.GroupVersionResource {
	return kindOf(o).GroupVersion().WithResource(strings.ToLower(kindOf(o).Kind) + "s")
}

// kube-apiserver calls the webhook if and only if the update is relevant.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		as          string
		old, update []edit
		want        bool
	}{
		"a new template":                     {"", nil, []edit{image("v2")}, true},
		"a new rollout id, label":            {"", nil, []edit{rolloutID}, true},
		"a new rollout id, annotation":       {"", nil, []edit{annotatedID}, true},
		"the label goes":                     {"", nil, []edit{bare}, true},
		"the label comes":                    {"", []edit{bare}, nil, true},
		"resumed while held":                 {"", []edit{held}, []edit{held, resumed}, true},
		"unmarked while held":                {"", []edit{held}, []edit{unmarked, paused}, true},
		"another strategy while held":        {"", []edit{driven}, []edit{driven, rolling}, true},
		"another history limit while held":   {"", []edit{held}, []edit{held, forgetful}, true},
		"bare while driven":                  {"", []edit{driven}, []edit{driven, bare}, true},
		"another stable revision":            {"", []edit{driven}, []edit{driven, relabelled}, true},
		"nothing":                            {"", nil, nil, false},
		"nothing while driven":               {"", []edit{driven}, []edit{driven}, false},
		"scaled":                             {"", nil, []edit{scaled}, false},
		"scaled while driven":                {"", []edit{driven}, []edit{driven, scaled}, false},
		"annotated while held":               {"", []edit{held}, []edit{held, annotated}, false},
		"paused by its owner":                {"", nil, []edit{paused}, false},
		"another strategy of its owner":      {"", nil, []edit{recreating}, false},
		"weir-controller":                    {weir, []edit{driven}, []edit{image("v2")}, false},
		"a new template without the label":   {"", []edit{bare}, []edit{bare, image("v2")}, false},
		"a new template, label dropped, too": {"", nil, []edit{bare, image("v2")}, true},
		"a new template while held":          {"", []edit{held}, []edit{held, image("v2")}, true},
		"just held":                          {"", nil, []edit{held, image("v2")}, false},
		"just held, and annotated":           {"", nil, []edit{held, image("v2"), annotated}, false},
		"just held, not paused":              {"", nil, []edit{held, image("v2"), resumed}, true},
		"just held, another record":          {"", nil, []edit{driven, rolling, image("v2")}, true},
		"just held, a record of labels":      {"", nil, []edit{held, image("v2"), relabelled}, true},
		"just held, another rollout id":      {"", nil, []edit{held, image("v2"), rolloutID}, true},
		"just held, another annotated id":    {"", nil, []edit{held, image("v2"), annotatedID}, true},
		"just held, another strategy":        {"", nil, []edit{held, image("v2"), recreating}, true},
		"just held, another history limit":   {"", nil, []edit{held, image("v2"), forgetful}, true},
		"just held, scaled":                  {"", nil, []edit{held, image("v2"), scaled}, true},
		"just held, of size 0":               {"", []edit{emptied}, []edit{emptied, held, image("v2")}, true},
		"just held, too many annotations":    {"", nil, []edit{held, image("v2"), crowded}, true},
		"just held by a long name":           {"", nil, []edit{held, image("v2"), longMark}, true},
		"just held by anything":              {"", nil, []edit{held, image("v2"), func(d *appsv1.Deployment) { d.Annotations[rollouts.AnnotationInProgress] = "x" }}, true},
	}
	asked := asker(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := tt.as
			if as == "" {
				as = "alice"
			}
			if got := asked(sent{as: as, old: deployment(tt.old...), update: deployment(tt.update...)}); got != tt.want {
				t.Errorf("asked: %t, want %t", got, tt.want)
			}
		})
	}
}

// longMark marks a Deployment as held by a name that is too long for a Rollout.
func longMark(d *appsv1.Deployment) {
	d.Annotations[rollouts.AnnotationInProgress] = `{"rolloutName":"` + strings.Repeat("x", 190<<10) + `"}`
}

func paused(d *appsv1.Deployment) { d.Spec.Paused = true }

func recreating(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }

func forgetful(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32) }

func emptied(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }

func crowded(d *appsv1.Deployment) { set(d, "a", strings.Repeat("x", 200<<10)) }

func relabelled(d *appsv1.Deployment) { d.Labels["rollouts.kruise.io/stable-revision"] = "x" }

func annotatedID(d *appsv1.Deployment) { set(d, "rollouts.kruise.io/rollout-id", "7") }

func annotated(d *appsv1.Deployment) { set(d, "a", "b") }

func set(d *appsv1.Deployment, key, value string) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[key] = value
}

// If a policy has held an update, kube-apiserver does not call the webhook, and the webhook would not
// change the update. If the mark was lost and only the store knows of the release, only the mark differs.
func TestJustHeld(t *testing.T) {
	t.Parallel()
	asked := asker(t)
	for name, r := range map[string]*rollouts.Rollout{
		"at rest": liveRollout(),
		"in progress": liveRollout(func(r *rollouts.Rollout) {
			r.Status.Phase, r.Status.WorkloadUID, r.Status.Canary = rollouts.PhaseProgressing, deployment().UID, &rollouts.Progress{State: rollouts.StepPaused}
		}),
		"canary":     liveRollout(func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.ExtraWorkload = true }),
		"blue-green": liveRollout(func(r *rollouts.Rollout) { r.Spec.Strategy = rollouts.Strategy{BlueGreen: &rollouts.Release{}} }),
		"disabled":   liveRollout(disabled),
	} {
		s := sent{as: "alice", old: deployment(), update: deployment(held, image("v2"), annotated)}
		if asked(s) {
			t.Fatalf("%s: it is asked", name)
		}
		got, refusal := answered(t, &Handler{Rollouts: named{r}, Controller: weir}, s)
		if name == "in progress" {
			delete(s.update.GetAnnotations(), rollouts.AnnotationInProgress)
		}
		if diff := cmp.Diff(s.update, got); diff != "" || refusal != "" {
			t.Errorf("%s: it would say %q (-want +got):\n%s", name, refusal, diff)
		}
	}
}
