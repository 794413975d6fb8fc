// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const applyType = "application/apply-patch+yaml"

// canaryWith returns a Rollout with the given canary strategy, in JSON.
func canaryWith(name, canary string) string {
	return fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":%q},`+
		`"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%q},"strategy":{"canary":%s}}}`, name, name, canary)
}

// A value of a wrong type is answered with its field, its step and the form that is right, whatever the request is.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "stored", "stored")
	for name, tt := range map[string]struct{ canary, says string }{
		"a duration": {`{"steps":[{"replicas":1},{"replicas":"100%","pause":{"duration":"10m"}}]}`,
			`spec.strategy.canary.steps[1].pause.duration: Invalid value: "10m": step 2: write a whole number of seconds, without quotes: 600`},
		"a pause that is a time": {`{"steps":[{"replicas":1,"pause":"10m"}]}`,
			`spec.strategy.canary.steps[0].pause: Invalid value: "10m": step 1: write {duration: 600}, in seconds`},
		"traffic as a number": {`{"steps":[{"replicas":1,"traffic":20}]}`,
			`spec.strategy.canary.steps[0].traffic: Invalid value: 20: step 1: write a text in quotes: "20%"`},
		"a share of one": {`{"analysis":{"checks":[{"successRate":0.995}]},"steps":[{"replicas":1}]}`,
			`spec.strategy.canary.analysis.checks[0].successRate: Invalid value: 0.995: write a text in quotes: "99.5%"`},
		"a rate as a number": {`{"analysis":{"checks":[{"successRate":99}]},"steps":[{"replicas":1}]}`,
			`spec.strategy.canary.analysis.checks[0].successRate: Invalid value: 99: write a text in quotes: "99%"`},
		"a header that YAML reads as a truth value": {`{"steps":[{"replicas":1,"matches":[{"headers":[{"name":"x","value":true}]}]}]}`,
			`spec.strategy.canary.steps[0].matches[0].headers[0].value: Invalid value: true: step 1: write a text in quotes, such as "true"; without quotes, YAML reads yes and true as a truth value`},
		"a part of the pods": {`{"steps":[{"replicas":0.2}]}`,
			`spec.strategy.canary.steps[0].replicas: Invalid value: 0.2: step 1: write a whole number, or a percentage in quotes: "20%"`},
		"a step that is no list": {`{"steps":{"replicas":1}}`, `spec.strategy.canary.steps: Invalid value: "an object": write a list; in YAML each entry begins with "- "`},
		"a switch in quotes":     {`{"enableExtraWorkloadForCanary":"yes","steps":[{"replicas":1}]}`, `spec.strategy.canary.enableExtraWorkloadForCanary: Invalid value: "yes": write true, without quotes`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := canaryWith("made", tt.canary)
			stored := canaryWith("stored", tt.canary)
			part := fmt.Sprintf(`{"spec":{"strategy":{"canary":%s}}}`, tt.canary)
			one := one(v1beta1Path, ns, "stored")
			for how, r := range map[string]request{
				"create":    {method: "POST", path: list(v1beta1Path, ns), body: made},
				"strict":    {method: "POST", path: list(v1beta1Path, ns) + "?fieldValidation=Strict", body: made},
				"update":    {method: "PUT", path: one, body: stored},
				"merge":     {method: "PATCH", path: one, body: part, headers: typed("application/merge-patch+json")},
				"strategic": {method: "PATCH", path: one, body: part, headers: typed("application/strategic-merge-patch+json")},
				"JSON patch": {method: "PATCH", path: one, headers: typed("application/json-patch+json"),
					body: fmt.Sprintf(`[{"op":"replace","path":"/spec/strategy/canary","value":%s}]`, tt.canary)},
				"apply": {method: "PATCH", path: one + "?fieldManager=test&force=true", body: stored, headers: typed(applyType)},
			} {
				r.as = alice
				a := call(t, r)
				if m := a.status().Message; a.code != http.StatusBadRequest || m != tt.says {
					t.Errorf("%s is answered with %d %q\nwant %q", how, a.code, m, tt.says)
				}
			}
		})
	}
}

