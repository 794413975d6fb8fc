// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"encoding/json"
	"maps"
	"net/http"
)

// object is a JSON object.
type object = map[string]any

// change is a patch of a workload.
type change struct {
	version             string
	labels, annotations object
	// spec is part of the workload's spec, and template of its pod template.
	spec, template object
}

func (c change) body() string {
	spec := object{}
	maps.Copy(spec, c.spec)
	template := object{}
	maps.Copy(template, c.template)
	if c.version != "" {
		template["spec"] = object{"containers": []object{{"name": name, "image": image(c.version)}}}
	}
	if len(template) > 0 {
		spec["template"] = template
	}
	meta := object{}
	if c.labels != nil {
		meta["labels"] = c.labels
	}
	if c.annotations != nil {
		meta["annotations"] = c.annotations
	}
	return encode(object{"metadata": meta, "spec": spec})
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package
	}
	return string(data)
}

// path is the API path of the workload.
func (a *app) path() string {
	return "/apis/" + a.workloadRef().APIVersion + "/namespaces/" + a.namespace + "/" + resources[a.scene.kind] + "/" + a.name
}

// api is the API path of the Rollouts of a namespace.
func api(namespace string) string {
	return "/apis/rollouts.kruise.io/v1beta1/namespaces/" + namespace + "/rollouts"
}

func (a *app) api() string { return api(a.namespace) + "/" + a.name }

func patch(path, body string) request {
	return request{method: http.MethodPatch, path: path, kind: mergePatch, body: body}
}

func post(path, body string) request {
	return request{method: http.MethodPost, path: path, body: body}
}

func get(path string) request { return request{method: http.MethodGet, path: path} }

// patches sends these changes of the workload one by one.
func patches(changes ...change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, c := range changes {
			a.attackWith(u, patch(a.path(), c.body()))
		}
	}
}

// setVersion changes the version as an authorized owner.
func (a *app) setVersion(version string) {
	a.t.Helper()
	a.mustSend(testEnv.admin, patch(a.path(), change{version: version}.body()))
}

// verb sends a verb as an authorized user.
func (a *app) verb(u *user, verb, body string) answer {
	a.t.Helper()
	return a.mustSend(u, post(a.api()+"/"+verb, body))
}

// patchRollout changes the Rollout as its owner.
func (a *app) patchRollout(body string) {
	a.t.Helper()
	a.mustSend(testEnv.admin, patch(a.api(), body))
}
