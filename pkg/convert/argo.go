// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// argoRollout converts a Rollout of Argo: to a Deployment, unless it names one, and a
// Rollout.
func argoRollout(s *source, all *templates) []any {
	m, spec := meta(s), child(s.object, "spec")
	workload, deployment := argoWorkload(m, spec)
	r := rolloutOf(m, workload)
	if paused, _ := take[bool](spec, "paused"); paused {
		r.Spec.Strategy.Paused = &paused
	}
	canary, green := child(spec, "strategy", "canary"), child(spec, "strategy", "blueGreen")
	if canary == nil && green == nil {
		s.note(0, "spec.strategy: none is there: every pod is replaced in one step")
	}
	if canary == nil && green != nil {
		r.Spec.Strategy.BlueGreen = &v1beta1.BlueGreenStrategy{Release: argoBlueGreen(s, green, all)}
	} else {
		r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: argoCanary(s, canary, all)}
	}
	if deployment == nil {
		return []any{r}
	}
	argoLimits(canary, child(deployment, "spec"))
	return []any{deployment, r}
}

// argoLimits are those of the Deployment.
func argoLimits(canary, deployment map[string]any) {
	rolling := map[string]any{}
	for _, field := range []string{"maxSurge", "maxUnavailable"} {
		if value, ok := take[any](canary, field); ok {
			rolling[field] = value
		}
	}
	if len(rolling) > 0 {
		deployment["strategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling}
	}
}

// argoWorkload is the Deployment that is named, or else one with the same template.
func argoWorkload(m metav1.ObjectMeta, spec map[string]any) (v1beta1.ObjectRef, map[string]any) {
	if ref := child(spec, "workloadRef"); ref != nil {
		return workloadOf(ref), nil
	}
	of := map[string]any{}
	for _, field := range []string{"replicas", "selector", "template", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"} {
		if value, ok := take[any](spec, field); ok {
			of[field] = value
		}
	}
	metadata := map[string]any{"name": m.Name}
	if m.Namespace != "" {
		metadata["namespace"] = m.Namespace
	}
	if len(m.Labels) > 0 {
		metadata["labels"] = m.Labels
	}
	return v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: m.Name},
		map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": of}
}

// argoSteps walks the steps of Argo, of which several are one step here.
type argoSteps struct {
	*source
	all    *templates
	routed bool
	// pods is what setCanaryScale has asked for; nil follows the weight.
	pods   *intstr.IntOrString
	weight int64
	// matches are those of setHeaderRoute, which holds until it is taken away.
	matches []v1beta1.RouteMatch
	// fresh reports whether the latest step has just begun, so that more belongs to it.
	fresh  bool
	steps  []v1beta1.Step
	checks []v1beta1.Check
}

func argoCanary(s *source, canary map[string]any, all *templates) v1beta1.Release {
	var release v1beta1.Release
	a := &argoSteps{source: s, all: all, routed: argoRouting(s, canary, &release)}
	for i, step := range objects(canary, "steps") {
		a.step(step)
		s.left(len(a.steps), "spec.strategy.canary.steps["+strconv.Itoa(i)+"]", step)
	}
	release.Steps = finish(s, a.steps)
	if background := child(canary, "analysis"); background != nil {
		first, _ := number(background, "startingStep")
		if first > 0 {
			s.note(0, "spec.strategy.canary.analysis.startingStep: %d: set steps of each check", first)
		}
		a.analysis(background, 0)
	}
	if len(a.checks) > 0 {
		release.Analysis = &v1beta1.Analysis{Checks: a.checks}
	}
	return release
}

// step takes one step of Argo.
func (a *argoSteps) step(step map[string]any) {
	if weight, ok := number(step, "setWeight"); ok {
		a.setWeight(weight)
		a.fresh = false
	}
	if scale := child(step, "setCanaryScale"); scale != nil {
		a.scale(scale)
	}
	if header := child(step, "setHeaderRoute"); header != nil {
		a.match(header)
	}
	if wait := child(step, "pause"); wait != nil {
		duration, _ := take[any](wait, "duration")
		a.pause(duration)
	}
	if analysis := child(step, "analysis"); analysis != nil {
		if len(a.steps) == 0 {
			a.begin()
		}
		a.analysis(analysis, len(a.steps))
	}
}

func (a *argoSteps) setWeight(weight int64) {
	routed := a.matches
	if a.weight = weight; weight > 0 {
		a.matches = nil
	}
	a.begin()
	if a.matches == nil && routed != nil {
		a.note(len(a.steps), "setHeaderRoute: a step has matches or a share: the route ends where the share begins")
	}
}

// begin begins a step with what is set by now, or sets it in one that has just begun.
func (a *argoSteps) begin() {
	if !a.fresh || len(a.steps) == 0 {
		a.steps = append(a.steps, v1beta1.Step{})
	}
	last := &a.steps[len(a.steps)-1]
	last.Replicas, last.Pause = a.replicas(), pause(0)
	last.Matches, last.Traffic = a.matches, nil
	if a.routed && a.weight > 0 && a.matches == nil {
		last.Traffic = new(strconv.FormatInt(a.weight, 10) + "%")
	}
}

