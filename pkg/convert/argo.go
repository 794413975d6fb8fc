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

// convertArgoRollout converts a Rollout of Argo to a Rollout of Weir, and to a Deployment if the Argo Rollout
// contains its own pod template.
func convertArgoRollout(s *manifestSource, all *templates) []any {
	m, spec := takeMetadata(s), getChild(s.object, "spec")
	workload, deployment := convertArgoWorkload(m, spec)
	r := newRollout(m, workload)
	if paused, _ := takeField[bool](spec, "paused"); paused {
		r.Spec.Strategy.Paused = &paused
	}
	canary, green := getChild(spec, "strategy", "canary"), getChild(spec, "strategy", "blueGreen")
	if canary == nil && green == nil {
		s.addHint(0, "the source has no strategy, so one step replaces every pod")
	}
	if canary == nil && green != nil {
		r.Spec.Strategy.BlueGreen = &v1beta1.BlueGreenStrategy{Release: convertArgoBlueGreen(s, m.Namespace, green, all)}
	} else {
		r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: convertArgoCanary(s, m.Namespace, canary, all)}
	}
	if deployment == nil {
		return []any{r}
	}
	moveArgoLimits(canary, getChild(deployment, "spec"))
	return []any{deployment, r}
}

// moveArgoLimits moves maxSurge and maxUnavailable to the Deployment.
func moveArgoLimits(canary, deployment map[string]any) {
	rolling := map[string]any{}
	for _, field := range []string{"maxSurge", "maxUnavailable"} {
		if value, ok := takeField[any](canary, field); ok {
			rolling[field] = value
		}
	}
	if len(rolling) > 0 {
		deployment["strategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling}
	}
}

// convertArgoWorkload returns the referenced Deployment, or a new Deployment with the pod template of the Argo
// Rollout.
func convertArgoWorkload(m metav1.ObjectMeta, spec map[string]any) (v1beta1.ObjectRef, map[string]any) {
	if ref := getChild(spec, "workloadRef"); ref != nil {
		return takeWorkloadRef(ref), nil
	}
	of := map[string]any{}
	for _, field := range []string{"replicas", "selector", "template", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"} {
		if value, ok := takeField[any](spec, field); ok {
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

// argoStepConverter converts the steps of Argo. Several steps of Argo become one step of Weir.
type argoStepConverter struct {
	*manifestSource
	all       *templates
	namespace string
	isRouted  bool
	// pods is the value of setCanaryScale; nil means that the pods follow the weight.
	pods   *intstr.IntOrString
	weight int64
	// matches are those of setHeaderRoute. They apply until the route is removed.
	matches []v1beta1.RouteMatch
	// isStepOpen reports whether the next step of Argo may still belong to the latest step of Weir.
	isStepOpen bool
	steps      []v1beta1.Step
	checks     []v1beta1.Check
}

func convertArgoCanary(s *manifestSource, namespace string, canary map[string]any, all *templates) v1beta1.Release {
	var release v1beta1.Release
	a := &argoStepConverter{manifestSource: s, all: all, namespace: namespace, isRouted: convertArgoRouting(s, canary, &release)}
	for i, step := range takeObjects(canary, "steps") {
		a.convertStep(step)
		s.noteRemaining(len(a.steps), "spec.strategy.canary.steps["+strconv.Itoa(i)+"]", step)
	}
	release.Steps = completeSteps(s, a.steps)
	if background := getChild(canary, "analysis"); background != nil {
		first, _ := takeNumber(background, "startingStep")
		if first > 0 {
			s.addNote(0, "spec.strategy.canary.analysis.startingStep: %d: list the steps of each check in its field steps", first)
		}
		a.addAnalysis(background, 0)
	}
	if len(a.checks) > 0 {
		release.Analysis = &v1beta1.Analysis{Checks: a.checks}
	}
	return release
}

// convertStep converts one step of Argo.
func (a *argoStepConverter) convertStep(convertStep map[string]any) {
	if weight, ok := takeNumber(convertStep, "setWeight"); ok {
		a.setWeight(weight)
		a.isStepOpen = false
	}
	if scale := getChild(convertStep, "setCanaryScale"); scale != nil {
		a.setScale(scale)
	}
	if header := getChild(convertStep, "setHeaderRoute"); header != nil {
		a.setHeaderRoute(header)
	}
	if wait := getChild(convertStep, "pause"); wait != nil {
		duration, _ := takeField[any](wait, "duration")
		a.setPause(duration)
	}
	if analysis := getChild(convertStep, "analysis"); analysis != nil {
		if len(a.steps) == 0 {
			a.startStep()
		}
		a.addAnalysis(analysis, len(a.steps))
	}
}

func (a *argoStepConverter) setWeight(weight int64) {
	routed := a.matches
	if a.weight = weight; weight > 0 {
		a.matches = nil
	}
	a.startStep()
	if a.matches == nil && routed != nil {
		a.addHint(len(a.steps), "setHeaderRoute: a step of Weir routes by header or by percentage: the header route ends when the percentage begins")
	}
}

// startStep adds a step with the current settings, or updates the latest step if it is fresh.
func (a *argoStepConverter) startStep() {
	if !a.isStepOpen || len(a.steps) == 0 {
		a.steps = append(a.steps, v1beta1.Step{})
	}
	last := &a.steps[len(a.steps)-1]
	last.Replicas, last.Pause = a.stepReplicas(), pauseFor(0)
	last.Matches, last.Traffic = a.matches, nil
	if a.isRouted && a.weight > 0 && a.matches == nil {
		last.Traffic = new(strconv.FormatInt(a.weight, 10) + "%")
	}
}

// stepReplicas returns the replicas of a step: the value of setCanaryScale, or the weight.
func (a *argoStepConverter) stepReplicas() *intstr.IntOrString {
	switch {
	case a.pods == nil && a.weight == 0:
		a.addHint(len(a.steps), "Argo's step adds no pods; Weir needs at least one, so this step adds one")
		return new(intstr.FromInt32(1))
	case a.pods == nil:
		return percentage(a.weight)
	case a.weight > 0 && !a.isRouted:
		a.addNote(len(a.steps), "setWeight: %d: there is no router, and setCanaryScale sets the number of pods", a.weight)
	}
	return a.pods
}

func (a *argoStepConverter) setScale(setScale map[string]any) {
	a.pods = nil
	if n, ok := takeNumber(setScale, "replicas"); ok {
		a.pods = new(intstr.FromInt32(int32(n)))
	} else if n, ok := takeNumber(setScale, "weight"); ok {
		a.pods = percentage(n)
	}
	_, _ = takeField[bool](setScale, "matchTrafficWeight") // pods == nil has this meaning
	a.startStep()
	a.isStepOpen = true
}

// setHeaderRoute converts a setHeaderRoute.
func (a *argoStepConverter) setHeaderRoute(header map[string]any) {
	takeText(header, "name")
	var match v1beta1.RouteMatch
	for i, m := range takeObjects(header, "match") {
		match.Headers = append(match.Headers, convertValueMatch(takeText(m, "headerName"), getChild(m, "headerValue")))
		a.noteRemaining(len(a.steps)+1, "setHeaderRoute.match["+strconv.Itoa(i)+"]", m)
	}
	a.matches = nil
	if len(match.Headers) == 0 {
		return // the route is removed; the next step of Weir has no matches
	}
	a.matches = []v1beta1.RouteMatch{match}
	a.startStep()
	a.isStepOpen = true
	switch {
	case !a.isRouted:
		a.addHint(len(a.steps), "setHeaderRoute: there is no router: name one in trafficRoutings")
	case a.weight > 0:
		a.addNote(len(a.steps), "setWeight: %d: a step of Weir routes by header or by percentage, and this step has setHeaderRoute", a.weight)
	}
}

// setPause sets the pause of the latest step.
func (a *argoStepConverter) setPause(duration any) {
	if len(a.steps) == 0 || a.steps[len(a.steps)-1].Pause.Duration == nil {
		a.startStep()
	}
	last := &a.steps[len(a.steps)-1]
	a.isStepOpen = false
	switch seconds, ok := parseSeconds(duration); {
	case duration == nil:
		last.Pause = &v1beta1.Pause{}
	case ok:
		*last.Pause.Duration += int32(seconds)
	default:
		a.addNote(len(a.steps), "pause.duration: %v is not a duration: the step waits for an approval", duration)
		last.Pause = &v1beta1.Pause{}
	}
}

// parseSeconds parses a duration of Flagger, or of Argo, where it may be a number.
func parseSeconds(value any) (int64, bool) {
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

// addAnalysis adds the checks of analysis templates to one step, or to all if step is 0.
func (a *argoStepConverter) addAnalysis(of map[string]any, step int) {
	args := map[string]string{}
	for _, arg := range takeObjects(of, "args") {
		name, value := takeText(arg, "name"), takeText(arg, "value")
		if value == "" {
			a.addHint(step, "analysis.args[%s]: the source has no fixed value: write one into args", argName(name))
		}
		a.noteRemaining(step, "analysis.args["+name+"]", arg)
		args[argName(name)] = a.renameService(value, step, argName(name))
	}
	for _, t := range takeObjects(of, "templates") {
		name, kind := takeText(t, "templateName"), "Check"
		if cluster, _ := takeField[bool](t, "clusterScope"); cluster {
			kind = "ClusterCheck"
		}
		a.noteRemaining(step, "analysis.templates["+name+"]", t)
		names := a.all.checks[name]
		if names == nil {
			a.addHint(step, "analysis: the manifests have no check of the template %s: convert the template, too, or write a Check", name)
			names = []string{name}
		}
		for _, check := range names {
			a.addCheck(&v1beta1.CheckRef{Kind: kind, Name: check, Args: maps.Clone(args)}, step)
		}
	}
}

// renameService replaces the name of Argo's canary Service in the value of an argument.
func (a *argoStepConverter) renameService(value string, step int, arg string) string {
	renamed, names := a.all.services.rename(a.namespace, value)
	for _, name := range names {
		if !a.isRouted {
			a.addHint(step, "analysis.args[%s]: %s is not a Service of Weir, and Weir creates no canary Service for a Rollout without trafficRoutings", arg, name)
			return value
		}
		a.addHint(step, "analysis.args[%s]: %s is now %s, the Service that Weir creates for each release", arg, name, a.all.services[a.namespace+"/"+name])
	}
	return renamed
}

// addCheck adds a check to one step, or to all if step is 0.
func (a *argoStepConverter) addCheck(ref *v1beta1.CheckRef, step int) {
	name := toLabel(ref.Name)
	at := slices.IndexFunc(a.checks, func(c v1beta1.Check) bool { return c.Name == name })
	if at < 0 {
		at = len(a.checks)
		a.checks = append(a.checks, v1beta1.Check{Name: name, Use: ref})
	} else if step == 0 {
		a.checks[at].Steps = nil
	}
	if step > 0 {
		a.checks[at].Steps = append(a.checks[at].Steps, int32(step))
	}
}

// convertArgoBlueGreen returns a release with two steps: all new pods, then all requests.
func convertArgoBlueGreen(s *manifestSource, namespace string, green map[string]any, all *templates) v1beta1.Release {
	r := &trafficRoutes{manifestSource: s}
	r.ref.Service = takeText(green, "activeService")
	preview := takeText(green, "previewService")
	first := v1beta1.Step{Replicas: percentage(100), Pause: pauseFor(0)}
	if n, ok := takeNumber(green, "previewReplicaCount"); ok {
		first.Replicas = new(intstr.FromInt32(int32(n)))
	}
	automatic, given := takeField[bool](green, "autoPromotionEnabled")
	if wait, ok := takeNumber(green, "autoPromotionSeconds"); ok {
		first.Pause = pauseFor(wait)
	} else if given && !automatic {
		first.Pause = &v1beta1.Pause{}
	}
	release := v1beta1.Release{Steps: []v1beta1.Step{first, {Replicas: percentage(100), Pause: pauseFor(0)}}}
	a := &argoStepConverter{manifestSource: s, all: all, namespace: namespace, isRouted: r.setRouting(&release)}
	r.noteCanaryService(preview, a.isRouted)
	if !a.isRouted {
		s.addHint(0, unroutedBlueGreen)
	}
	for at, field := range []string{"prePromotionAnalysis", "postPromotionAnalysis"} {
		if analysis := getChild(green, field); analysis != nil {
			a.addAnalysis(analysis, at+1)
		}
	}
	if len(a.checks) > 0 {
		release.Analysis = &v1beta1.Analysis{Checks: a.checks}
	}
	return release
}
