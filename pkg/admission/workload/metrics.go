// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// verdict is the outcome of an admission request, as a label of the metric.
type verdict string

const (
	// verdictPassed means that the update is admitted unchanged.
	verdictPassed verdict = "passed"
	// verdictHeld means that the update is admitted with a hold.
	verdictHeld verdict = "held"
	// verdictKept means that the workload was held before and stays held.
	verdictKept verdict = "kept"
	// verdictRefused means that the update is refused, because the workload could not be held.
	verdictRefused verdict = "refused"
	// verdictUndecided means that an error occurred, so that the webhook's failure policy decides.
	verdictUndecided verdict = "undecided"
)

var admissionDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Name: "weir_admission_duration_seconds", StabilityLevel: metrics.ALPHA,
	Help:    "How long the webhook took to judge an update of a workload, by its verdict.",
	Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3},
}, []string{"verdict"})

func init() { legacyregistry.MustRegister(admissionDuration) }
