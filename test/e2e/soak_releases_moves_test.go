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

// randomMove does something that a user may do at any time, whether or not it is sensible.
func (m *crowdMember) randomMove() {
	m.t.Helper()
	moves := map[string]func(){
		"new version": func() { m.setVersion(m.version()) },
		"bad version": func() { m.setVersion("failed") },
		"revert":      func() { m.setVersion(m.stable) },
		"scale":       func() { m.resize(int32(3 + m.random.IntN(8))) },
		"scale to 0":  func() { m.resize(0) },
		"promote":     m.promote,
		"promote all": m.promoteAll,
		"jump": func() {
			step := int32(1 + m.random.IntN(3))
			m.allowStep(step)
			m.sendVerb("jump", sentDecision{step: step}, fmt.Sprintf(`"step":%d`, step))
		},
		"abort":       func() { m.sendVerb("abort", sentDecision{}, "") },
		"rollback":    m.rollback,
		"retry":       func() { m.sendVerb("retry", sentDecision{}, "") },
		"pause":       func() { m.sendVerb("pause", sentDecision{}, "") },
		"resume":      func() { m.sendVerb("resume", sentDecision{}, "") },
		"pause spec":  func() { m.retry(func() error { return m.patchRollout(`{"spec":{"strategy":{"paused":true}}}`) }) },
		"resume spec": func() { m.retry(func() error { return m.patchRollout(`{"spec":{"strategy":{"paused":false}}}`) }) },
		"disable":     func() { m.retry(func() error { return m.patchRollout(`{"spec":{"disabled":true}}`) }) },
		"enable":      func() { m.retry(func() error { return m.patchRollout(`{"spec":{"disabled":false}}`) }) },
		"delete":      m.recreateRollout,
		"edit":        m.editPlan,
		"label":       m.changeLabels,
		"kubectl rollout": func() {
			for _, verb := range []string{"resume", "undo", "restart"} {
				m.runKubectlRollout(verb)
			}
		},
		"stale write": m.writeStale,
	}
	often := []string{"promote", "promote", "promote", "promote", "scale", "scale", "new version", "abort", "retry"}
	names := append(selectCases(moves), often...)
	chosen := names[m.random.IntN(len(names))]
	m.moves[chosen]++
	m.trace(chosen)
	moves[chosen]()
}

// retry repeats a request until it succeeds, because a crash can make it fail.
func (m *crowdMember) retry(try func() error) {
	m.t.Helper()
	m.eventually("the request is accepted", func(context.Context) error { return try() })
}

// setVersion writes the version.
func (m *crowdMember) setVersion(version string) {
	m.t.Helper()
	m.live = version
	m.retry(func() error {
		return m.patchDeployment(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
	})
}

// patchRollout applies a merge patch to the Rollout.
func (m *crowdMember) patchRollout(body string) error {
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.rollout}}
	return testEnv.client.Patch(m.t.Context(), r, client.RawPatch(types.MergePatchType, []byte(body)))
}

func (m *crowdMember) resize(replicas int32) {
	m.t.Helper()
	m.monitor.scale(replicas)
	m.plan.replicas = replicas
	m.trace("size %d", replicas)
	m.retry(func() error { return m.patchDeployment(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)) })
}

// allowStep tells the monitor that the new version may have the pods of this step in any of the
// plans.
func (m *crowdMember) allowStep(step int32) {
	m.reached = max(m.reached, step)
	for _, steps := range m.plans {
		m.allowSteps(steps[:min(int(m.reached), len(steps))]...)
	}
}

// allowSteps tells the monitor that the new version may have the pods of any of these steps.
func (m *crowdMember) allowSteps(steps ...v1beta1.Step) {
	m.monitor.mu.Lock()
	defer m.monitor.mu.Unlock()
	m.allowed = append(m.allowed, steps...)
	b := &m.monitor.bounds
	switch m.kind {
	case "canary":
		b.extra = largestShare(m.allowed)
	case "blue-green":
		b.beside = largestShare(m.allowed)
	}
}

