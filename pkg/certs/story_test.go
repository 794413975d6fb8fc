// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const day = 24 * time.Hour

// start is the time at which each story begins.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// story is one installation: the stored Secrets, the published bundle, and a clock. It carries out plans as
// a Manager does.
type story struct {
	t         *testing.T
	policy    Policy
	now       time.Time
	state     State
	published []byte
	// deaf means that publishing fails.
	deaf bool
	// broken means that the test has damaged something, so that clients may fail until the state has
	// settled.
	broken bool
	log    []string
}

func newStory(t *testing.T, rows ...Certificate) *story {
	s := &story{
		t: t, now: start,
		policy: Policy{
			Certificates:  append([]Certificate{ServingCertificate("weir-system", "weir-apiserver")}, rows...),
			AuthorityLife: 10 * 365 * day, Life: 365 * day, Overlap: 10 * time.Minute,
		},
		broken: true, // there is nothing yet
	}
	s.state = State{
		Secrets:   map[string]map[string][]byte{},
		Published: func(bundle []byte) bool { return bytes.Equal(bundle, s.published) },
	}
	return s
}

// say adds a line to the transcript.
func (s *story) say(format string, args ...any) {
	s.log = append(s.log, span(s.now.Sub(start))+": "+fmt.Sprintf(format, args...))
}

// span formats a duration in days.
func span(d time.Duration) string {
	days := d / day
	return fmt.Sprintf("day %d %s", days, d-days*day)
}

// settle carries out plans until there is nothing more to do at this time.
func (s *story) settle() time.Time {
	s.t.Helper()
	for range 20 {
		plan, err := s.policy.Plan(s.state, s.now)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, w := range plan.Writes {
			s.say("%s: %s", w.Secret, w.Reason)
			s.state.Secrets[w.Secret] = w.Data
			s.state.RotationRequested = s.state.RotationRequested && !plan.FulfilsRotation
			s.check()
		}
		news := len(plan.Bundle) > 0 && !s.deaf && !bytes.Equal(plan.Bundle, s.published)
		if news {
			s.published = plan.Bundle
			s.say("%d published", bytes.Count(plan.Bundle, []byte("BEGIN")))
			s.check()
		}
		if len(plan.Writes) == 0 && !news {
			s.broken = false
			s.check()
			return plan.Wake
		}
	}
	s.t.Fatalf("it never comes to rest:\n%s", s.log)
	return time.Time{}
}

// pass advances the clock, and carries out the plans that become due.
func (s *story) pass(d time.Duration) {
	s.t.Helper()
	end := s.now.Add(d)
	for {
		wake := s.settle()
		if wake.IsZero() || wake.After(end) {
			s.now = end
			return
		}
		s.now = wake
	}
}

// check verifies the invariant after each write: a client with the published bundle can verify the served
// certificates.
func (s *story) check() {
	s.t.Helper()
	if s.broken || s.deaf {
		return
	}
	if err := s.verify(s.published, false); err != nil {
		s.t.Fatalf("%s: a caller cannot check the certificate: %v\n%s", span(s.now.Sub(start)), err, s.log)
	}
}

// verify verifies a certificate with the published bundle.
func (s *story) verify(bundle []byte, chain bool) error {
	served := s.state.Secrets[ServingSecret]
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if chain {
		between.AppendCertsFromPEM(served[corev1.TLSCertKey])
	}
	_, err := readCertificate(served).cert.Verify(x509.VerifyOptions{
		DNSName: "weir-apiserver.weir-system.svc", Roots: roots, Intermediates: between, CurrentTime: s.now,
	})
	return err
}

// breaks damages something. After that, clients may fail for a moment.
func (s *story) breaks(secret string, change func(data map[string][]byte)) {
	s.broken = true
	data := maps.Clone(s.state.Secrets[secret])
	change(data)
	s.state.Secrets[secret] = data
}
