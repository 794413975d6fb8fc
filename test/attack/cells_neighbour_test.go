// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

var neighbourCells = []cell{
	{who: neighbour, what: slow, how: "16 Rollouts with 8,000 references to unknown kinds", exclusive: true, attack: fillsReferences, expect: releaseIsNotDelayed},
	{who: neighbour, what: slow, how: "objects of more than half a MiB", attack: fillsObjects, expect: releaseIsNotDelayed},
	{who: neighbour, what: learn, how: "reads, lists and watches objects of another namespace", scenario: scenario{at: released}, attack: readsOthers, expect: func(a *app) {
		a.answered(http.StatusForbidden)
		a.checkUnchanged()
	}},
	{who: neighbour, what: learn, how: "references objects of another namespace", scenario: scenario{withTraffic: true, at: atStep1}, attack: referencesOthers, expect: othersAreUntouched},
	{who: neighbour, what: skip, how: "every verb", scenario: scenario{at: atStep1}, attack: everyVerbBut(), expect: isForbidden},
	{who: neighbour, what: crash, how: "writes extreme numbers and texts", attack: writesExtremes, expect: func(a *app) {
		a.answered(append([]int{http.StatusBadRequest}, refusedOrNeutralized...)...)
		a.checkNextRelease()
	}},
	{who: patcher, what: crash, how: "writes records that are not JSON", admission: true, scenario: scenario{at: atStep1}, attack: writesGarbage, expect: gateHolds},
	{who: patcher, what: crash, how: "writes records that are not JSON, without a release", admission: true, attack: writesGarbage, expect: gateHolds},
}

// rolloutJSON is a Rollout in the attacker's namespace.
func rolloutJSON(name string, strategy object) string {
	return encode(object{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": object{"name": name},
		"spec": object{"workloadRef": object{"apiVersion": "apps/v1", "kind": deployments, "name": name}, "strategy": object{"canary": strategy}},
	})
}

func fillsReferences(a *app, u *user) {
	a.t.Helper()
	for i := range 16 {
		refs := make([]object, 8000)
		for n := range refs {
			refs[n] = object{"apiVersion": fmt.Sprintf("g%d.example.com/v1", i*8000+n), "kind": fmt.Sprintf("K%d", n), "name": "x"}
		}
		name := fmt.Sprintf("many-%d", i)
		got := a.attackWith(u, post(api(a.otherNamespace()), rolloutJSON(name, object{
			"steps": []object{{"replicas": 1, "traffic": "20%"}}, "trafficRoutings": []object{{"service": "web", "customNetworkRefs": refs}},
		})))
		if got.code == http.StatusCreated {
			return // one answer is enough, and all requests would disturb other cells
		}
	}
}

func fillsObjects(a *app, u *user) {
	a.t.Helper()
	for i := range 4 {
		steps := make([]object, 40)
		for n := range steps {
			var matches []object
			for m := range 16 {
				matches = append(matches, object{"headers": []object{{"name": fmt.Sprintf("h%d", m), "value": strings.Repeat("x", 2000)}}})
			}
			steps[n] = object{"replicas": n + 1, "matches": matches}
		}
		a.attackWith(u, post(api(a.otherNamespace()), rolloutJSON(fmt.Sprintf("large-%d", i), object{
			"steps": steps, "trafficRoutings": []object{{"service": "web", "ingress": object{"name": "web"}}},
		})))
	}
}

// releaseIsNotDelayed expects that oversized writes in another namespace are refused, and that a
// release continues meanwhile.
func releaseIsNotDelayed(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge)
	a.setVersion("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNextRelease()
}

func readsOthers(a *app, u *user) {
	a.t.Helper()
	ours := "/apis/rollouts.kruise.io/v1beta1/namespaces/" + a.namespace
	old := strings.Replace(ours, "v1beta1", "v1alpha1", 1)
	for _, path := range words(
		a.api(), a.api()+"/status", api(a.namespace), api(a.namespace)+"?watch=true", ours+"/batchreleases", ours+"/batchreleases/web",
		old+"/rollouts/web", old+"/rollouthistories", old+"/trafficroutings", "/apis/rollouts.kruise.io/v1beta1/rollouts",
		"/apis/rollouts.kruise.io/v1beta1/rollouts?watch=true", "/apis/rollouts.kruise.io/v1alpha1/rollouthistories", a.path(),
		"/api/v1/namespaces/"+system+"/secrets", "/api/v1/namespaces/"+a.namespace+"/configmaps/rollouts-index",
	) {
		a.attackWith(u, get(path))
	}
	a.attackWith(u, patch(a.api(), `{"spec":{"disabled":true}}`))
	a.attackWith(u, request{method: http.MethodDelete, path: a.api()})
}

// referencesOthers creates Rollouts with names of the other namespace, and with paths to objects in
// it.
func referencesOthers(a *app, u *user) {
	a.t.Helper()
	routed := func(service string) object {
		return object{
			"steps":           []object{{"replicas": 1, "traffic": "100%"}, {"replicas": "100%"}},
			"trafficRoutings": []object{{"service": service, "ingress": object{"name": service}}},
		}
	}
	a.attackWith(u, post(api(a.otherNamespace()), rolloutJSON("web", routed("web"))))
	for _, service := range words("../"+a.namespace+"/web", a.namespace+"/web", "web."+a.namespace, "..%2f"+a.namespace+"%2fweb") {
		a.attackWith(u, post(api(a.otherNamespace()), rolloutJSON("other", routed(service))))
	}
}

