// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apiserver"
)

// argo is what Argo CD reads of its ConfigMap.
type argo struct {
	health  string
	actions struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string
			Action string `json:"action.lua"`
		}
	}
}

func argoOf(t *testing.T) (a argo) {
	t.Helper()
	text, err := os.ReadFile("argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cm struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(text, &cm); err != nil {
		t.Fatal(err)
	}
	const customizations = "resource.customizations."
	a.health = cm.Data[customizations+"health.rollouts.kruise.io_Rollout"]
	if err := yaml.Unmarshal([]byte(cm.Data[customizations+"actions.rollouts.kruise.io_Rollout"]), &a.actions); err != nil {
		t.Fatal(err)
	}
	return a
}

// runLua runs a script as Argo CD does: on a copy of the object, and with gopher-lua.
func runLua(t *testing.T, script, object string) any {
	t.Helper()
	var value map[string]any
	if err := yaml.Unmarshal([]byte(object), &value); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", toLua(state, value))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	return fromLua(state.Get(-1))
}

func toLua(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, inner := range v {
			table.RawSetString(key, toLua(l, inner))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, inner := range v {
			table.Append(toLua(l, inner))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case *lua.LTable:
		out := map[string]any{}
		v.ForEach(func(key, inner lua.LValue) { out[key.String()] = fromLua(inner) })
		return out
	case lua.LBool:
		return bool(v)
	}
	return v.String()
}

const (
	waits     = "metadata: {name: web}\nstatus: {phase: Progressing, message: waits, canaryStatus: {currentStepIndex: 2, currentStepState: StepPaused, canaryRevision: v2}}"
	blueGreen = "metadata: {name: web}\nstatus: {phase: Progressing, blueGreenStatus: {currentStepIndex: 1, currentStepState: StepUpgrade, updatedRevision: v2}}"
	paused    = "metadata: {name: web}\nstatus: {phase: Progressing, canaryStatus: {currentStepIndex: 2, currentStepState: StepUpgrade, canaryRevision: v2, paused: true}, conditions: [{type: Progressing, status: \"True\", reason: Paused}]}"
	aborted   = "metadata: {name: web}\nstatus: {phase: Progressing, canaryStatus: {currentStepIndex: 2, canaryRevision: v2}, conditions: [{type: Stalled, status: \"True\", reason: Aborted, message: aborted}]}"
	failing   = "metadata: {name: web}\nstatus: {phase: Progressing, canaryStatus: {currentStepIndex: 2, currentStepState: StepUpgrade, canaryRevision: v2}, conditions: [{type: Failing, status: \"True\", reason: Crashing, message: crashes}]}"
	healthy   = "metadata: {name: web}\nstatus: {phase: Healthy, canaryStatus: {currentStepIndex: 3}}"
)

// Argo CD says of a Rollout what Weir says, and offers what is possible.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	a := argoOf(t)
	for name, tc := range map[string]struct {
		object, health string
		offered        []string
	}{
		"no status":        {"metadata: {name: web}", "Progressing", nil},
		"not looked at":    {"metadata: {name: web}\nstatus: {phase: \"\"}", "Progressing", nil},
		"at rest":          {healthy, "Healthy", nil},
		"disabled":         {"metadata: {name: web}\nstatus: {phase: Disabled}", "Healthy", nil},
		"is being deleted": {"metadata: {name: web, deletionTimestamp: x}\nstatus: {phase: Terminating}", "Progressing", nil},
		"waits":            {waits, "Suspended", []string{"abort", "pause", "promote", "promote-full", "rollback"}},
		"blue-green moves": {blueGreen, "Progressing", []string{"abort", "pause", "promote-full", "rollback"}},
		"paused":           {paused, "Suspended", []string{"abort", "resume", "rollback"}},
		"fails":            {failing, "Degraded", []string{"abort", "pause", "promote-full", "rollback"}},
		"aborted":          {aborted, "Degraded", []string{"retry", "rollback"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := runLua(t, a.health, tc.object).(map[string]any)["status"]; got != tc.health {
				t.Errorf("health is %v, want %v", got, tc.health)
			}
			var offered []string
			for action, is := range runLua(t, a.actions.Discovery, tc.object).(map[string]any) {
				if is.(map[string]any)["disabled"] == false {
					offered = append(offered, action)
				}
			}
			slices.Sort(offered)
			if diff := gocmp.Diff(tc.offered, offered); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// An action sets the annotation that the server knows, and changes nothing else.
func TestArgoCDActions(t *testing.T) {
	t.Parallel()
	a := argoOf(t)
	want := map[string]string{
		"promote": `^promote v2 2 @\d+$`, "promote-full": `^promote v2 full @\d+$`, "abort": `^abort v2 @\d+$`, "rollback": `^rollback v2 @\d+$`,
		"retry": `^retry v2 @\d+$`, "pause": `^pause v2 @\d+$`, "resume": `^resume v2 @\d+$`,
	}
	offered := runLua(t, a.actions.Discovery, waits).(map[string]any)
	for _, action := range a.actions.Definitions {
		if _, ok := offered[action.Name]; !ok {
			t.Errorf("%s is never offered", action.Name)
		}
		got := runLua(t, action.Action, waits).(map[string]any)
		metadata := got["metadata"].(map[string]any)
		text := metadata["annotations"].(map[string]any)["rollouts.kruise.io/decide"].(string)
		if !regexp.MustCompile(want[action.Name]).MatchString(text) {
			t.Errorf("%s sets %q, want %s", action.Name, text, want[action.Name])
		}
		delete(want, action.Name)
		delete(metadata, "annotations")
		if diff := gocmp.Diff(runLua(t, "return obj", waits), any(got)); diff != "" {
			t.Errorf("%s changes (-before +after):\n%s", action.Name, diff)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no action %v", slices.Sorted(maps.Keys(want)))
	}
}

// The exclusions of Argo CD name kinds that Weir serves, and not the kind that users keep in git.
func TestArgoCDExclusions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("argocd/argocd-cm-exclusions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cm struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(text, &cm); err != nil {
		t.Fatal(err)
	}
	var exclusions []struct {
		APIGroups []string `json:"apiGroups"`
		Kinds     []string `json:"kinds"`
		Clusters  []string `json:"clusters"`
	}
	if err := yaml.UnmarshalStrict([]byte(cm.Data["resource.exclusions"]), &exclusions); err != nil {
		t.Fatal(err)
	}
	scheme := apiserver.NewScheme()
	for _, e := range exclusions {
		for _, group := range e.APIGroups {
			for _, kind := range e.Kinds {
				if kind == "Rollout" || !slices.ContainsFunc(scheme.PrioritizedVersionsForGroup(group), func(v schema.GroupVersion) bool { return scheme.Recognizes(v.WithKind(kind)) }) {
					t.Errorf("%s/%s must not be excluded, or does not exist", group, kind)
				}
			}
		}
	}
	if len(exclusions) == 0 {
		t.Error("nothing is excluded")
	}
}
