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
	// IsLiveTemplate reports whether the new template is the one that the workload already has.
	IsLiveTemplate bool
	// Release names the release in progress, such as "release 3 (v2)"; empty if there is none. IsSuperseded reports
	// whether another release ends it, and IsCancelled whether the new template is the stable one, which ends it, too.
	Release                   string
	IsSuperseded, IsCancelled bool
	Quotas                    []*corev1.ResourceQuota
	Budgets                   []*policyv1.PodDisruptionBudget
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
	for _, find := range []func(Start, Environment) []rollouts.Finding{
		releaseFindings, f.quotaFindings, f.routerFindings, f.trafficFindings, f.checkFindings, f.loadFindings, f.budgetFindings, f.scalerFindings,
		f.truncationFindings, templateFindings,
	} {
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

// quotaFindings returns the quotas that a moment of the release exceeds. The step cannot continue then, unless old pods
// may be removed before new ones start.
func (f Forecast) quotaFindings(b Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	for _, q := range a.Quotas {
		for name, left := range q.Status.Hard {
			left.Sub(q.Status.Used[name])
			updated, old := a.podRequests(name, q)
			exceeds := func(m Moment) bool {
				more := f.additional(m, updated, old)
				return more.Sign() > 0 && more.Cmp(left) > 0
			}
			at := slices.IndexFunc(f.Moments, exceeds)
			if at < 0 {
				continue
			}
			finding := rollouts.Finding{Severity: Error, Code: "quota", Object: objectRef("v1", "ResourceQuota", q)}
			m, stuck := f.Moments[at], true
			if removesFirst(b) {
				// A quota that is exceeded already refuses every new pod, even one that replaces an old pod.
				refuses := func(m Moment) bool { more := f.additional(m, updated, old); return more.Cmp(left) > 0 }
				m, stuck = f.firstStuck(b, refuses, m)
			}
			more := f.additional(m, updated, old)
			finding.Step = m.Step
			finding.Message = fmt.Sprintf("Quota %q has %s of %s left; this step needs %s more (%d new + %d old pods)", q.Name, left.String(), name, more.String(), m.Update, m.Stable)
			finding.Fix = "raise the quota, or let fewer pods start at once"
			switch {
			case !stuck:
				finding.Severity, finding.Fix = Info, ""
				finding.Message += ", so old pods are removed before new ones start"
			case b.Workload.SizedByStore:
				finding.Message += " and will get stuck"
				finding.Fix = "raise the quota, or raise maxUnavailable so that old pods are removed first"
				if removesFirst(b) {
					finding.Fix = "raise the quota, or let the new pods request less"
				}
			default:
				finding.Message += " and will get stuck"
			}
			all = append(all, finding)
		}
	}
	slices.SortFunc(all, func(x, y rollouts.Finding) int { return cmp.Compare(x.Object.Name+x.Message, y.Object.Name+y.Message) })
	return all
}

// additional returns how much more of a resource pods request at a moment than at the start.
func (f Forecast) additional(m Moment, updated, old resource.Quantity) resource.Quantity {
	more := m.count(updated, old)
	more.Sub(f.Moments[0].count(updated, old))
	return more
}

// removesFirst reports whether old pods are removed although new ones are refused: those of a Deployment that may be
// unavailable.
func removesFirst(b Start) bool {
	return b.Workload.SizedByStore && b.Workload.MaxUnavailable > 0 &&
		rollouts.StyleFor(&b.Rollout.Spec.Strategy, b.Rollout.Spec.WorkloadRef) == rollouts.StylePartition
}

// firstStuck replaces pods in the order that a quota permits: it starts each pod only if the quota does not refuse it, and removes
// pods while no more than maxUnavailable are missing. It returns the first moment that needs more than the quota, and
// true; or the given moment and false if the quota suffices.
func (f Forecast) firstStuck(b Start, refuses func(Moment) bool, peak Moment) (m Moment, stuck bool) {
	at := f.Moments[0]
	for _, s := range f.Steps {
		if s.State == Done {
			continue
		}
		at.Step = s.Step
		for at.Update != s.Update || at.Stable != s.Stable {
			next := at
			switch may := at.Update+at.Stable > b.Workload.Replicas-b.Workload.MaxUnavailable; {
			case at.Update < s.Update && !refuses(Moment{Update: at.Update + 1, Stable: at.Stable}):
				next.Update++
			case at.Stable < s.Stable && !refuses(Moment{Update: at.Update, Stable: at.Stable + 1}):
				next.Stable++
			case at.Stable > s.Stable && may:
				next.Stable--
			case at.Update > s.Update && may:
				next.Update--
			}
			if next == at {
				wanted := Moment{Step: s.Step, Update: at.Update, Stable: at.Stable}
				if at.Update < s.Update {
					wanted.Update++
				} else {
					wanted.Stable++
				}
				return wanted, true
			}
			at = next
		}
	}
	return peak, false
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
		if why := route.Obstacle(); why != "" && plan.Steps[i].AsksForTraffic() {
			all = append(all, rollouts.Finding{Severity: Error, Step: n, Code: "router", Message: why, Fix: "create or change it, or remove `traffic` from the step"})
		}
	}
	return all
}

