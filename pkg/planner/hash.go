// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// PlanHash returns the hash of a plan without the fields that do not change the meaning of a step
// number. After an edit that changes the hash, the release searches for the step of the new plan that
// matches its pods. TestPlanHashFields lists each field that does not count:
//
//   - pauses, failureThreshold, progressDeadlineSeconds: they only set how long to wait, and each
//     pass reads the current values. The meaning of a step number does not change.
//   - analysis: the stored evidence of each check has a digest of the check (mark), so that
//     evidence from before an edit does not count.
//
// All texts are quoted, so that two different plans never have the same encoding. Sizes are
// encoded as texts, so that 5 and "5" give the same hash.
func PlanHash(r *rollouts.Release) string {
	if r == nil {
		return ""
	}
	h := sha256.New()
	for _, s := range r.Steps {
		fmt.Fprintln(h, stepText(s))
	}
	for _, t := range r.TrafficRoutings {
		fmt.Fprintf(h, "service %q %d\n", t.Service, t.GracePeriodSeconds)
		if t.Ingress != nil {
			fmt.Fprintf(h, "ingress %q %q\n", t.Ingress.Class(), t.Ingress.Name)
		}
		if t.Gateway != nil {
			fmt.Fprintf(h, "route %s\n", quoteText(t.Gateway.HTTPRouteName))
		}
		fmt.Fprintf(h, "custom %q\n", t.CustomNetworkRefs)
	}
	fmt.Fprintf(h, "routing %q extra %t shared %t\n", r.TrafficRouting(), r.ExtraWorkload, r.DisableCanaryService)
	if m := r.PodTemplateMetadata; m != nil {
		// fmt prints maps sorted by key.
		fmt.Fprintf(h, "metadata %q %q\n", m.Annotations, m.Labels)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// stepText encodes which pods and requests a step gives the new version.
func stepText(s rollouts.Step) string {
	return fmt.Sprintf("step %s %s %s %s", quoteText(s.Traffic), formatSize(s.Replicas), formatMatches(s.Matches), formatHeaders(s.RequestHeaderModifier))
}

// BatchPlanHash returns the hash of a release plan. Each field counts (TestBatchPlanHashFields).
func BatchPlanHash(p rollouts.ReleasePlan) string {
	h := sha256.New()
	for _, b := range p.Batches {
		fmt.Fprintf(h, "batch %s\n", formatSize(&b.CanaryReplicas))
	}
	partition := "none"
	if p.BatchPartition != nil {
		partition = strconv.Itoa(int(*p.BatchPartition))
	}
	fmt.Fprintf(h, "partition %s id %q threshold %s policy %q style %q extra %t abort %t revision %q\n", partition, p.RolloutID,
		formatSize(p.FailureThreshold), p.FinalizingPolicy, p.RollingStyle, p.ExtraWorkload, p.Abort, p.Revision)
	if m := p.PodTemplateMetadata; m != nil {
		fmt.Fprintf(h, "metadata %q %q\n", m.Annotations, m.Labels)
	}
	if p.UpdateTemplate != "" {
		fmt.Fprintf(h, "update %q\n", p.UpdateTemplate)
	}
	if p.StableRevision != "" {
		fmt.Fprintf(h, "stable %q\n", p.StableRevision)
	}
	if p.Paused {
		fmt.Fprintln(h, "paused")
	}
	return hex.EncodeToString(h.Sum(nil))
}

// trafficTargetID returns a text that identifies the desired state of Services and routers.
func trafficTargetID(e Effect) string {
	route, isRoute := e.(RouteTraffic)
	if !isRoute {
		return e.String()
	}
	// Use the whole digest: the author of a plan could find two steps with the same 64 bits, and
	// the second step would not wait until the routers have applied its routes.
	sum := sha256.Sum256([]byte(formatWeight(route.Want.Weight) + "\n" + formatMatches(route.Want.Matches) + "\n" + formatHeaders(route.Want.Headers)))
	return route.String() + " " + hex.EncodeToString(sum[:])
}

// quoteText returns a quoted text; "-" for nil.
func quoteText(s *string) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%q", *s)
}

// formatSize returns a number or percentage as quoted text; "-" for nil.
func formatSize(v *intstr.IntOrString) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%q", v.String())
}

// formatMatches returns an unambiguous text for the matches of a route.
func formatMatches(ms []rollouts.RouteMatch) string {
	var out strings.Builder
	for _, m := range ms {
		out.WriteString("[")
		if m.Path != nil {
			out.WriteString("path " + quoteText(m.Path.Type) + quoteText(m.Path.Value))
		}
		out.WriteString(formatValueMatches("header", m.Headers) + formatValueMatches("query", m.QueryParams) + "]")
	}
	return out.String()
}

// formatValueMatches returns an unambiguous text for matches of headers or query parameters.
func formatValueMatches(kind string, vs []rollouts.ValueMatch) string {
	var out strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&out, " %s %s %q %q", kind, quoteText(v.Type), v.Name, v.Value)
	}
	return out.String()
}

// formatHeaders returns an unambiguous text for a header modifier; "-" for nil.
func formatHeaders(m *rollouts.HeaderModifier) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%q %q %q", m.Set, m.Add, m.Remove)
}