// replicas are the pods of a step: what setCanaryScale has asked for, or the weight.
func (a *argoSteps) replicas() *intstr.IntOrString {
	switch {
	case a.pods == nil && a.weight == 0:
		a.note(len(a.steps), "a step without new pods: it has one here")
		return new(intstr.FromInt32(1))
	case a.pods == nil:
		return share(a.weight)
	case a.weight > 0 && !a.routed:
		a.note(len(a.steps), "setWeight: %d: nothing routes requests, and setCanaryScale says how many pods there are", a.weight)
	}
	return a.pods
}

func (a *argoSteps) scale(scale map[string]any) {
	a.pods = nil
	if n, ok := number(scale, "replicas"); ok {
		a.pods = new(intstr.FromInt32(int32(n)))
	} else if n, ok := number(scale, "weight"); ok {
		a.pods = share(n)
	}
	_, _ = take[bool](scale, "matchTrafficWeight") // which is what pods nil means
	a.begin()
	a.fresh = true
}

// match sends requests with a header to the new version.
func (a *argoSteps) match(header map[string]any) {
	text(header, "name")
	var match v1beta1.RouteMatch
	for i, m := range objects(header, "match") {
		match.Headers = append(match.Headers, valueMatch(text(m, "headerName"), child(m, "headerValue")))
		a.left(len(a.steps)+1, "setHeaderRoute.match["+strconv.Itoa(i)+"]", m)
	}
	a.matches = nil
	if len(match.Headers) == 0 {
		return // it takes the route away, which the next step does here
	}
	a.matches = []v1beta1.RouteMatch{match}
	a.begin()
	a.fresh = true
	switch {
	case !a.routed:
		a.note(len(a.steps), "setHeaderRoute: nothing routes requests: name a router in trafficRoutings")
	case a.weight > 0:
		a.note(len(a.steps), "setHeaderRoute beside setWeight: a step has matches or a share; the share %d%% is left out", a.weight)
	}
}

// pause has the latest step wait.
func (a *argoSteps) pause(duration any) {
	if len(a.steps) == 0 || a.steps[len(a.steps)-1].Pause.Duration == nil {
		a.begin()
	}
	last := &a.steps[len(a.steps)-1]
	a.fresh = false
	switch seconds, ok := seconds(duration); {
	case duration == nil:
		last.Pause = &v1beta1.Pause{}
	case ok:
		*last.Pause.Duration += int32(seconds)
	default:
		a.note(len(a.steps), "pause.duration: %v", duration)
		last.Pause = &v1beta1.Pause{}
	}
}

// seconds reads a duration of Argo, which may be a number, or of Flagger.
func seconds(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, true
		}
		d, err := time.ParseDuration(v)
		return int64(d.Seconds()), err == nil
	}
	return 0, false
}

// analysis uses the checks of templates, in one step or in all.
func (a *argoSteps) analysis(of map[string]any, step int) {
	args := map[string]string{}
	for _, arg := range objects(of, "args") {
		name, value := text(arg, "name"), text(arg, "value")
		if value == "" {
			a.note(step, "analysis: argument %s: give it a value in args", name)
		}
		a.left(step, "analysis.args["+name+"]", arg)
		args[argName(name)] = value
	}
	for _, t := range objects(of, "templates") {
		name, kind := text(t, "templateName"), "Check"
		if cluster, _ := take[bool](t, "clusterScope"); cluster {
			kind = "ClusterCheck"
		}
		a.left(step, "analysis.templates["+name+"]", t)
		names := a.all.checks[name]
		if names == nil {
			a.note(step, "analysis: no check of the template %s is among the manifests: convert or write it, too", name)
			names = []string{name}
		}
		for _, check := range names {
			a.use(&v1beta1.CheckRef{Kind: kind, Name: check, Args: maps.Clone(args)}, step)
		}
	}
}

// use adds a check in a step, or in all.
func (a *argoSteps) use(ref *v1beta1.CheckRef, step int) {
	at := slices.IndexFunc(a.checks, func(c v1beta1.Check) bool { return c.Name == ref.Name })
	if at < 0 {
		at = len(a.checks)
		a.checks = append(a.checks, v1beta1.Check{Name: ref.Name, Use: ref})
	} else if step == 0 {
		a.checks[at].Steps = nil
	}
	if step > 0 {
		a.checks[at].Steps = append(a.checks[at].Steps, int32(step))
	}
}

// argoBlueGreen has a step with all new pods, and one with all requests.
func argoBlueGreen(s *source, green map[string]any, all *templates) v1beta1.Release {
	r := &routes{source: s}
	r.ref.Service = text(green, "activeService")
	r.replaced(text(green, "previewService"))
	first := v1beta1.Step{Replicas: share(100), Pause: pause(0)}
	if n, ok := number(green, "previewReplicaCount"); ok {
		first.Replicas = new(intstr.FromInt32(int32(n)))
	}
	automatic, given := take[bool](green, "autoPromotionEnabled")
	if wait, ok := number(green, "autoPromotionSeconds"); ok {
		first.Pause = pause(wait)
	} else if given && !automatic {
		first.Pause = &v1beta1.Pause{}
	}
	a := &argoSteps{source: s, all: all}
	for at, field := range []string{"prePromotionAnalysis", "postPromotionAnalysis"} {
		if analysis := child(green, field); analysis != nil {
			a.analysis(analysis, at+1)
		}
	}
	release := v1beta1.Release{Steps: []v1beta1.Step{first, {Replicas: share(100), Pause: pause(0)}}}
	r.into(&release)
	if len(a.checks) > 0 {
		release.Analysis = &v1beta1.Analysis{Checks: a.checks}
	}
	return release
}
