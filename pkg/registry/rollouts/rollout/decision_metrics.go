// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

var decisionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "weir_decisions_total", StabilityLevel: metrics.ALPHA,
	Help: "Decisions that users sent, by verb, the way they came, and what they were answered.",
}, []string{"verb", "via", "outcome"})

func init() { legacyregistry.MustRegister(decisionsTotal) }

// outcomes map errors to outcomes. The first match counts; any other error is "failed".
var outcomes = []struct {
	name string
	is   func(error) bool
}{
	{"refused", apierrors.IsConflict},
	{"invalid", apierrors.IsInvalid},
	{"invalid", apierrors.IsBadRequest},
	{"invalid", apierrors.IsNotFound},
}

// outcome returns "recorded", "unchanged" if the decision had no effect, or the outcome of the error.
func (a *attempt) outcome(err error) string {
	switch {
	case err == nil && a.decision != 0:
		return "recorded"
	case err == nil:
		return "unchanged"
	}
	for _, o := range outcomes {
		if o.is(err) {
			return o.name
		}
	}
	return "failed"
}

// recordOutcome writes the decision of a request to the audit log, to the log and to the metric. A dry run
// is written to the audit log only.
func (a *attempt) recordOutcome(ctx context.Context, name string, dry bool, err error) {
	if a.command == nil {
		return
	}
	a.addAuditAnnotations(ctx, err)
	if dry {
		return
	}
	outcome := a.outcome(err)
	decisionsTotal.WithLabelValues(string(a.command.Verb), string(a.command.Via), outcome).Inc()
	log := klog.V(2)
	if !log.Enabled() {
		return
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	log.InfoS("Decided", "Rollout", klog.KRef(genericapirequest.NamespaceValue(ctx), name), "verb", a.command.Verb, "via", a.command.Via,
		"user", a.command.User, "step", a.step, "revision", a.revision, "decision", a.decision, "outcome", outcome, "reason", why)
}
