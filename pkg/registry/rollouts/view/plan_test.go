// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The plan of a new image contains sizes, load, and problems.
func TestPlan(t *testing.T) {
	t.Parallel()
	got := asker(t).of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}})
	if diff := cmp.Diff([]string{
		"1 Next: 1+9, peak 11, ready 10, traffic 20, 2.0x, then approval",
		"2 Next: 5+5, peak 13, ready 10, traffic 50, 1.0x, then time",
		"3 Next: 10+0, peak 13, ready 10, traffic -, , then none",
	}, lines(got)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"Error router 1", "Error router 2", "Warning load 1", "Warning budget 1", "Warning scaler 1", "Warning scaler 0", "Warning probe 0",
	}, codes(got)); diff != "" {
		t.Errorf("findings (-want +got):\n%s\n%+v", diff, got.Findings)
	}
	if got.Peak.Pods != 13 || got.Peak.CPU.String() != "6500m" || got.Peak.Memory.String() != "832Mi" || got.Floor != 10 || len(got.Unknown) != 0 {
		t.Errorf("peak %+v, floor %d, unknown %v", got.Peak, got.Floor, got.Unknown)
	}
}

// A quota that lacks space for one pod is an error at the step that needs the pod.
func TestPlanOfQuota(t *testing.T) {
	t.Parallel()
	p := asker(t)
	p.patch(t, "resourcequotas", "compute", `{"status":{"hard":{"requests.cpu":"6400m"}}}`)
	got := p.of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}})
	if c := codes(got); c[0] != "Error quota 2" || !strings.Contains(got.Findings[0].Message, `Quota "compute" has 1400m of requests.cpu left`) {
		t.Errorf("findings %+v", got.Findings)
	}
}

// withLimits is a change of the image, the limits of the Deployment, and the CPU of the pods.
func withLimits(surge, unavailable, cpu, image string) rollouts.PlanSpec {
	return rollouts.PlanSpec{Workload: runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":10,"selector":{"matchLabels":{"app":"web"}},` +
		`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":` + surge + `,"maxUnavailable":` + unavailable + `}},` +
		`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"` + image + `","resources":{"requests":{"cpu":"` + cpu + `","memory":"64Mi"}}}]}}}}`)}}
}

// A quota without room for more pods stops a Deployment only if no old pod may be removed before a new one starts, or if a
// new pod needs more than an old one leaves.
func TestPlanOfQuotaAndOrder(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hard, surge, unavailable, cpu string
		want, lacks                   string
	}{
		"no old pod may go first":     {`"pods":10`, "1", "0", "500m", "Error quota 1", ""},
		"an old pod may go first":     {`"pods":10`, "3", "1", "500m", "Info quota 1", "Error quota"},
		"more pods than allowed run":  {`"pods":9`, "3", "1", "500m", "Error quota 1", "Info quota"},
		"a new pod needs more":        {`"requests.cpu":"5","pods":100`, "3", "1", "1200m", "Error quota 1", "Info quota"},
		"a new pod needs less":        {`"requests.cpu":"5","pods":100`, "3", `"30%"`, "450m", "Info quota 1", "Error quota"},
		"there is room for all":       {`"requests.cpu":"50","pods":100`, "3", "1", "500m", "", "quota"},
		"the pods of the first steps": {`"requests.cpu":"5500m","pods":100`, "3", `"30%"`, "600m", "Error quota 3", ""},
	} {
		p := asker(t)
		p.patch(t, "resourcequotas", "compute", `{"status":{"hard":null}}`)
		p.patch(t, "resourcequotas", "compute", `{"status":{"hard":{`+tt.hard+`}}}`)
		got := strings.Join(codes(p.of(t, withLimits(tt.surge, tt.unavailable, tt.cpu, "web:v8"))), ", ")
		if !strings.Contains(got, tt.want) || tt.lacks != "" && strings.Contains(got, tt.lacks) {
			t.Errorf("%s: findings %s, want %s and not %s", name, got, tt.want, tt.lacks)
		}
	}
}

