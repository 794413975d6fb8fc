// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	podresource "k8s.io/component-helpers/resource"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Severities of findings.
const (
	Error   = "Error"
	Warning = "Warning"
	Info    = "Info"
)

// Environment has the objects that affect a release. Objects that could not be read are missing.
type Environment struct {
	// New and Old are the pod templates. Old is New if the old template is unknown.
	New, Old *corev1.PodTemplateSpec
	// IsStableTemplate reports whether the new template is the stable one.
	IsStableTemplate bool
	Quotas           []*corev1.ResourceQuota
	Budgets          []*policyv1.PodDisruptionBudget
	// Scalers are the autoscalers of the workload.
	Scalers []*autoscalingv2.HorizontalPodAutoscaler
	Route   *planner.Route
}

// Peak returns the highest number of pods, the resources that they request, and the lowest number
// of ready pods.
func (f Forecast) Peak(a Environment) (peak rollouts.PeakResources, floor int32) {
	floor = f.Moments[0].Ready
	for _, m := range f.Moments {
		peak.Pods, floor = max(peak.Pods, m.Update+m.Stable), min(floor, m.Ready)
	}
	peak.CPU, peak.Memory = f.maxQuantity(a.podRequests(corev1.ResourceCPU, nil)), f.maxQuantity(a.podRequests(corev1.ResourceMemory, nil))
	return peak, floor
}

// maxQuantity returns the highest amount of a resource that all pods request together; nil if they
// request none.
func (f Forecast) maxQuantity(updated, old resource.Quantity) *resource.Quantity {
	var most *resource.Quantity
	for _, m := range f.Moments {
		if sum := m.count(updated, old); !sum.IsZero() && (most == nil || sum.Cmp(*most) > 0) {
			most = &sum
		}
	}
	return most
}

// count returns the amount of a resource that all pods request together.
func (m Moment) count(updated, old resource.Quantity) resource.Quantity {
	sum, more := updated.DeepCopy(), old.DeepCopy()
	sum.Mul(int64(m.Update))
	more.Mul(int64(m.Stable))
	sum.Add(more)
	return sum
}

// podRequests returns the amount of a resource that a new and an old pod use of a quota. The amount
// is zero for pods that the quota does not cover.
func (a Environment) podRequests(name corev1.ResourceName, quota *corev1.ResourceQuota) (updated, old resource.Quantity) {
	if covers(quota, a.New) {
		updated = counted(a.New, name)
	}
	if covers(quota, a.Old) {
		old = counted(a.Old, name)
	}
	return updated, old
}

func counted(t *corev1.PodTemplateSpec, name corev1.ResourceName) resource.Quantity {
	if name == corev1.ResourcePods || name == "count/pods" {
		return resource.MustParse("1")
	}
	pod := &corev1.Pod{Spec: t.Spec}
	if limit, ok := strings.CutPrefix(string(name), "limits."); ok {
		return podresource.PodLimits(pod, podresource.PodResourcesOptions{})[corev1.ResourceName(limit)]
	}
	return podresource.PodRequests(pod, podresource.PodResourcesOptions{})[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
}

// covers reports whether the scopes of a quota include the pods of a template.
func covers(q *corev1.ResourceQuota, t *corev1.PodTemplateSpec) bool {
	if q == nil {
		return true
	}
	var want metav1.LabelSelector
	for _, scope := range q.Spec.Scopes {
		want.MatchExpressions = append(want.MatchExpressions, metav1.LabelSelectorRequirement{Key: string(scope), Operator: metav1.LabelSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			want.MatchExpressions = append(want.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: string(e.ScopeName), Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
			})
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&want)
	return err == nil && selector.Matches(scopes(t))
}

// scopes are those that pods of a template are in, as if they were labels.
func scopes(t *corev1.PodTemplateSpec) labels.Set {
	pod := &corev1.Pod{Spec: t.Spec}
	in := labels.Set{string(corev1.ResourceQuotaScopeNotTerminating): "", string(corev1.ResourceQuotaScopeBestEffort): ""}
	if t.Spec.ActiveDeadlineSeconds != nil {
		in = labels.Set{string(corev1.ResourceQuotaScopeTerminating): "", string(corev1.ResourceQuotaScopeBestEffort): ""}
	}
	for _, list := range []corev1.ResourceList{podresource.PodRequests(pod, podresource.PodResourcesOptions{}), podresource.PodLimits(pod, podresource.PodResourcesOptions{})} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			delete(in, string(corev1.ResourceQuotaScopeBestEffort))
			in[string(corev1.ResourceQuotaScopeNotBestEffort)] = ""
		}
	}
	if class := t.Spec.PriorityClassName; class != "" {
		in[string(corev1.ResourceQuotaScopePriorityClass)] = class
	}
	return in
}

