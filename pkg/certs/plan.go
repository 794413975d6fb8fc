// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Policy lists the certificates and their lifetimes.
type Policy struct {
	Certificates []Certificate
	// AuthorityLife and Life are the lifetimes of CAs and of certificates. They are renewed after two
	// thirds of that time.
	AuthorityLife, Life time.Duration
	// Overlap is how long a new CA is published before it signs, and how long the old CA stays trusted
	// after all its certificates were replaced.
	Overlap time.Duration
}

// State is the observed state.
type State struct {
	// Secrets are the data of the existing Secrets, by name.
	Secrets map[string]map[string][]byte
	// RotationRequested reports whether a user requested a new CA.
	RotationRequested bool
	// Published reports whether all targets have the bundle.
	Published func(bundle []byte) bool
}

// Write is the desired data of a Secret.
type Write struct {
	Secret string
	Data   map[string][]byte
	// Reason is the reason, for the log.
	Reason string
}

// Plan is what must be done now.
type Plan struct {
	// Writes are independent of each other.
	Writes []Write
	// FulfilsRotation reports whether the first write fulfils the request for a new CA.
	FulfilsRotation bool
	// Bundle is the bundle to publish; empty until a CA is stored.
	Bundle []byte
	// Wake is the time of the next check; zero if only a change requires one.
	Wake time.Time
}

// Plan returns the writes for the observed state. A CA is stored before it signs or is published.
func (p *Policy) Plan(s State, now time.Time) (Plan, error) {
	now = now.Truncate(time.Second)
	data := s.Secrets[AuthoritySecret]
	a := readAuthority(data)
	m, wake := p.nextMove(a, p.observe(s, a), now)
	if m != noMove {
		moved, err := p.applyMove(*a, m, now)
		if err != nil {
			return Plan{}, err
		}
		return Plan{Writes: []Write{{AuthoritySecret, moved.toSecretData(), string(m)}}, FulfilsRotation: m == prepareNext || m == createAuthority}, nil
	}
	if !equalData(data, a.toSecretData()) {
		return Plan{Writes: []Write{{AuthoritySecret, a.toSecretData(), "Repair"}}}, nil
	}
	plan := Plan{Bundle: a.bundle(), Wake: wake}
	for i := range p.Certificates {
		c := &p.Certificates[i]
		w, due, err := p.planCertificate(c, s.Secrets[c.Secret], a, now)
		if err != nil {
			return Plan{}, err
		}
		if w != nil {
			plan.Writes = append(plan.Writes, *w)
		}
		plan.Wake = earlierTime(plan.Wake, due)
	}
	return plan, nil
}

// observe determines whether the bundle is published everywhere, and whether the current CA has signed all
// certificates.
func (p *Policy) observe(s State, a *authority) observation {
	bundle := a.bundle()
	l := observation{isPublished: s.Published(bundle), allSigned: true, isRotationRequested: s.RotationRequested}
	for i := range p.Certificates {
		data := s.Secrets[p.Certificates[i].Secret]
		cert := readCertificate(data).cert
		l.isPublished = l.isPublished && bytes.Equal(data[corev1.ServiceAccountRootCAKey], bundle)
		l.allSigned = l.allSigned && a.current.cert != nil && cert != nil && cert.CheckSignatureFrom(a.current.cert) == nil
	}
	return l
}

// planCertificate returns the write for one certificate, or nil, and the time at which the certificate must be
// renewed.
func (p *Policy) planCertificate(c *Certificate, data map[string][]byte, a *authority, now time.Time) (*Write, time.Time, error) {
	have := readCertificate(data)
	why := c.reissueReason(have, a, now)
	if why != "" {
		var err error
		if have, err = a.issue(*c, now, p.Life); err != nil {
			return nil, time.Time{}, fmt.Errorf("issuing the certificate of %s: %w", c.Secret, err)
		}
	}
	want := certificateData(have, a, now)
	if equalData(data, want) {
		return nil, have.renewalTime(), nil
	}
	if why == "" {
		why = "what it goes with has changed"
	}
	return &Write{c.Secret, want, why}, have.renewalTime(), nil
}

func equalData(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