// In the blue-green style, all pods of both versions run at once. The idle ones get no part of the load.
func TestPlanOfBlueGreenLoad(t *testing.T) {
	t.Parallel()
	p := asker(t)
	spec := p.rollout().Spec.DeepCopy()
	spec.Strategy.BlueGreen, spec.Strategy.Canary = spec.Strategy.Canary, nil
	spec.Strategy.BlueGreen.Steps = []rollouts.Step{
		{Replicas: new(intstr.FromString("100%")), Traffic: new("0%")}, {Replicas: new(intstr.FromString("100%")), Traffic: new("100%")},
	}
	got := p.of(t, rollouts.PlanSpec{Rollout: spec, Images: map[string]string{"app": "web:v8"}})
	if len(got.Steps) < 2 || got.Steps[1].PerPod != "1.0x" || slices.Contains(codes(got), "Warning load 2") {
		t.Errorf("%v %v", lines(got), codes(got))
	}
}

// A plan without a route sends no requests, whatever share its steps name.
func TestPlanOfNoRoute(t *testing.T) {
	t.Parallel()
	p := asker(t)
	spec := p.rollout().Spec.DeepCopy()
	spec.Strategy.Canary.TrafficRoutings = nil
	got := p.of(t, rollouts.PlanSpec{Rollout: spec, Images: map[string]string{"app": "web:v8"}})
	if !slices.Contains(codes(got), "Warning traffic 1") || got.Steps[0].Traffic != nil || got.Steps[0].PerPod != "" {
		t.Errorf("%v %v", lines(got), codes(got))
	}
}

// A step that selects requests has a text instead of a share.
func TestPlanOfMatches(t *testing.T) {
	t.Parallel()
	p := asker(t)
	spec := p.rollout().Spec.DeepCopy()
	spec.Strategy.Canary.Steps[0].Traffic = nil
	spec.Strategy.Canary.Steps[0].Matches = []rollouts.RouteMatch{
		{Headers: []rollouts.ValueMatch{{Name: "x-canary", Value: "yes"}}, Path: &rollouts.PathMatch{Value: new("/beta")}},
		{QueryParams: []rollouts.ValueMatch{{Name: "group", Value: "b.*", Type: new("RegularExpression")}}},
	}
	got := p.of(t, rollouts.PlanSpec{Rollout: spec, Images: map[string]string{"app": "web:v8"}})
	if want := "/beta* and x-canary: yes or ?group=~b.*"; got.Steps[0].Match != want {
		t.Errorf("the match is %q, want %q", got.Steps[0].Match, want)
	}
}

// A step names its checks. If the checks measure nothing, the plan has a finding before the release begins.
func TestPlanOfChecks(t *testing.T) {
	t.Parallel()
	p := asker(t)
	p.rollout().Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{{SuccessRate: new("99%"), Steps: []int32{1}}, {Name: "jvm", Query: &rollouts.QueryCheck{PromQL: "up"}}}}
	p.rollout().Status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionMeasurable, Status: metav1.ConditionFalse, Reason: planner.ReasonNoAnswer, Message: "successRate has no answer: metricsource default does not exist",
	}, metav1.Now())
	got := p.of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}})
	for i, want := range [][]string{{"successRate", "jvm"}, {"jvm"}, {"jvm"}} {
		if diff := cmp.Diff(want, got.Steps[i].Then.Checks); diff != "" {
			t.Errorf("checks of step %d (-want +got):\n%s", i+1, diff)
		}
	}
	at := slices.IndexFunc(got.Findings, func(f rollouts.Finding) bool { return f.Code == "checks" })
	if at < 0 || got.Findings[at].Severity != "Error" || got.Findings[at].Step != 1 || !strings.Contains(got.Findings[at].Message, "metricsource default does not exist") {
		t.Errorf("findings %+v", got.Findings)
	}
	p.rollout().Status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionMeasurable, Status: metav1.ConditionFalse, Reason: planner.ReasonWouldFail, Message: "jvm would have failed the stable version in 3 of the last 24 hours",
	}, metav1.Now())
	if got = p.of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}}); !slices.Contains(codes(got), "Warning checks 1") {
		t.Errorf("findings %v", codes(got))
	}
	p.rollout().Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionMeasurable, Status: metav1.ConditionTrue, Reason: planner.ReasonMeasured}, metav1.Now())
	if got = p.of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}}); slices.ContainsFunc(codes(got), func(c string) bool { return strings.Contains(c, "checks") }) {
		t.Errorf("findings %v", codes(got))
	}
}

