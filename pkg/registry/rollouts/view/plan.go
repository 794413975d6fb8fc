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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/why"
)

// maxErrors limits the findings about an invalid plan.
const maxErrors = 20

// planREST serves the plan of the current release, or of a change that was not made yet. It stores nothing.
type planREST struct {
	computedREST
	explainer
}

var (
	_ rest.Getter       = (*planREST)(nil)
	_ rest.NamedCreater = (*planREST)(nil)
)

// Get implements rest.Getter.
func (p *planREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	r, err := p.GetRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, r, rollouts.PlanSpec{})
}

// Create implements rest.NamedCreater. If the body contains a Rollout, the Rollout need not exist.
func (p *planREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	asked := obj.(*rollouts.RolloutPlan)
	if named := asked.Name; named != "" && named != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name %q of the body is not the rollout of the request, %q", named, name))
	}
	if err := validate(ctx, obj.DeepCopyObject()); err != nil {
		return nil, err
	}
	r, err := p.GetRollout(ctx, name)
	if apierrors.IsNotFound(err) && asked.Spec.Rollout != nil {
		r, err = &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: genericapirequest.NamespaceValue(ctx)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return p.plan(ctx, r.DeepCopy(), asked.Spec)
}

// planBuilder is the computation of one plan.
type planBuilder struct {
	explainer
	r      *rollouts.Rollout
	spec   rollouts.PlanSpec
	status rollouts.PlanStatus
	begin  forecast.Start
	around forecast.Environment
	// isUnderWay reports whether a release is in progress, even if the request supersedes it.
	isUnderWay bool
}

func (p *planREST) plan(ctx context.Context, r *rollouts.Rollout, spec rollouts.PlanSpec) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, fetch.Timeout)
	defer cancel()
	m := &planBuilder{explainer: p.explainer, r: r, spec: spec}
	if err := m.build(ctx); err != nil {
		return nil, err
	}
	return &rollouts.RolloutPlan{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion},
		Spec:       spec, Status: m.status,
	}, nil
}

func (m *planBuilder) build(ctx context.Context) error {
	if !m.replacePlan(ctx) || !m.applyVerb() {
		return nil
	}
	b, err := m.getBatchRelease(ctx, m.r)
	if err != nil {
		return err
	}
	state, p := planner.StateOf(m.r), m.r.Status.Active()
	m.begin = forecast.Start{
		Rollout: m.r, Batch: b, UnderWay: state != planner.StateIdle,
		RollingBack:  state == planner.StateAborted || state == planner.StateLeavingAborted,
		StaysAborted: state == planner.StateAborted && p != nil && !p.RollingBack,
	}
	m.isUnderWay = m.begin.UnderWay
	if !m.observe(ctx, b) {
		return nil
	}
	if m.isUnderWay {
		if err := m.nameRelease(ctx); err != nil {
			return err
		}
	}
	f := forecast.Compute(m.begin)
	if m.around.IsLiveTemplate && !m.begin.UnderWay {
		f.Steps, f.Moments = nil, f.Moments[:1]
	}
	m.status.Steps = f.Steps
	m.status.Peak, m.status.Floor = f.Peak(m.around)
	m.status.Findings = append(m.status.Findings, f.Findings(m.begin, m.around)...)
	return m.addPermissionsAndDurations(ctx)
}

// nameRelease sets the name of the release in progress.
func (m *planBuilder) nameRelease(ctx context.Context) error {
	facts, _, err := m.gatherFacts(ctx, m.r)
	if err != nil {
		return err
	}
	ref := why.Explain(m.r, facts).Release
	if ref == nil {
		return nil
	}
	m.around.Release = fmt.Sprintf("release %d (%s)", ref.Number, why.VersionName(ref))
	m.around.IsSuperseded = !m.begin.UnderWay
	return nil
}

func (m *planBuilder) addFinding(f rollouts.Finding) {
	m.status.Findings = append(m.status.Findings, f)
}

// replacePlan replaces the stored plan by the plan of the request. It reports whether there is a valid plan: an
// invalid one may have any size.
func (m *planBuilder) replacePlan(ctx context.Context) bool {
	if m.spec.Rollout != nil && !m.validatePlan(ctx) {
		return false
	}
	_, plan := m.r.Spec.Strategy.Active()
	return plan != nil && m.r.Spec.WorkloadRef != nil && len(plan.Steps) > 0
}

// validatePlan adds findings for each validation error of the requested plan, and reports whether the plan is
// valid.
func (m *planBuilder) validatePlan(ctx context.Context) bool {
	stored := m.r.DeepCopy()
	m.r.Spec = *m.spec.Rollout.DeepCopy()
	m.r.Status.RemoveCondition(rollouts.ConditionMeasurable) // the condition is about the stored checks
	errs := validation.ValidateRollout(m.r, m.Rules)
	if stored.ResourceVersion != "" {
		errs = validation.ValidateRolloutUpdate(m.r, stored, m.Rules)
	}
	for _, e := range errs[:min(len(errs), maxErrors)] {
		m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "validation", Message: e.Error()})
	}
	ref := m.r.Spec.WorkloadRef
	if len(errs) > 0 || ref == nil || m.CheckClaim == nil {
		return len(errs) == 0
	}
	if err := m.CheckClaim(ctx, claim.NewOwner(m.r), ref); err != nil {
		m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "claim", Object: ref, Message: err.Error()})
	}
	return true
}

// applyVerb applies the requested verb, and reports whether that was possible.
func (m *planBuilder) applyVerb() bool {
	after := m.spec.After
	if after == nil {
		return true
	}
	c := verb.Command{
		Verb: rollouts.Verb(after.Verb), Step: after.Step, Full: after.Full, Override: after.Override, Via: rollouts.ViaVerb, Now: metav1.NewTime(m.Clock.Now()),
	}
	if c.Override {
		c.Options.Reason = why.NeedsReason // an override requires a reason, and the plan does not depend on its text
	}
	if _, err := verb.Apply(m.r, c); err != nil {
		m.addFinding(rollouts.Finding{Severity: forecast.Error, Code: "verb", Message: err.Error()})
		return false
	}
	if p := m.r.Status.Active(); p != nil && p.State == rollouts.StepReady && p.NextStepIndex > 0 {
		p.CurrentStepIndex = p.NextStepIndex // the release continues at this step
	}
	return true
}

// addPermissionsAndDurations adds whether the user may promote, and how long the steps of earlier releases took.
func (m *planBuilder) addPermissionsAndDurations(ctx context.Context) error {
	you, err := m.isAllowed(ctx, "create", string(rollouts.VerbPromote), m.r.Name)
	if err != nil {
		return err
	}
	var all []filedRelease
	if m.r.UID != "" {
		if all, err = m.listReleases(ctx, m.r); err != nil {
			return err
		}
	}
	for i := range m.status.Steps {
		s := &m.status.Steps[i]
		s.Then.You = you && s.Then.For == string(planner.WaitApproval)
		s.Usual = usualDuration(all, s.Step)
	}
	return nil
}

// usualDuration returns the median time that the pods of a step took; nil without records.
func usualDuration(all []filedRelease, step int32) *metav1.Duration {
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