func (f Forecast) loadFindings(b Start, _ Environment) []rollouts.Finding {
	var all []rollouts.Finding
	for _, s := range f.Steps {
		if load := Load(s, b.Workload.Replicas); s.State != Done && load > 1.5 {
			all = append(all, rollouts.Finding{
				Severity: Warning, Step: s.Step, Code: "load", Message: fmt.Sprintf("Each new pod gets %.1f× the average load", load),
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
		finding := rollouts.Finding{Severity: Warning, Code: "budget", Object: objectRef("policy/v1", "PodDisruptionBudget", p), Fix: "let the budget allow one more disruption"}
		wanted := minHealthyPods(p, int(b.Workload.Replicas))
		for _, s := range f.Steps {
			if s.State != Done && s.Step > 0 && s.Then.For != "none" && int(s.Update+s.Stable) <= wanted {
				finding.Step, finding.Message = s.Step, "The budget allows no disruption while the step waits, so nodes cannot be drained"
				all = append(all, finding)
				break
			}
		}
		if int(floor) < wanted {
			finding.Step, finding.Fix = 0, "set maxUnavailable to 0"
			finding.Message = fmt.Sprintf("The budget requires %d ready pods, but the release keeps only %d", wanted, floor)
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
				add(Warning, int32(n)+1, "The step has a fixed number of pods, but the autoscaler changes the total", "use a percentage") //nolint:gosec // validation bounds the steps
				break
			}
		}
		if h.Spec.MaxReplicas < peak.Pods {
			add(Warning, 0, fmt.Sprintf("The release needs up to %d pods, but maxReplicas is %d", peak.Pods, h.Spec.MaxReplicas), "raise maxReplicas, or expect no scaling up during the release")
		}
		if style == rollouts.StyleBlueGreen {
			add(Info, 0, "The autoscaler is disabled during the release", "")
		}
	}
	return all
}

func (f Forecast) truncationFindings(Start, Environment) []rollouts.Finding {
	if !f.Truncated {
		return nil
	}
	return []rollouts.Finding{{Severity: Info, Code: "moves", Message: fmt.Sprintf("The release starts and stops pods more than %d times; the plan ends there", maxMoves), Fix: "raise maxSurge or maxUnavailable"}}
}

// releaseFindings returns what the new template means for the release in progress.
func releaseFindings(b Start, a Environment) []rollouts.Finding {
	switch {
	case a.Release == "":
		return nil
	case a.IsCancelled:
		return []rollouts.Finding{{Severity: Info, Code: "release", Message: "Cancels " + a.Release + ", because the stable version is set again"}}
	case a.IsSuperseded && rollouts.StyleFor(&b.Rollout.Spec.Strategy, b.Rollout.Spec.WorkloadRef) == rollouts.StyleBlueGreen:
		return []rollouts.Finding{{
			Severity: Error, Code: "release", Message: a.Release + " is in progress, and a blue-green release cannot be superseded",
			Fix: "promote, abort or roll back that release first",
		}}
	case a.IsSuperseded:
		return []rollouts.Finding{{Severity: Info, Code: "release", Message: "Supersedes " + a.Release}}
	case a.IsLiveTemplate:
		return []rollouts.Finding{{Severity: Info, Code: "release", Message: a.Release + " is already releasing this template; the plan shows its steps"}}
	}
	return nil
}

// trafficFindings returns the first step with requests for the new version in a plan that routes none.
func (f Forecast) trafficFindings(b Start, _ Environment) []rollouts.Finding {
	style, plan := b.Rollout.Spec.Strategy.Active()
	if plan == nil || isRouted(plan) {
		return nil
	}
	for i := range plan.Steps {
		if plan.Steps[i].AsksForTraffic() {
			return []rollouts.Finding{{
				Severity: Warning, Step: int32(i) + 1, Code: "traffic", //nolint:gosec // validation bounds the steps
				Message: "The traffic of the step has no effect, because the Rollout has no trafficRoutings",
				Fix:     fmt.Sprintf("name the Service and its route in spec.strategy.%s.trafficRoutings", style.Key()),
			}}
		}
	}
	return nil
}

// checkFindings returns what the trial of the checks on the stable version has found.
func (f Forecast) checkFindings(b Start, _ Environment) []rollouts.Finding {
	c := b.Rollout.Status.Condition(rollouts.ConditionMeasurable)
	at := slices.IndexFunc(f.Steps, func(s rollouts.PlannedStep) bool { return s.State != Done && len(s.Then.Checks) > 0 })
	if c == nil || c.Status != metav1.ConditionFalse || at < 0 {
		return nil
	}
	finding := rollouts.Finding{Severity: Warning, Step: f.Steps[at].Step, Code: "checks", Message: "Checks may not pass: " + c.Message, Fix: "change the checks"}
	if c.Reason == planner.ReasonNoAnswer {
		finding.Severity, finding.Message = Error, "The step cannot pass its checks: "+c.Message
		finding.Fix = "let a cluster admin create or repair the MetricSource, or remove the checks"
	}
	return []rollouts.Finding{finding}
}

func templateFindings(b Start, a Environment) []rollouts.Finding {
	var all []rollouts.Finding
	if a.IsLiveTemplate && !b.UnderWay {
		all = append(all, rollouts.Finding{Severity: Warning, Code: "template", Message: "The workload already has this template, so nothing would be released"})
	}
	if !slices.ContainsFunc(a.New.Spec.Containers, func(c corev1.Container) bool { return c.ReadinessProbe != nil }) {
		all = append(all, rollouts.Finding{Severity: Warning, Code: "probe", Message: "No readiness probe: pods count as ready as soon as they start", Fix: "add a readinessProbe"})
	}
	return all
}