// othersAreUntouched expects that the other namespace is not changed, and that no answer contains
// its data.
func othersAreUntouched(a *app) {
	a.t.Helper()
	a.answered(http.StatusCreated, http.StatusUnprocessableEntity, http.StatusBadRequest)
	told := strings.Join(a.answers[0].warnings, " ")
	if strings.Contains(told, `"`+a.namespace+`\"`) || strings.Contains(told, a.namespace+"/") {
		a.t.Errorf("an answer contains data of another namespace: %q", told)
	}
	a.checkUnchanged()
	a.checkNextRelease()
}

func writesExtremes(a *app, u *user) {
	a.t.Helper()
	step := object{"replicas": math.MaxInt32, "pause": object{"duration": math.MaxInt32}}
	for i, strategy := range []object{
		{"steps": []object{step}}, {"steps": []object{{"replicas": -1}}}, {"steps": []object{{"replicas": "999999999999999999999%"}}},
		{"steps": []object{{"replicas": "-1%"}}}, {"steps": []object{{"replicas": 1, "traffic": "18446744073709551616%"}}},
		{"steps": []object{{"replicas": 1, "pause": object{"duration": math.MinInt32}}}}, {"steps": []object{}}, {},
		{"steps": []object{step}, "failureThreshold": "1000000%"}, {"steps": []object{step}, "progressDeadlineSeconds": math.MinInt32},
	} {
		a.attackWith(u, post(api(a.otherNamespace()), rolloutJSON(fmt.Sprintf("end-%d", i), strategy)))
	}
	a.attackWith(u, post(api(a.otherNamespace()), strings.Repeat(`{"metadata":`, 9000)+`1`+strings.Repeat("}", 9000)))
}

func writesGarbage(a *app, u *user) {
	a.t.Helper()
	for _, text := range words("{", `{"partition":{}}`, `{"partition":-2147483648,"rollingUpdate":{"maxSurge":-1}}`, strings.Repeat("[", 50000), "\x00null") {
		garbage := object{inProgress: text, controlInfo: text, strategyAnnotation: text, originalStrategyAnnotation: text, wantedSpec: text, extraStatus: text}
		a.attackWith(u, patch(a.path(), change{annotations: garbage}.body()))
		a.attackWith(u, patch(a.path()+"/status", change{annotations: garbage}.body()))
	}
	a.attackWith(u, patch(a.path(), change{version: "v3"}.body()))
}

var informerCells = []cell{
	{who: editor, what: slow, how: "references to kinds with many objects", exclusive: true, scenario: scenario{withTraffic: true}, attack: referencesManyKinds, expect: noNewWatches},
}

// manyKinds are kinds that cannot be routers.
var manyKinds = map[string]object{
	"pods":                      {"apiVersion": "v1", "kind": "Pod", "name": "web"},
	"replicasets":               {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
	"customresourcedefinitions": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "web.example.com"},
	"secrets":                   {"apiVersion": "v1", "kind": "Secret", "name": "web"},
	"endpointslices":            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "name": "web"},
}

func referencesManyKinds(a *app, u *user) {
	a.t.Helper()
	a.watches = a.listsByKind()
	for _, ref := range manyKinds {
		refs := []object{{"service": "web", "gracePeriodSeconds": 1, "customNetworkRefs": []object{ref}}}
		a.attackWith(u, patch(a.api(), encode(object{"spec": object{"strategy": object{"canary": object{"trafficRoutings": refs}}}})))
	}
}

// noNewWatches expects that these kinds are refused, and that weir-controller neither lists nor
// watches them.
func noNewWatches(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnprocessableEntity)
	a.checkNextRelease()
	if diff := cmp.Diff(a.watches, a.listsByKind()); diff != "" {
		a.t.Errorf("weir-controller started to list or watch a kind (-before +now):\n%s", diff)
	}
}

// listsByKind counts how often weir-controller has requested all objects of a kind according to the
// audit log: with a list, or with a watch that begins with one.
func (a *app) listsByKind() map[string]int {
	a.t.Helper()
	files, err := filepath.Glob(filepath.Join(testEnv.cluster.Dir(), "audit*.log"))
	if err != nil {
		a.t.Fatal(err)
	}
	times, seen := map[string]int{}, map[types.UID]bool{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			a.t.Fatal(err)
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var e auditv1.Event
			if json.Unmarshal(lines.Bytes(), &e) != nil || e.ObjectRef == nil || e.ObjectRef.Namespace != "" || !strings.HasSuffix(e.User.Username, ":weir-controller") {
				continue // the last line may be incomplete
			}
			all := e.Verb == "list" || e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true")
			// The audit log has two entries for a watch: when it starts and when it ends.
			if _, counts := manyKinds[e.ObjectRef.Resource]; counts && all && !seen[e.AuditID] {
				seen[e.AuditID] = true
				times[e.ObjectRef.Resource]++
			}
		}
	}
	return times
}
