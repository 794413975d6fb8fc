// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// verdict is what was made of an update.
type verdict string

const (
	// verdictPassed is an update that goes as it is.
	verdictPassed verdict = "passed"
	// verdictHeld is one that starts a hold.
	verdictHeld verdict = "held"
	// verdictKept is one of a workload that is held already, and stays so.
	verdictKept verdict = "kept"
	// verdictRefused is one that could not be held.
	verdictRefused verdict = "refused"
	// verdictUndecided is left to the failure policy.
	verdictUndecided verdict = "undecided"
)

var answers = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Name: "weir_admission_duration_seconds", StabilityLevel: metrics.ALPHA,
	Help:    "How long the webhook took to judge an update of a workload, by its verdict.",
	Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3},
}, []string{"verdict"})

func init() { legacyregistry.MustRegister(answers) }
