// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"
)

// The metric contains the expiration time of the certificate in each Secret; 0 if the Secret has no
// certificate.
func TestEnds(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.settle()
	s.state.Secrets["damaged"] = nil
	for secret, want := range map[string]time.Time{
		AuthoritySecret: start.Add(s.policy.AuthorityLife), ServingSecret: start.Add(s.policy.Life), "damaged": time.Unix(0, 0),
	} {
		setExpirationMetric(secret, s.state.Secrets[secret])
		got, err := testutil.GetGaugeMetricValue(expirationSeconds.WithLabelValues(secret))
		if err != nil {
			t.Fatal(err)
		}
		if at := time.Unix(int64(got), 0).UTC(); at.Sub(want).Abs() > time.Hour {
			t.Errorf("%s ends at %s, want %s", secret, at, want)
		}
	}
}
