// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// begins moves the ordinals of a StatefulSet.
func begins(at int) object { return object{"ordinals": object{"start": at}} }

// ordinalCells have the pods of a StatefulSet become others.
var ordinalCells = []cell{
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{spec: begins(1)}, change{spec: begins(2)}), expect: ordinalsKept},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet with another template", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{spec: begins(1), version: "v3"}), expect: ordinalsKept},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet after another template", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{version: "v3"}, change{spec: begins(1)}), expect: ordinalsKept},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet together with a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{version: "v2", spec: begins(1)}), expect: gated},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet before a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{spec: begins(1)}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet after a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{version: "v2"}, change{spec: begins(1)}), expect: gated},
	{who: patcher, what: undoAbort, how: "moves the ordinals of an aborted StatefulSet", doors: true, on: scene{kind: statefulSets, at: aborted},
		do: patches(change{spec: begins(1)}, change{spec: begins(3)}), expect: ordinalsKept},
}

// ordinalsKept wants the pods to be called as before.
func ordinalsKept(a *app) {
	a.t.Helper()
	o, _, err := a.live(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if s := o.(*appsv1.StatefulSet); s.Spec.Ordinals != nil {
		a.t.Errorf("its ordinals begin at %d", s.Spec.Ordinals.Start)
	}
	gated(a)
}

// refusalCells ask for what cannot be while blue-green refuses a third template.
var refusalCells = []cell{
	{who: manager, what: skip, how: "goes on while another template is refused", on: scene{green: true, at: midway}, do: goesOnRefused, expect: stillWaits},
	{who: promoter, what: skip, how: "promotes while another template is refused", long: true, on: scene{green: true, at: midway}, do: promotesRefused, expect: stillWaits},
	{who: manager, what: skip, how: "goes on while another template is refused and routed", long: true, on: scene{green: true, routed: true, at: midway},
		do: goesOnRefused, expect: stillWaits},
}

func promotesRefused(a *app, u *user) {
	a.t.Helper()
	a.ships("v3")
	a.until("the Rollout refuses the template", a.stalls("RevisionRefused"))
	for _, body := range words("", `{"full":true}`, `{"expect":{"step":1}}`) {
		a.tries(u, post(a.api()+"/promote", body))
	}
}

func goesOnRefused(a *app, u *user) {
	a.t.Helper()
	promotesRefused(a, u)
	for _, body := range words(`{"step":1}`, `{"step":2}`, `{"step":3}`) {
		a.tries(u, post(a.api()+"/jump", body))
	}
	a.tries(u, post(a.api()+"/retry", ""))
}

// stillWaits wants each verb to say that the template is in the way, and the release to be
// as before when that is taken back.
func stillWaits(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	for _, got := range a.answers {
		if !strings.Contains(got.body, "template") {
			a.t.Errorf("%s does not say why", got)
		}
	}
	a.atMost(0, "v3")
	a.ships("v2")
	a.until("step 1 waits", func(ctx context.Context) error {
		if err := a.stalls("RevisionRefused")(ctx); err == nil {
			return errors.New("the template is refused still")
		}
		return a.waitsAt(1)(ctx)
	})
	a.same()
	finished(a)
	a.goesOn()
}
