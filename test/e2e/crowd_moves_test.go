// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && soak

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// move does one thing that a user may do at any time, whether it is a good idea
// there or not.
func (m *member) move() {
	m.t.Helper()
	moves := map[string]func(){
		"new version": func() { m.set(m.version()) },
		"bad version": func() { m.set("failed") },
		"revert":      func() { m.set(m.stable) },
		"scale":       func() { m.resize(int32(3 + m.random.IntN(8))) },
		"scale to 0":  func() { m.resize(0) },
		"promote":     m.promote,
		"promote all": m.promoteEvery,
		"jump": func() {
			step := int32(1 + m.random.IntN(3))
			m.reach(step)
			m.decide("jump", asking{step: step}, fmt.Sprintf(`"step":%d`, step))
		},
		"abort":    func() { m.decide("abort", asking{}, "") },
		"rollback": m.rollback,
		"retry":    func() { m.decide("retry", asking{}, "") },
		"pause":    func() { m.decide("pause", asking{}, "") },
		"resume":   func() { m.decide("resume", asking{}, "") },
		"freeze":   func() { m.again(func() error { return m.change(`{"spec":{"strategy":{"paused":true}}}`) }) },
		"thaw":     func() { m.again(func() error { return m.change(`{"spec":{"strategy":{"paused":false}}}`) }) },
		"disable":  func() { m.again(func() error { return m.change(`{"spec":{"disabled":true}}`) }) },
		"enable":   func() { m.again(func() error { return m.change(`{"spec":{"disabled":false}}`) }) },
		"delete":   m.remove,
		"edit":     m.editPlan,
		"label":    m.relabel,
		"meddle": func() {
			for _, verb := range []string{"resume", "undo", "restart"} {
				m.meddle(verb)
			}
		},
		"stale write": m.writeStale,
	}
	often := []string{"promote", "promote", "promote", "promote", "scale", "scale", "new version", "abort", "retry"}
	names := append(some(moves), often...)
	chosen := names[m.random.IntN(len(names))]
	m.moves[chosen]++
	m.say(chosen)
	moves[chosen]()
}

// again repeats what a crash made fail.
func (m *member) again(try func() error) {
	m.t.Helper()
	m.until("it is accepted", func(context.Context) error { return try() })
}

// set writes the version.
func (m *member) set(version string) {
	m.t.Helper()
	m.live = version
	m.again(func() error {
		return m.patch(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
	})
}

// change writes to the Rollout; one that is not there needs none.
func (m *member) change(body string) error {
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.rollout}}
	return here.client.Patch(m.t.Context(), r, client.RawPatch(types.MergePatchType, []byte(body)))
}

func (m *member) resize(replicas int32) {
	m.t.Helper()
	m.witness.scale(replicas)
	m.plan.replicas = replicas
	m.say("size %d", replicas)
	m.again(func() error { return m.patch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)) })
}

// reach tells the witness how far the new version may come: to the share of a
// step, of any plan.
func (m *member) reach(step int32) {
	m.reached = max(m.reached, step)
	for _, steps := range m.plans {
		m.allow(steps[:min(int(m.reached), len(steps))]...)
	}
}

// allow lets the new version have the share of any of the steps.
func (m *member) allow(steps ...v1beta1.Step) {
	m.witness.mu.Lock()
	defer m.witness.mu.Unlock()
	m.allowed = append(m.allowed, steps...)
	b := &m.witness.bounds
	switch m.kind {
	case "canary":
		b.extra = most(m.allowed)
	case "blue-green":
		b.beside = most(m.allowed)
	}
}

// most is the largest share of some steps.
func most(steps []v1beta1.Step) func(size int32) int32 {
	steps = slices.Clone(steps)
	return func(size int32) int32 {
		var n int32
		for _, s := range steps {
			n = max(n, share(s, size))
		}
		return n
	}
}

func share(s v1beta1.Step, size int32) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(s.Replicas, int(size), true)
	if err != nil {
		return 0
	}
	return int32(n)
}

