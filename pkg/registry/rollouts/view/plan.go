// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/forecast"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/why"
)

// maxErrors bounds the findings of a plan that is wrong.
const maxErrors = 20

// planREST serves the plan of the release under way, or of a change that nobody has made.
// It stores nothing.
type planREST struct {
	computed
	whys
}

var (
	_ rest.Getter       = (*planREST)(nil)
	_ rest.NamedCreater = (*planREST)(nil)
)

// Get implements rest.Getter.
func (p *planREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	r, err := p.Rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, r, rollouts.PlanSpec{})
}

// Create implements rest.NamedCreater. The Rollout need not exist where the body has one.
func (p *planREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	asked := obj.(*rollouts.RolloutPlan)
	if named := asked.Name; named != "" && named != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name %q of the body is not the rollout of the request, %q", named, name))
	}
	if err := validate(ctx, obj.DeepCopyObject()); err != nil {
		return nil, err
	}
	r, err := p.Rollout(ctx, name)
	if apierrors.IsNotFound(err) && asked.Spec.Rollout != nil {
		r, err = &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: genericapirequest.NamespaceValue(ctx)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, r.DeepCopy(), asked.Spec)
}

// planning is one plan as it is made.
type planning struct {
	whys
	r      *rollouts.Rollout
	spec   rollouts.PlanSpec
	status rollouts.PlanStatus
	begin  forecast.Start
	around forecast.Environment
}

func (p *planREST) plan(ctx context.Context, r *rollouts.Rollout, spec rollouts.PlanSpec) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, look.Patience)
	defer cancel()
	m := &planning{whys: p.whys, r: r, spec: spec}
	if err := m.make(ctx); err != nil {
		return nil, err
	}
	return &rollouts.RolloutPlan{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion},
		Spec:       spec, Status: m.status,
	}, nil
}

func (m *planning) make(ctx context.Context) error {
	if !m.replan(ctx) || !m.decide() {
		return nil
	}
	b, err := m.batch(ctx, m.r)
	if err != nil {
		return err
	}
	m.begin = forecast.Start{
		Rollout: m.r, Batch: b, UnderWay: planner.StateOf(m.r) != planner.StateIdle,
		RollingBack: planner.StateOf(m.r) == planner.StateAborted || planner.StateOf(m.r) == planner.StateLeavingAborted,
	}
	if !m.observe(ctx, b) {
		return nil
	}
	f := forecast.Compute(m.begin)
	if m.around.IsStableTemplate && !m.begin.UnderWay {
		f.Steps, f.Moments = nil, f.Moments[:1]
	}
	m.status.Steps = f.Steps
	m.status.Peak, m.status.Floor = f.Peak(m.around)
	m.status.Findings = append(m.status.Findings, f.Findings(m.begin, m.around)...)
	return m.complete(ctx)
}

func (m *planning) found(f rollouts.Finding) { m.status.Findings = append(m.status.Findings, f) }

// replan puts the plan of the request in the place of the stored one, and reports whether
// there is one to go by: one that would be refused may have any size.
func (m *planning) replan(ctx context.Context) bool {
	if m.spec.Rollout != nil && !m.judge(ctx) {
		return false
	}
	_, plan := m.r.Spec.Strategy.Active()
	return plan != nil && m.r.Spec.WorkloadRef != nil && len(plan.Steps) > 0
}

// judge finds what would refuse the plan of the request, and reports whether it is valid.
func (m *planning) judge(ctx context.Context) bool {
	stored := m.r.DeepCopy()
	m.r.Spec = *m.spec.Rollout.DeepCopy()
	errs := validation.ValidateRollout(m.r, m.Rules)
	if stored.ResourceVersion != "" {
		errs = validation.ValidateRolloutUpdate(m.r, stored, m.Rules)
	}
	for _, e := range errs[:min(len(errs), maxErrors)] {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "validation", Message: e.Error()})
	}
	ref := m.r.Spec.WorkloadRef
	if len(errs) > 0 || ref == nil || m.Claimed == nil {
		return len(errs) == 0
	}
	if err := m.Claimed(ctx, claim.OwnerOf(m.r), ref); err != nil {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "claim", Object: ref, Message: err.Error()})
	}
	return true
}

// decide does what a verb would do, and reports whether it could.
func (m *planning) decide() bool {
	after := m.spec.After
	if after == nil {
		return true
	}
	c := verb.Command{
		Verb: rollouts.Verb(after.Verb), Step: after.Step, Full: after.Full, Override: after.Override, Via: rollouts.ViaVerb, Now: metav1.NewTime(m.Clock.Now()),
	}
	if c.Override {
		c.Options.Reason = why.NeedsReason // an override takes one, and the plan depends on none
	}
	if _, err := verb.Apply(m.r, c); err != nil {
		m.found(rollouts.Finding{Severity: forecast.Error, Code: "verb", Message: err.Error()})
		return false
	}
	if p := m.r.Status.Active(); p != nil && p.State == rollouts.StepReady && p.NextStepIndex > 0 {
		p.CurrentStepIndex = p.NextStepIndex // where it goes on
	}
	return true
}

// complete adds what is known of people and of earlier releases.
func (m *planning) complete(ctx context.Context) error {
	you, err := m.may(ctx, "create", string(rollouts.VerbPromote), m.r.Name)
	if err != nil {
		return err
	}
	var all []filing
	if m.r.UID != "" {
		if all, err = m.filed(ctx, m.r); err != nil {
			return err
		}
	}
	for i := range m.status.Steps {
		s := &m.status.Steps[i]
		s.Then.You = you && s.Then.For == string(planner.WaitApproval)
		s.Usual = usual(all, s.Step)
	}
	return nil
}

// usual is the median of how long the pods of a step took; nil where that is not on record.
func usual(all []filing, step int32) *metav1.Duration {
	var took []time.Duration
	for _, f := range all {
		for _, s := range f.record.Steps {
			if s.Step == step && s.EnteredTime != nil && s.UpgradedTime != nil {
				took = append(took, s.UpgradedTime.Sub(s.EnteredTime.Time))
			}
		}
	}
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	return &metav1.Duration{Duration: took[len(took)/2]}
}