// A JSON patch of one value, and the older version, name the field as the user wrote it.
func TestWrongTypesElsewhere(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	jsonPatch := func(body string) request {
		return request{method: "PATCH", path: one(v1beta1Path, ns, "web"), body: body, headers: typed("application/json-patch+json")}
	}
	for name, tt := range map[string]struct {
		r    request
		says string
	}{
		"a value": {jsonPatch(`[{"op":"add","path":"/spec/strategy/canary/steps/1/traffic","value":50}]`),
			`spec.strategy.canary.steps[1].traffic: Invalid value: 50: step 2: write a text in quotes: "50%"`},
		"a label": {jsonPatch(`[{"op":"add","path":"/metadata/labels","value":{"a/b":1}}]`),
			`metadata.labels[a/b]: Invalid value: 1: write a text in quotes: "1"`},
		"a weight": {request{method: "PATCH", path: one(v1alpha1Path, ns, "web"), headers: typed("application/merge-patch+json"),
			body: `{"spec":{"strategy":{"canary":{"steps":[{"weight":"20%"}]}}}}`},
			`spec.strategy.canary.steps[0].weight: Invalid value: "20%": step 1: write a whole number, without quotes: 20`},
		"the step of a jump": {request{method: "POST", path: one(v1beta1Path, ns, "web") + "/jump", body: `{"step":"2"}`},
			`step: Invalid value: "2": write a whole number, without quotes: 2`},
		"many": {request{method: "PATCH", path: one(v1beta1Path, ns, "web"), headers: typed("application/merge-patch+json"),
			body: `{"spec":{"strategy":{"canary":{"steps":[{"traffic":20},{"traffic":50}]}}}}`}, `steps[1].traffic: Invalid value: 50: step 2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.r.as = alice
			a := call(t, tt.r)
			if m := a.status().Message; a.code != http.StatusBadRequest || !strings.Contains(m, tt.says) {
				t.Errorf("answered with %d %q\nwant %q in it", a.code, m, tt.says)
			}
		})
	}
}

// An unknown field is answered with the field that the user may have meant: as an error to strict clients and to an
// apply, and else as a warning.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "stored", "stored")
	for name, tt := range map[string]struct{ canary, says string }{
		"one letter less": {`{"steps":[{"replica":1,"replicas":1}]}`, `unknown field "spec.strategy.canary.steps[0].replica": did you mean "replicas"?`},
		"another tool's":  {`{"steps":[{"replicas":1,"setWeight":20}]}`, `unknown field "spec.strategy.canary.steps[0].setWeight": did you mean "traffic"?`},
		"in a list": {`{"steps":[{"replicas":1}],"trafficRoutings":[{"service":"web","ingres":{"name":"web"},"ingress":{"name":"web"}}]}`,
			`unknown field "spec.strategy.canary.trafficRoutings[0].ingres": did you mean "ingress"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, stored, one := canaryWith("made", tt.canary), canaryWith("stored", tt.canary), one(v1beta1Path, ns, "stored")
			part := fmt.Sprintf(`{"spec":{"strategy":{"canary":%s}}}`, tt.canary)
			for how, tc := range map[string]struct {
				r    request
				code int
			}{
				"create":       {request{method: "POST", path: list(v1beta1Path, ns) + "?fieldValidation=Strict", body: made}, http.StatusBadRequest},
				"update":       {request{method: "PUT", path: one + "?fieldValidation=Strict", body: stored}, http.StatusBadRequest},
				"patch":        {request{method: "PATCH", path: one + "?fieldValidation=Strict", body: part, headers: typed("application/merge-patch+json")}, http.StatusUnprocessableEntity},
				"apply":        {request{method: "PATCH", path: one + "?fieldManager=test&force=true", body: stored, headers: typed(applyType)}, http.StatusBadRequest},
				"strict apply": {request{method: "PATCH", path: one + "?fieldManager=test&force=true&fieldValidation=Strict", body: stored, headers: typed(applyType)}, http.StatusBadRequest},
			} {
				tc.r.as = alice
				a := call(t, tc.r)
				if m := a.status().Message; a.code != tc.code || !strings.Contains(m, tt.says) {
					t.Errorf("%s is answered with %d %q\nwant %q in it", how, a.code, m, tt.says)
				}
			}
			dry := call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns) + "?dryRun=All", body: made}).must(t, http.StatusCreated)
			if all := strings.ReplaceAll(strings.Join(dry.warnings, "\n"), `\"`, `"`); !strings.Contains(all, tt.says) {
				t.Errorf("the warnings are %q\nwant %q in them", all, tt.says)
			}
		})
	}
	none := call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns) + "?fieldValidation=Strict", body: canaryWith("made", `{"steps":[{"replicas":1,"experiment":{}}]}`)}).must(t, http.StatusBadRequest)
	if m := none.status().Message; !strings.Contains(m, `the fields here are matches, pause, replicas, requestHeaderModifier, traffic`) {
		t.Errorf("answered with %q, want the fields of a step in it", m)
	}
}
