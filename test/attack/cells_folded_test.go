// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/kruise"
	"github.com/weir-rollouts/weir/test/patience"
)

// Kinds of OpenKruise, whose controllers test/kruise simulates. Their CRDs preserve unknown fields.
const (
	cloneSets       = "CloneSet"
	advancedSets    = "advanced StatefulSet"
	advancedDaemons = "advanced DaemonSet"
)

var customKinds = map[string]schema.GroupVersionKind{
	cloneSets: kruise.CloneSetKind, advancedSets: kruise.StatefulSetKind, advancedDaemons: kruise.DaemonSetKind,
}

// startKruise installs these kinds and simulates their controllers until the context ends.
func startKruise(ctx context.Context) error {
	definitions, err := cluster.Decode(bytes.NewReader(kruise.Definitions))
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if err := testEnv.client.Create(ctx, d); err != nil {
			return fmt.Errorf("defining %s: %w", d.GetName(), err)
		}
	}
	for _, kind := range customKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		served := func(ctx context.Context) error { return testEnv.client.List(ctx, list) }
		if err := patience.Until(ctx, kind.Kind+" is served", served); err != nil {
			return err
		}
	}
	return kruise.Start(ctx, testEnv.cluster.Config())
}

// workloadRef is the reference of the Rollout to the workload.
func (a *app) workloadRef() v1beta1.ObjectRef {
	ref := v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: a.scene.kind, Name: a.name}
	if kind, custom := customKinds[a.scene.kind]; custom {
		ref.APIVersion, ref.Kind = kind.GroupVersion().String(), kind.Kind
	}
	return ref
}

func (a *app) customWorkload(version string) client.Object {
	o := &unstructured.Unstructured{Object: object{"spec": object{
		"selector": object{"matchLabels": object{"app": a.name}}, "template": a.customTemplate(version),
		"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"partition": int64(0), "maxUnavailable": int64(1)}},
	}}}
	spec := o.Object["spec"].(object)
	if a.scene.kind != advancedDaemons { // three pods, because there are three nodes
		spec["replicas"] = int64(3)
	}
	if a.scene.kind == cloneSets {
		spec["updateStrategy"] = object{"type": "ReCreate", "maxUnavailable": int64(1)}
	}
	o.SetGroupVersionKind(customKinds[a.scene.kind])
	o.SetName(a.name)
	o.SetLabels(a.labels())
	return o
}

func (a *app) customTemplate(version string) object {
	return object{
		"metadata": object{"labels": object{"app": a.name}},
		"spec": object{
			"terminationGracePeriodSeconds": int64(1),
			"containers":                    []any{object{"name": name, "image": image(version)}},
		},
	}
}

func (a *app) liveCustom(ctx context.Context) (client.Object, corev1.PodTemplateSpec, error) {
	o, template := &unstructured.Unstructured{}, corev1.PodTemplateSpec{}
	o.SetGroupVersionKind(customKinds[a.scene.kind])
	if err := testEnv.client.Get(ctx, a.key(a.name), o); err != nil {
		return o, template, err
	}
	tree, _, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &template)
	}
	return o, template, err
}

// foldedCells hide another template in JSON keys that differ in case only, and change unknown
// fields of the template.
var foldedCells = func() []cell {
	folds := func(spec, template func(*app) object, container object) func(*app, *user) {
		return func(a *app, u *user) {
			a.t.Helper()
			c := object{"name": name, "image": image("v2")}
			maps.Copy(c, container)
			body := object{"template": object{"spec": object{"containers": []any{c}}}}
			if template != nil {
				maps.Copy(body["template"].(object), template(a))
			}
			if spec != nil {
				maps.Copy(body, spec(a))
			}
			a.attackWith(u, patch(a.path(), encode(object{"spec": body})))
		}
	}
	old := func(a *app) object { return a.customTemplate("v1") }
	foldedTemplate := func(a *app) object { return object{"templatE": old(a), "TEMPLATE": old(a)} }
	foldedSpec := func(a *app) object { return object{"ſpec": old(a)["spec"], "Spec": old(a)["spec"]} }
	unknown := func(a *app, u *user) {
		a.t.Helper()
		a.attackWith(u, patch(a.path(), encode(object{"spec": object{"template": object{"spec": object{"fromTheFuture": object{"n": 1}}}}})))
	}
	var cells []cell
	for _, kind := range []string{cloneSets, advancedSets, advancedDaemons} {
		add := func(how string, do func(*app, *user)) {
			cells = append(cells, cell{who: patcher, what: ship, how: how + ", " + kind, scenario: scenario{kind: kind}, attack: do, expect: gateHolds})
		}
		add("hides a template in a key with another case", folds(foldedTemplate, nil, nil))
		add("hides a pod spec in a key with another case", folds(nil, foldedSpec, nil))
		add("hides an image in a key with another case", folds(nil, nil, object{"imagE": image("v1")}))
		add("writes a key with another case first", func(a *app, u *user) {
			a.t.Helper()
			a.attackWith(u, patch(a.path(), encode(object{"spec": foldedTemplate(a)})))
			a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
		})
		add("changes an unknown field", func(a *app, u *user) {
			a.t.Helper()
			unknown(a, u)
			a.eventually("the field is held or restored", a.isIdle)
			a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
		})
	}
	return append(cells,
		cell{who: patcher, what: blockAbort, how: "has thousands of annotations", admission: true, attack: func(a *app, u *user) {
			a.t.Helper()
			all := object{}
			for i := range 12_000 {
				all[fmt.Sprintf("a%d", i)] = ""
			}
			a.attackWith(u, patch(a.path(), encode(object{"metadata": object{"annotations": all}})))
			a.attackWith(u, patch(a.path(), encode(object{"metadata": object{"labels": all}})))
			a.attackWith(u, patch(a.path()+"/status", encode(object{"metadata": object{"annotations": all}})))
		}, expect: func(a *app) {
			a.t.Helper()
			a.answered(http.StatusUnprocessableEntity)
			for _, got := range a.answers {
				if !strings.Contains(got.body, "must not have more than 512 keys") || !strings.Contains(got.body, "remove some") {
					a.t.Errorf("got %s; want the name of the field and how to correct it", got)
				}
			}
			isDenied(a)
		}},
	)
}()