// largestShare returns the largest number of pods of these steps.
func largestShare(steps []v1beta1.Step) func(size int32) int32 {
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

// sendVerb sends a verb, which may be refused in the current state. A request ID makes retries
// safe.
func (m *crowdMember) sendVerb(verb string, r sentDecision, fields string) {
	m.t.Helper()
	m.number++
	id := fmt.Sprintf("%s-%d", verb, m.number)
	r.verb = verb
	m.monitor.recordSentDecision(id, r)
	body := fmt.Sprintf(`{"requestID":%q}`, id)
	if fields != "" {
		body = fmt.Sprintf(`{"requestID":%q,%s}`, id, fields)
	}
	m.retry(func() error {
		got, err := testEnv.admin.post(m.t.Context(), m.app, verb, body)
		switch {
		case err != nil:
			return err
		case got.code >= http.StatusInternalServerError || got.code == http.StatusForbidden || got.code == http.StatusTooManyRequests:
			return fmt.Errorf("%s", got)
		case got.code == http.StatusNotFound && !m.rolloutAbsent():
			return fmt.Errorf("%s", got)
		}
		m.trace("%s: %d %.60s", verb, got.code, got.message)
		return nil
	})
}

// promoteAll approves all remaining steps.
func (m *crowdMember) promoteAll() {
	m.t.Helper()
	m.everyStep = true
	m.allowStep(99)
	m.sendVerb("promote", sentDecision{full: true}, `"full":true`)
}

// rolloutAbsent reports whether the Rollout does not exist, as far as this user knows.
func (m *crowdMember) rolloutAbsent() bool {
	_, err := m.getRollout(m.t.Context())
	return apierrors.IsNotFound(err)
}

// promote approves the step that is paused.
func (m *crowdMember) promote() {
	m.t.Helper()
	r, err := m.getRollout(m.t.Context())
	if err != nil {
		return
	}
	step := r.Status.CurrentStepIndex
	m.allowStep(step + 1)
	m.sendVerb("promote", sentDecision{step: step}, fmt.Sprintf(`"expect":{"step":%d}`, step))
}

// rollback sends the verb rollback, so that Weir sets the template.
func (m *crowdMember) rollback() {
	m.t.Helper()
	m.sendVerb("rollback", sentDecision{}, "")
	m.rolledBack = true // the rollback may have been carried out, whatever the response
	if r, err := m.getRollout(m.t.Context()); err == nil {
		for _, d := range r.Status.Decisions {
			if d.Verb == "rollback" && d.RequestID == fmt.Sprintf("rollback-%d", m.number) {
				m.live = m.stable
			}
		}
	}
}

// recreateRollout deletes the Rollout, waits until it is gone, and creates it again.
func (m *crowdMember) recreateRollout() {
	m.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.rollout}}
	m.retry(func() error { return client.IgnoreNotFound(testEnv.client.Delete(m.t.Context(), r)) })
	m.eventually("the Rollout is gone", m.isGone(&v1beta1.Rollout{}, m.rollout))
	m.pause(2 * observationDelay)
	m.retry(m.ensureRollout)
}

// ensureRollout creates the Rollout unless it exists.
func (m *crowdMember) ensureRollout() error {
	r := m.newRollout()
	r.Namespace = m.namespace
	if err := testEnv.client.Create(m.t.Context(), r); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// editPlan replaces the steps.
func (m *crowdMember) editPlan() {
	m.t.Helper()
	m.plan.steps = m.plans[m.random.IntN(len(m.plans))]
	// The release continues at the first step with at least as many pods as allowed so far.
	before := largestShare(m.allowed)
	for size := range int32(12) {
		next := slices.IndexFunc(m.plan.steps, func(s v1beta1.Step) bool { return share(s, size) >= before(size) })
		m.allowSteps(m.plan.steps[max(0, next)])
	}
	body, err := json.Marshal(m.plan.steps)
	if err != nil {
		m.t.Fatal(err)
	}
	field := "canary"
	if m.kind == "blue-green" {
		field = "blueGreen"
	}
	if err := m.patchRollout(fmt.Sprintf(`{"spec":{"strategy":{%q:{"steps":%s}}}}`, field, body)); apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		m.t.Errorf("editing the plan: %v", err)
	}
}

// changeLabels makes a change that is not a release.
func (m *crowdMember) changeLabels() {
	m.t.Helper()
	value := strconv.Itoa(m.random.IntN(1000))
	m.retry(func() error { return m.patchDeployment(fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, value)) })
	m.before.deployment.Labels["team"] = value
}

// runKubectlRollout runs kubectl rollout on the Deployment during a release, which must not move
// it. Without a release in progress, such a command would start one.
func (m *crowdMember) runKubectlRollout(verb string) {
	m.t.Helper()
	r, err := m.getRollout(m.t.Context())
	if err != nil || reason(r) != "InRolling" || r.Status.CurrentStepState != "StepPaused" || m.everyStep {
		return
	}
	m.trace("%s: %.100s", verb, testEnv.admin.kubectl(m.app, "rollout", verb, "deployment/"+name).out)
}

// writeStale replaces the Deployment with a copy from before it was held, as clients that cache
// whole objects do.
func (m *crowdMember) writeStale() {
	m.t.Helper()
	m.retry(func() error {
		d := m.before.deployment.DeepCopy()
		d.ResourceVersion, d.ManagedFields = "", nil
		d.Spec.Replicas = &m.plan.replicas
		d.Spec.Template.Spec.Containers[0].Image = image(m.live)
		d.Spec.Paused = false
		return testEnv.client.Update(m.t.Context(), d)
	})
}