// While a release is in progress, a plan says what another template does to it.
func TestPlanUnderWay(t *testing.T) {
	t.Parallel()
	finding := func(s rollouts.PlanStatus, code string) string {
		for _, f := range s.Findings {
			if f.Code == code {
				return f.Severity + " " + f.Message
			}
		}
		return ""
	}
	release := func() *planREST {
		p := underWay(asker(t))
		p.rollout().Status.Releases = []rollouts.ReleaseRecord{{Number: 3}}
		return p
	}
	got := release().of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v7"}}) // the template in the workload
	if want := "Info release 3 (8) is already releasing this template; the plan shows its steps"; finding(got, "release") != want || finding(got, "template") != "" || len(got.Steps) != 3 {
		t.Errorf("of the template that is released: %v %+v", lines(got), got.Findings)
	}
	got = release().of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v9"}})
	if want := "Info Supersedes release 3 (8)"; finding(got, "release") != want || got.Steps[0].State != "Next" {
		t.Errorf("of another template: %v %+v", lines(got), got.Findings)
	}
	if got = release().of(t, rollouts.PlanSpec{}); finding(got, "release") != "" {
		t.Errorf("of no change: %+v", got.Findings)
	}
	p := release()
	deployments := p.Cluster.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace("shop")
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web:v8"}]}}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got = p.of(t, withLimits("3", "0", "500m", "web:v7"))
	if want := "Info Cancels release 3 (8), because the stable version is set again"; finding(got, "release") != want || len(got.Steps) != 1 || got.Steps[0].State != "Back" || got.Steps[0].Then.For != "none" {
		t.Errorf("of the stable template: %v %+v", lines(got), got.Findings)
	}
}

// A quota with scopes counts only the pods that match all scopes.
func TestPlanOfScopes(t *testing.T) {
	t.Parallel()
	for spec, counts := range map[string]bool{
		`"scopes":["NotBestEffort","NotTerminating"]`: true,
		`"scopes":["BestEffort"]`:                     false,
		`"scopes":["Terminating"]`:                    false,
		`"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}`:                    false,
		`"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}`:      false,
		`"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"NotIn","values":["high"]}]}`:   true,
		`"scopeSelector":{"matchExpressions":[{"scopeName":"CrossNamespacePodAffinity","operator":"Exists"}]}`:        false,
		`"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Somehow","values":["high"]}]}`: false,
	} {
		p := asker(t)
		// Step 1 needs one pod more than the ten existing ones, and step 2 needs three.
		p.patch(t, "resourcequotas", "compute", `{"spec":{`+spec+`},"status":{"hard":{"requests.cpu":null,"pods":12}}}`)
		got := p.of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}})
		if slices.Contains(codes(got), "Error quota 2") != counts {
			t.Errorf("%s: findings %v", spec, codes(got))
		}
	}
}

// Objects that the user may not see are not read, and are reported as unknown.
func TestPlanOfOthers(t *testing.T) {
	t.Parallel()
	got := asker(t, "list resourcequotas", "list poddisruptionbudgets").of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v8"}})
	want := []string{"you need permission to list poddisruptionbudgets.policy", "you need permission to list resourcequotas"}
	if diff := cmp.Diff(want, got.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if slices.Contains(codes(got), "Warning budget 1") {
		t.Errorf("findings %+v", got.Findings)
	}
	if got = asker(t, "get deployments").of(t, rollouts.PlanSpec{}); len(got.Steps) != 0 || got.Unknown[0] != "you need permission to get deployments.apps" {
		t.Errorf("it is planned all the same: %+v", got)
	}
	_, err := asker(t, "get rollouts").Get(asked(t), "web", &metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("without permission for the Rollout: %v", err)
	}
}

// These requests ask for another size, the same template, another plan, an invalid plan, and a verb.
func TestPlanOfQuestions(t *testing.T) {
	t.Parallel()
	four := int32(4)
	got := asker(t).of(t, rollouts.PlanSpec{Replicas: &four, Images: map[string]string{"app": "web:v8"}})
	if got.Steps[1].Update != 2 || got.Steps[1].Stable != 2 {
		t.Errorf("of another size: %v", lines(got))
	}
	if got = asker(t).of(t, rollouts.PlanSpec{Images: map[string]string{"app": "web:v7"}}); !slices.Contains(codes(got), "Warning template 0") || len(got.Steps) != 0 {
		t.Errorf("of the same template: %v %v", lines(got), codes(got))
	}
	other := asker(t).rollout().Spec.DeepCopy()
	other.Strategy.Canary.TrafficRoutings = nil
	other.Strategy.Canary.Steps = other.Strategy.Canary.Steps[2:]
	got = asker(t).of(t, rollouts.PlanSpec{Rollout: other})
	if len(got.Steps) != 1 || got.Steps[0].Waves[0].Start != 3 || slices.Contains(codes(got), "Error router 1") {
		t.Errorf("of another plan: %v %v", lines(got), codes(got))
	}
	other.Strategy.Canary.Steps[0].Replicas = nil
	if got = asker(t).of(t, rollouts.PlanSpec{Rollout: other}); got.Findings[0].Code != "validation" || !strings.Contains(got.Findings[0].Message, "steps[0].replicas") {
		t.Errorf("of a wrong plan: %+v", got.Findings)
	}
	if got = asker(t).of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "promote"}}); got.Findings[0].Code != "verb" || !strings.Contains(got.Findings[0].Message, "no release is in progress") {
		t.Errorf("after a verb at rest: %+v", got.Findings)
	}
	if got = asker(t).of(t, rollouts.PlanSpec{Images: map[string]string{"other": "x"}}); !strings.Contains(got.Findings[0].Message, `no container "other"`) {
		t.Errorf("of no container: %+v", got.Findings)
	}
}