// Findings are what will go wrong, or may; errors come first.
func (f Forecast) Findings(b Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	for _, find := range []func(Start, Environment) []rollouts.Finding{f.quotaFindings, f.routerFindings, f.loadFindings, f.budgetFindings, f.scalerFindings, f.truncationFindings, templateFindings} {
		all = append(all, find(b, a)...)
	}
	order := []string{Error, Warning, Info}
	slices.SortStableFunc(all, func(x, y rollouts.Finding) int {
		return cmp.Compare(slices.Index(order, x.Severity), slices.Index(order, y.Severity))
	})
	return all
}

func objectRef(apiVersion, kind string, o metav1.Object) *rollouts.ObjectRef {
	return &rollouts.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: o.GetName()}
}

// quotaFindings returns the quotas that a moment of the release exceeds. Then the step cannot
// continue.
func (f Forecast) quotaFindings(_ Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	for _, q := range a.Quotas {
		for name, left := range q.Status.Hard {
			left.Sub(q.Status.Used[name])
			updated, old := a.podRequests(name, q)
			var more resource.Quantity
			at := slices.IndexFunc(f.Moments, func(m Moment) bool {
				more = m.count(updated, old)
				more.Sub(f.Moments[0].count(updated, old))
				return more.Sign() > 0 && more.Cmp(left) > 0
			})
			if at < 0 {
				continue
			}
			m := f.Moments[at]
			all = append(all, rollouts.Finding{
				Severity: Error, Step: m.Step, Code: "quota", Object: objectRef("v1", "ResourceQuota", q),
				Message: fmt.Sprintf("%s of %s are left, and %d new and %d old pods ask for %s more; the step will stand still", left.String(), name, m.Update, m.Stable, more.String()),
				Fix:     "raise the quota, or let fewer pods come beside the others",
			})
		}
	}
	slices.SortFunc(all, func(x, y rollouts.Finding) int { return cmp.Compare(x.Object.Name+x.Message, y.Object.Name+y.Message) })
	return all
}

// routerFindings returns the steps whose route the routers do not support.
func (f Forecast) routerFindings(b Start, a Environment) []rollouts.Finding {
	_, plan := b.Rollout.Spec.Strategy.Active()
	if a.Route == nil || plan == nil {
		return nil
	}
	var all []rollouts.Finding
	for i := range plan.Steps {
		n := int32(i) + 1 //nolint:gosec // validation bounds the steps
		route := a.Route.ForStep(n)
		if why := route.Obstacle(); why != "" && plan.Steps[i].Routed() {
			all = append(all, rollouts.Finding{Severity: Error, Step: n, Code: "router", Message: why, Fix: "create or change it, or take the traffic out of the step"})
		}
	}
	return all
}

func (f Forecast) loadFindings(Start, Environment) []rollouts.Finding {
	var all []rollouts.Finding
	for _, s := range f.Steps {
		if s.State != Done && Load(s) > 1.5 {
			all = append(all, rollouts.Finding{
				Severity: Warning, Step: s.Step, Code: "load", Message: fmt.Sprintf("each new pod gets %.1f times the average load", Load(s)),
				Fix: "give the step more pods, or less traffic",
			})
		}
	}
	return all
}

