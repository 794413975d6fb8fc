// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// question are the flags of plan.
type question struct {
	*app
	*output
	images   map[string]string
	files    []string
	replicas int32
	after    v1beta1.AfterVerb
}

func newPlan(a *app) *cobra.Command {
	q := &question{app: a}
	cmd := a.command("plan NAME", "Say what a release will do, or would", cobra.MaximumNArgs(1), q.run)
	cmd.Long = `Say what the release under way, or the next one, will do step by step, computed by
the code that will do it. Nothing is changed. Exit code 3: the plan has errors.

  kubectl weir plan web --image app=web:v8
  kubectl weir plan -f rollout.yaml -f deployment.yaml    # before they are applied
  kubectl weir plan web --after promote`
	q.output = addOutput(cmd)
	f := cmd.Flags()
	f.StringToStringVar(&q.images, "image", nil, "another image: CONTAINER=IMAGE")
	f.Int32Var(&q.replicas, "replicas", unset, "another number of pods")
	f.StringSliceVarP(&q.files, "filename", "f", nil, "manifest of the workload, of the Rollout, or of both")
	f.StringVar(&q.after.Verb, "after", "", "what would this verb do now?")
	f.Int32Var(&q.after.Step, "step", 0, "of the verb jump")
	f.BoolVar(&q.after.Full, "full", false, "of the verb promote")
	f.Lookup("replicas").DefValue = "" // it is not asked for
	return cmd
}

// unset is a number of pods that nobody has asked for.
const unset = -1

func (q *question) run(ctx context.Context, args []string) error {
	spec := v1beta1.PlanSpec{Images: q.images}
	if q.replicas != unset {
		spec.Replicas = &q.replicas
	}
	if q.after.Verb != "" {
		spec.After = &q.after
	}
	named, err := q.manifests(&spec)
	if err != nil {
		return err
	}
	args = append(args, named...)
	if len(args) == 0 {
		return errors.New("name a Rollout")
	}
	t, err := q.open(ctx, args[0])
	if err != nil {
		return err
	}
	var plan answer[v1beta1.RolloutPlan]
	if equality.Semantic.DeepEqual(spec, v1beta1.PlanSpec{}) {
		plan, err = read[v1beta1.RolloutPlan](ctx, t, "plan")
	} else {
		plan, err = t.forecast(ctx, spec)
	}
	if err != nil {
		return err
	}
	err = q.show(q.output, plan.raw, func(s screen) string { return s.plan(&plan.it) + "Nothing was changed.\n" })
	if err == nil && hasErrors(&plan.it) {
		return &exit{code: exitPerson}
	}
	return err
}

// manifests puts files into the question, and returns the names of Rollouts in them.
func (q *question) manifests(spec *v1beta1.PlanSpec) ([]string, error) {
	if len(q.files) == 0 {
		return nil, nil
	}
	objects, err := readFiles(q.files)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		switch {
		case o.GetKind() == "Rollout" && o.GroupVersionKind().Group == v1beta1.GroupName:
			var r v1beta1.Rollout
			if err := json.Unmarshal(raw, &r); err != nil {
				return nil, fmt.Errorf("reading Rollout %s: %w", o.GetName(), err)
			}
			spec.Rollout = &r.Spec
			names = append(names, r.Name)
		case isWorkload(o):
			spec.Workload.Raw = raw
		}
	}
	return names, nil
}

func hasErrors(p *v1beta1.RolloutPlan) bool {
	return slices.ContainsFunc(p.Status.Findings, func(f v1beta1.Finding) bool { return f.Severity == "Error" })
}

// severities have a word and a colour each.
var severities = map[string][2]string{"Error": {"ERROR", red}, "Warning": {"WARN", yellow}, "Info": {"INFO", dim}}

// findings draws what will go wrong.
func (s screen) findings(p *v1beta1.RolloutPlan) string {
	var b strings.Builder
	for _, f := range p.Status.Findings {
		look := severities[f.Severity]
		word := cmp.Or(look[0], strings.ToUpper(f.Severity))
		text := f.Code + ": " + f.Message
		if f.Object != nil {
			text = strings.ToLower(f.Object.Kind) + "/" + f.Object.Name + ": " + f.Message
		}
		if f.Step > 0 {
			text = fmt.Sprintf("step %d  %s", f.Step, text)
		}
		if f.Fix != "" {
			text += "; what helps: " + f.Fix
		}
		b.WriteString(s.paint(look[1], fmt.Sprintf("%-7s", word)) + s.wrap(text, "       ") + "\n")
	}
	for _, unknown := range p.Status.Unknown {
		b.WriteString(s.paint(dim, "UNSEEN ") + s.wrap(unknown, "       ") + "\n")
	}
	return b.String()
}

