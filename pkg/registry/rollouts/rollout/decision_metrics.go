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

var decided = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "weir_decisions_total", StabilityLevel: metrics.ALPHA,
	Help: "Decisions that users sent, by verb, the way they came, and what they were answered.",
}, []string{"verb", "via", "outcome"})

func init() { legacyregistry.MustRegister(decided) }

// outcomes name the outcome of a decision by its error. The first row that
// matches counts; an error without a row has failed.
var outcomes = []struct {
	name string
	is   func(error) bool
}{
	{"refused", apierrors.IsConflict},
	{"invalid", apierrors.IsInvalid},
	{"invalid", apierrors.IsBadRequest},
	{"invalid", apierrors.IsNotFound},
}

// outcome is recorded, unchanged if the status was so already, or the name of the error.
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

// recordOutcome writes the decision of a request to the audit log, to the log and
// to the metric. A dry run is in the audit log only.
func (a *attempt) recordOutcome(ctx context.Context, name string, dry bool, err error) {
	if a.command == nil {
		return
	}
	a.annotate(ctx, err)
	if dry {
		return
	}
	outcome := a.outcome(err)
	decided.WithLabelValues(string(a.command.Verb), string(a.command.Via), outcome).Inc()
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