// decide sends a verb; it may be refused, where it makes no sense. Its ID makes
// repeating it safe.
func (m *member) decide(verb string, r asking, fields string) {
	m.t.Helper()
	m.number++
	id := fmt.Sprintf("%s-%d", verb, m.number)
	r.verb = verb
	m.witness.send(id, r)
	body := fmt.Sprintf(`{"requestID":%q}`, id)
	if fields != "" {
		body = fmt.Sprintf(`{"requestID":%q,%s}`, id, fields)
	}
	m.again(func() error {
		got, err := here.admin.post(m.t.Context(), m.app, verb, body)
		switch {
		case err != nil:
			return err
		case got.code >= http.StatusInternalServerError || got.code == http.StatusForbidden || got.code == http.StatusTooManyRequests:
			return fmt.Errorf("%s", got)
		case got.code == http.StatusNotFound && !m.absent():
			return fmt.Errorf("%s", got)
		}
		m.say("%s: %d %.60s", verb, got.code, got.message)
		return nil
	})
}

// promoteEvery lets every further step pass.
func (m *member) promoteEvery() {
	m.t.Helper()
	m.everyStep = true
	m.reach(99)
	m.decide("promote", asking{full: true}, `"full":true`)
}

// absent reports whether there is no Rollout, as far as is known.
func (m *member) absent() bool {
	_, err := m.stored(m.t.Context())
	return apierrors.IsNotFound(err)
}

// promote approves the step that waits.
func (m *member) promote() {
	m.t.Helper()
	r, err := m.stored(m.t.Context())
	if err != nil {
		return
	}
	step := r.Status.CurrentStepIndex
	m.reach(step + 1)
	m.decide("promote", asking{step: step}, fmt.Sprintf(`"expect":{"step":%d}`, step))
}

// rollback has the template set by somebody else.
func (m *member) rollback() {
	m.t.Helper()
	m.decide("rollback", asking{}, "")
	m.rolledBack = true // whatever was answered, it may be done
	if r, err := m.stored(m.t.Context()); err == nil {
		for _, d := range r.Status.Decisions {
			if d.Verb == "rollback" && d.RequestID == fmt.Sprintf("rollback-%d", m.number) {
				m.live = m.stable
			}
		}
	}
}

// remove deletes the Rollout, wants it to go, and makes it anew.
func (m *member) remove() {
	m.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.rollout}}
	m.again(func() error { return client.IgnoreNotFound(here.client.Delete(m.t.Context(), r)) })
	m.until("the Rollout is gone", m.gone(&v1beta1.Rollout{}, m.rollout))
	m.linger(2 * settling)
	m.again(m.ensure)
}

// ensure makes the Rollout, unless it is there.
func (m *member) ensure() error {
	r := m.newRollout()
	r.Namespace = m.namespace
	if err := here.client.Create(m.t.Context(), r); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// editPlan replaces the steps by others.
func (m *member) editPlan() {
	m.t.Helper()
	m.plan.steps = m.plans[m.random.IntN(len(m.plans))]
	// It goes on at the first step that wants as many pods as there may be.
	before := most(m.allowed)
	for size := range int32(12) {
		next := slices.IndexFunc(m.plan.steps, func(s v1beta1.Step) bool { return share(s, size) >= before(size) })
		m.allow(m.plan.steps[max(0, next)])
	}
	body, err := json.Marshal(m.plan.steps)
	if err != nil {
		m.t.Fatal(err)
	}
	field := "canary"
	if m.kind == "blue-green" {
		field = "blueGreen"
	}
	if err := m.change(fmt.Sprintf(`{"spec":{"strategy":{%q:{"steps":%s}}}}`, field, body)); apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		m.t.Errorf("editing the plan: %v", err)
	}
}

// relabel changes what is no release.
func (m *member) relabel() {
	m.t.Helper()
	value := strconv.Itoa(m.random.IntN(1000))
	m.again(func() error { return m.patch(fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, value)) })
	m.before.deployment.Labels["team"] = value
}

// meddle asks kubectl to move the Deployment. At rest that is a release as any
// other, so it is asked only while one is under way.
func (m *member) meddle(verb string) {
	m.t.Helper()
	r, err := m.stored(m.t.Context())
	if err != nil || reason(r) != "InRolling" || r.Status.CurrentStepState != "StepPaused" || m.everyStep {
		return
	}
	m.say("%s: %.100s", verb, here.admin.kubectl(m.app, "rollout", verb, "deployment/"+name).out)
}

// writeStale replaces the Deployment by a copy that was never held, as a client
// does that keeps whole objects.
func (m *member) writeStale() {
	m.t.Helper()
	m.again(func() error {
		d := m.before.deployment.DeepCopy()
		d.ResourceVersion, d.ManagedFields = "", nil
		d.Spec.Replicas = &m.plan.replicas
		d.Spec.Template.Spec.Containers[0].Image = image(m.live)
		d.Spec.Paused = false
		return here.client.Update(m.t.Context(), d)
	})
}
