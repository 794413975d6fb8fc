// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const (
	configuration = "kruise-rollout-configuration"
	class         = "attack"
	scriptKey     = "lua.traffic.routing.ingress." + class
)

var sandboxCells = []cell{
	{who: scripter, what: learn, how: "scripts that read files, run commands or never end", scenario: scenario{withTraffic: true, customizeRollout: func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.TrafficRoutings[0].Ingress.ClassType = new(class)
	}}, attack: runsBadScripts, expect: scriptsHaveNoEffect},
}

// escapingScripts try to leave the sandbox, or to exhaust it.
var escapingScripts = words(
	`local f = io.open("/etc/passwd") obj.annotations["stolen"] = f:read("*a") return obj.annotations`,
	`for line in io.lines("/proc/self/environ") do error(line) end`,
	`error(os.getenv("PATH"), 0)`,
	`os.execute("touch /tmp/weir-was-here") return obj.annotations`,
	`local s = require("socket") return obj.annotations`,
	`loadfile("/etc/passwd")() return obj.annotations`,
	`debug.getregistry() return obj.annotations`,
	`while true do end`,
	`local t = {} while true do t[#t + 1] = string.rep("x", 100000) end`,
	`local s = "x" for i = 1, 40 do s = s .. s end return obj.annotations`,
	`local function f() return f() + 1 end return f()`,
	`local s = string.rep("a", 30000) return string.find(s, string.rep("a?", 3000) .. string.rep("a", 3000))`,
	`error("\27[31m\r\nall is well\226\128\174")`,
)

// runsBadScripts runs each of the scripts in a release, and corrects the script at the end.
func runsBadScripts(a *app, u *user) {
	a.t.Helper()
	space := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configuration, Namespace: system}}
	if err := client.IgnoreAlreadyExists(testEnv.client.Create(a.t.Context(), space)); err != nil {
		a.t.Fatal(err)
	}
	path := "/api/v1/namespaces/" + system + "/configmaps/" + configuration
	set := func(script string) { a.attackWith(u, patch(path, encode(object{"data": object{scriptKey: script}}))) }
	var told []string
	says := func(word string, want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && (strings.Contains(r.Status.Message, word) != want || !strings.Contains(r.Status.Message, scriptKey)) {
				return errors.New("the Rollout is " + describe(r))
			}
			told = append(told, r.Status.Message)
			return err
		}
	}
	for i, script := range escapingScripts {
		// A script with a unique error runs before each of them, because two scripts may fail with the same error.
		before := fmt.Sprintf("the one before %d", i)
		set(`error("` + before + `", 0)`)
		if i == 0 {
			a.setVersion("v2")
		}
		a.eventually(before+" has failed", says(before, true))
		set(script)
		a.eventually(fmt.Sprintf("the script %q has failed", script), says(before, false))
	}
	set(`obj.annotations["share"] = obj.weight return obj.annotations`)
	a.scriptOutput = strings.Join(told, " | ")
}

// scriptsHaveNoEffect expects that no script has read or done anything outside of the sandbox, and
// that the release continues.
func scriptsHaveNoEffect(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	var list networkingv1.IngressList
	if err := testEnv.client.List(a.t.Context(), &list, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range list.Items {
		a.scriptOutput += fmt.Sprint(list.Items[i].Annotations)
	}
	for _, secret := range words("root:", os.Getenv("PATH"), "stolen") {
		if strings.Contains(a.scriptOutput, secret) {
			a.t.Errorf("the output contains %q: %s", secret, a.scriptOutput)
		}
	}
	if strings.ContainsFunc(a.scriptOutput, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
		a.t.Errorf("the output contains control characters: %q", a.scriptOutput)
	}
	if _, err := os.Stat("/tmp/weir-was-here"); err == nil {
		a.t.Error("a script has run a command")
	}
	a.atMost(1, "v2")
	a.checkNextRelease()
}