// A plan of many pods has as few waves as one of ten pods, because equal waves are merged.
func TestPlanOfManyPods(t *testing.T) {
	t.Parallel()
	got := asker(t).of(t, rollouts.PlanSpec{Replicas: new(int32(200)), Images: map[string]string{"app": "web:v8"}})
	for i, want := range []struct{ update, started int32 }{{1, 1}, {100, 99}, {200, 100}} {
		s, started := got.Steps[i], int32(0)
		for _, w := range s.Waves {
			started += w.Start * w.Times
		}
		if s.Update != want.update || started != want.started || len(s.Waves) > 4 || s.Peak > 203 || s.MinReady < 200 {
			t.Errorf("step %d: %+v", i+1, s)
		}
	}
}

// Neither the Rollout nor the workload needs to exist.
func TestPlanOfNothing(t *testing.T) {
	t.Parallel()
	p := asker(t)
	spec := p.rollout().Spec.DeepCopy()
	spec.WorkloadRef.Name, spec.Strategy.Canary.TrafficRoutings = "new", nil
	sent := runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":4,"selector":{"matchLabels":{"app":"new"}},"template":{"metadata":{"labels":{"app":"new"}},"spec":{"containers":[{"name":"app","image":"a"}]}}}}`)}
	out, err := p.Create(asked(t), "new", &rollouts.RolloutPlan{Spec: rollouts.PlanSpec{Rollout: spec, Workload: sent}}, accept, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.(*rollouts.RolloutPlan).Status; len(got.Steps) != 3 || got.Steps[2].Update != 4 {
		t.Errorf("%v %+v", lines(got), got.Findings)
	}
	if _, err := p.Create(asked(t), "new", &rollouts.RolloutPlan{}, accept, &metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("of nothing at all: %v", err)
	}
}

// underWay makes a release wait in step 1.
func underWay(p *planREST) *planREST {
	r := p.rollout()
	r.Status = rollouts.RolloutStatus{Phase: rollouts.PhaseProgressing, Canary: &rollouts.Progress{
		StableRevision: "7", UpdateRevision: "8", PodTemplateHash: "8", CurrentStepIndex: 1, NextStepIndex: 2, State: rollouts.StepPaused,
	}}
	r.Status.SetActivity(rollouts.ActivityInRolling, "m", metav1.Time{})
	return p
}

// After an approval, the plan continues at the next step. After an abort, it returns to the stable
// revision.
func TestPlanAfter(t *testing.T) {
	t.Parallel()
	under := func() *planREST { return underWay(asker(t)) }
	got := under().of(t, rollouts.PlanSpec{})
	if got.Steps[0].State != "Current" {
		t.Errorf("under way: %v", lines(got))
	}
	got = under().of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "promote"}})
	if got.Steps[0].State != "Done" || got.Steps[1].State != "Current" {
		t.Errorf("after an approval: %v", lines(got))
	}
	if done := got.Steps[0]; done.Update != 1 || done.Stable != got.Steps[2].Update-1 {
		t.Errorf("a step that is done has %d new and %d old pods: %v", done.Update, done.Stable, lines(got))
	}
	got = under().of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "abort"}})
	if len(got.Steps) != 1 || got.Steps[0].State != "Back" || got.Steps[0].Update != 0 || got.Steps[0].Then.For != "decision" {
		t.Errorf("after an abort: %v", lines(got))
	}
	got = under().of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "rollback"}})
	if len(got.Steps) != 1 || got.Steps[0].State != "Back" || got.Steps[0].Then.For != "none" {
		t.Errorf("after a rollback: %v", lines(got))
	}
	got = under().of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "abort"}, Images: map[string]string{"app": "web:v9"}})
	if len(got.Steps) != 3 || got.Steps[0].State != "Next" {
		t.Errorf("of another version after an abort: %v", lines(got))
	}
}

