// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var expirationSeconds = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "weir", Subsystem: "certificate", Name: "expiration_timestamp_seconds",
	Help:           "When the certificate that is stored in a Secret ends, in seconds since 1970.",
	StabilityLevel: metrics.ALPHA,
}, []string{"secret"})

func init() {
	legacyregistry.MustRegister(expirationSeconds)
}

// setExpirationMetric sets the metric for a Secret. A certificate that cannot be read counts as expired.
func setExpirationMetric(secret string, data map[string][]byte) {
	p := readCertificate(data)
	if secret == AuthoritySecret {
		p = readAuthority(data).current
	}
	end := 0.0
	if p.cert != nil {
		end = float64(p.cert.NotAfter.Unix())
	}
	expirationSeconds.WithLabelValues(secret).Set(end)
}