// budgetFindings returns the PodDisruptionBudgets that allow no disruption while a step waits, or
// that require more ready pods than the release keeps.
func (f Forecast) budgetFindings(b Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	_, floor := f.Peak(a)
	for _, p := range a.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(a.New.Labels)) {
			continue
		}
		finding := rollouts.Finding{Severity: Warning, Code: "budget", Object: objectRef("policy/v1", "PodDisruptionBudget", p), Fix: "let the budget allow one disruption more"}
		wanted := minHealthyPods(p, int(b.Workload.Replicas))
		for _, s := range f.Steps {
			if s.State != Done && s.Step > 0 && s.Then.For != "none" && int(s.Update+s.Stable) <= wanted {
				finding.Step, finding.Message = s.Step, "the budget allows no disruption while the step waits, so that drains of nodes hang"
				all = append(all, finding)
				break
			}
		}
		if int(floor) < wanted {
			finding.Step, finding.Fix = 0, "set maxUnavailable 0"
			finding.Message = fmt.Sprintf("the budget wants %d ready pods, and the release itself leaves %d", wanted, floor)
			all = append(all, finding)
		}
	}
	return all
}

// minHealthyPods returns the number of healthy pods that a budget requires.
func minHealthyPods(p *policyv1.PodDisruptionBudget, expected int) int {
	if p.Spec.MinAvailable != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(p.Spec.MinAvailable, expected, true)
		return n
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(p.Spec.MaxUnavailable, intstr.FromInt32(1)), expected, true)
	return expected - n
}

func (f Forecast) scalerFindings(b Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	style, plan := b.Rollout.Spec.Strategy.Active()
	peak, _ := f.Peak(a)
	for _, h := range a.Scalers {
		add := func(severity string, step int32, message, fix string) {
			all = append(all, rollouts.Finding{Severity: severity, Step: step, Code: "scaler", Object: objectRef("autoscaling/v2", "HorizontalPodAutoscaler", h), Message: message, Fix: fix})
		}
		for n, s := range plan.Steps {
			if s.Replicas != nil && s.Replicas.Type == intstr.Int {
				add(Warning, int32(n)+1, "the step asks for a number of pods, and the autoscaler changes how many there are", "ask for a percentage") //nolint:gosec // validation bounds the steps
				break
			}
		}
		if h.Spec.MaxReplicas < peak.Pods {
			add(Warning, 0, fmt.Sprintf("there will be up to %d pods, and maxReplicas is %d", peak.Pods, h.Spec.MaxReplicas), "raise maxReplicas, or expect no more pods under load meanwhile")
		}
		if style == rollouts.StyleBlueGreen {
			add(Info, 0, "the autoscaler is disabled while the release is under way", "")
		}
	}
	return all
}

func (f Forecast) truncationFindings(Start, Environment) []rollouts.Finding {
	if !f.Truncated {
		return nil
	}
	return []rollouts.Finding{{Severity: Info, Code: "moves", Message: fmt.Sprintf("pods move more than %d times; what comes after that was not looked at", maxMoves), Fix: "let more pods come, or be missing, at once"}}
}

func templateFindings(_ Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	if a.IsStableTemplate {
		all = append(all, rollouts.Finding{Severity: Warning, Code: "template", Message: "the template is the one that serves: nothing would be released"})
	}
	if !slices.ContainsFunc(a.New.Spec.Containers, func(c corev1.Container) bool { return c.ReadinessProbe != nil }) {
		all = append(all, rollouts.Finding{Severity: Warning, Code: "probe", Message: "no container has a readiness probe: a pod counts as ready as soon as it runs", Fix: "add a readinessProbe"})
	}
	return all
}