// A jump past an open check has a plan only with an override.
func TestPlanOfOverride(t *testing.T) {
	t.Parallel()
	for override, want := range map[bool]bool{false: true, true: false} {
		p := underWay(asker(t))
		p.rollout().Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{{SuccessRate: new("99%")}}}
		got := p.of(t, rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "jump", Step: 3, Override: override}})
		if refused := slices.Contains(codes(got), "Error verb 0"); refused != want {
			t.Errorf("override %t: findings %v", override, got.Findings)
		}
	}
}

// Every request gets a quick response of limited size.
func TestPlanOfHostiles(t *testing.T) {
	t.Parallel()
	manifest := func(spec string) rollouts.PlanSpec {
		return rollouts.PlanSpec{Workload: runtime.RawExtension{Raw: []byte(`{"spec":` + spec + `}`)}}
	}
	replan := func(change func(*rollouts.RolloutSpec)) rollouts.PlanSpec {
		spec := asker(t).rollout().Spec.DeepCopy()
		change(spec)
		return rollouts.PlanSpec{Rollout: spec}
	}
	many := manifest(`{"replicas":1000000,"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}},"template":{"spec":{"containers":[{"name":"app","image":"web:v8"}]}}}`)
	for name, tt := range map[string]struct {
		spec rollouts.PlanSpec
		code string
	}{
		"no template":   {manifest(`{"replicas":3}`), ""},
		"null":          {manifest(`null`), ""},
		"a list":        {manifest(`[]`), "Error validation 0"},
		"of a size":     {manifest(`{"replicas":"many"}`), "Error validation 0"},
		"below nothing": {rollouts.PlanSpec{Replicas: new(int32(-5))}, "Error validation 0"},
		"many pods":     {many, "Info moves 0"},
		"all the pods":  {rollouts.PlanSpec{Replicas: new(int32(math.MaxInt32))}, "Error validation 0"},
		"many steps": {replan(func(s *rollouts.RolloutSpec) {
			s.Strategy.Canary.Steps = slices.Repeat(s.Strategy.Canary.Steps, 30_000)
		}), "Error validation 0"},
		"no kind":      {replan(func(s *rollouts.RolloutSpec) { s.WorkloadRef.Kind = "Secret" }), "Error validation 0"},
		"no workload":  {replan(func(s *rollouts.RolloutSpec) { s.WorkloadRef = nil }), "Error validation 0"},
		"no strategy":  {replan(func(s *rollouts.RolloutSpec) { s.Strategy.Canary = nil }), "Error validation 0"},
		"other router": {replan(func(s *rollouts.RolloutSpec) { s.Strategy.Canary.TrafficRoutings[0].Ingress = nil }), "Error validation 0"},
		"no such step": {rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "jump", Step: -7}}, "Error verb 0"},
		"no such verb": {rollouts.PlanSpec{After: &rollouts.AfterVerb{Verb: "delete"}}, "Error verb 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := asker(t).of(t, tt.spec)
			if tt.code != "" && !slices.Contains(codes(got), tt.code) {
				t.Errorf("findings %v", got.Findings)
			}
			if len(got.Steps) > 100 || len(got.Findings) > 100 {
				t.Errorf("there are %d steps and %d findings", len(got.Steps), len(got.Findings))
			}
		})
	}
}