// plan draws what a release will do.
func (s screen) plan(p *v1beta1.RolloutPlan) string {
	columns := []column{
		{"STEP", always, true}, {"NEW", 8, true}, {"OLD", 4, true}, {"PODS", 6, true}, {"PEAK", 5, true}, {"READY≥", 3, true},
		{"TRAFFIC", 7, true}, {"LOAD/NEW", 2, true}, {"THEN", always, false}, {"USUALLY", 1, true},
	}
	rows := make([][]string, 0, len(p.Status.Steps))
	for i := range p.Status.Steps {
		step := &p.Status.Steps[i]
		rows = append(rows, []string{
			stepName(step), number(step.Update), number(step.Stable), moves(step.Waves),
			number(step.Peak), number(step.MinReady), percent(step.Traffic), step.PerPod, then(&step.Then), took(step.Usual),
		})
	}
	return s.wrap(s.paint(bold, title(&p.ObjectMeta))+summaryOf(p), "  ") + "\n" + s.table(columns, rows) + s.findings(p)
}

// summaryOf says what was asked, and what the release needs at most.
func summaryOf(p *v1beta1.RolloutPlan) string {
	var parts []string
	for _, container := range slices.Sorted(maps.Keys(p.Spec.Images)) {
		parts = append(parts, container+"="+p.Spec.Images[container])
	}
	if p.Spec.Replicas != nil {
		parts = append(parts, fmt.Sprintf("%d replicas", *p.Spec.Replicas))
	}
	if after := p.Spec.After; after != nil {
		parts = append(parts, "after "+after.Verb)
	}
	if peak := p.Status.Peak; peak.Pods > 0 {
		text := fmt.Sprintf("at most %d pods", peak.Pods)
		if peak.CPU != nil {
			text += ", " + peak.CPU.String() + " CPU"
		}
		if peak.Memory != nil {
			text += ", " + peak.Memory.String() + " memory"
		}
		parts = append(parts, text, fmt.Sprintf("at least %d ready", p.Status.Floor))
	}
	if len(parts) == 0 {
		return ""
	}
	return "   " + strings.Join(parts, " · ")
}

// marks of the states of steps.
var marks = map[string]string{"Done": "✔", "Current": "▶", "Next": "○", "Back": "↻", "End": "✔"}

// stepName is the number of a step, or what else it is, behind its mark.
func stepName(step *v1beta1.PlannedStep) string {
	mark := cmp.Or(marks[step.State], "·") + " "
	if step.Step == 0 {
		return mark + strings.ToLower(step.State)
	}
	return mark + number(step.Step)
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// some is a number, or nothing for none.
func some(n int32) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

func count(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func percent(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%d %%", *n)
}

// mostWaves is how many changes of sizes are written one by one.
const mostWaves = 2

// moves says how many pods start and stop.
func moves(waves []v1beta1.Wave) string {
	var texts []string
	var sum v1beta1.Wave
	for _, w := range waves {
		times := max(w.Times, 1)
		sum.Start, sum.Stop, sum.Times = sum.Start+times*w.Start, sum.Stop+times*w.Stop, sum.Times+times
		texts = append(texts, move(w))
	}
	if len(waves) > mostWaves || sum.Times > int32(len(waves)) {
		return fmt.Sprintf("%s in %d waves", move(sum), sum.Times)
	}
	return strings.Join(texts, ", ")
}

func move(w v1beta1.Wave) string {
	var parts []string
	if w.Start > 0 {
		parts = append(parts, fmt.Sprintf("+%d", w.Start))
	}
	if w.Stop > 0 {
		parts = append(parts, fmt.Sprintf("−%d", w.Stop))
	}
	return strings.Join(parts, " ")
}

// then says what ends a step.
func then(t *v1beta1.Then) string {
	switch {
	case t.Seconds != nil:
		return duration.HumanDuration(time.Duration(*t.Seconds) * time.Second)
	case len(t.Approvers) > 0:
		return t.For + ", " + strings.Join(t.Approvers, ", ")
	case t.You:
		return t.For + ", you"
	case t.For == "none":
		return "goes on"
	}
	return t.For
}

func took(long *metav1.Duration) string {
	if long == nil {
		return ""
	}
	return duration.HumanDuration(long.Duration)
}
