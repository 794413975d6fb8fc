// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	sizeGauge  = newGauge("size_bytes", "Size of the database of the embedded etcd on disk.")
	inUseGauge = newGauge("in_use_bytes", "How much of the database of the embedded etcd has data.")
	limitGauge = newGauge("limit_bytes", "How large the database of the embedded etcd may grow.")
	fullGauge  = newGauge("full", "1 while the embedded etcd refuses writes because its database is at the limit.")

	defragmentations = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "weir", Subsystem: "storage", Name: "defragmentation_seconds",
		Help:           "How long defragmentations of the embedded etcd took, during which requests wait.",
		Buckets:        []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	})
)

func init() {
	legacyregistry.MustRegister(sizeGauge, inUseGauge, limitGauge, fullGauge, defragmentations)
}

func newGauge(name, help string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "weir", Subsystem: "storage", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	})
}

func (u Usage) setMetrics() {
	sizeGauge.Set(float64(u.Size))
	inUseGauge.Set(float64(u.InUse))
	limitGauge.Set(float64(u.Limit))
	fullGauge.Set(0)
	if u.Full {
		fullGauge.Set(1)
	}
}
