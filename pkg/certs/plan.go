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

// Policy says which certificates there are and how long they last.
type Policy struct {
	Certificates []Certificate
	// AuthorityLife and Life are how long an authority and a certificate last.
	// Each is replaced when two thirds of it have passed.
	AuthorityLife, Life time.Duration
	// Overlap is how long a new authority is known before it signs, and how long
	// the old one is trusted once it has signed nothing that is in use.
	Overlap time.Duration
}

// State is what is there.
type State struct {
	// Secrets are the data of the Secrets that exist, by name.
	Secrets map[string]map[string][]byte
	// Asked reports whether somebody wants a new authority.
	Asked bool
	// Published reports whether a bundle is what everybody outside of the Secrets
	// goes by.
	Published func(bundle []byte) bool
}

// Write is what a Secret should say.
type Write struct {
	Secret string
	Data   map[string][]byte
	// Why is for the log.
	Why string
}

// Plan is what to do now.
type Plan struct {
	// Writes are independent of each other.
	Writes []Write
	// Answered reports whether the first write does what was asked for.
	Answered bool
	// Bundle is what to publish; empty if there is nothing yet that is stored.
	Bundle []byte
	// Wake is when to look again; zero if only a change is worth a look.
	Wake time.Time
}

// Plan decides from what is there. An authority is stored before anything is
// signed with it or published.
func (p *Policy) Plan(s State, now time.Time) (Plan, error) {
	now = now.Truncate(time.Second)
	data := s.Secrets[AuthoritySecret]
	a := readAuthority(data)
	m, wake := p.next(a, p.look(s, a), now)
	if m != stay {
		moved, err := p.carryOut(*a, m, now)
		if err != nil {
			return Plan{}, err
		}
		return Plan{Writes: []Write{{AuthoritySecret, moved.data(), string(m)}}, Answered: m == prepare || m == found}, nil
	}
	if !equal(data, a.data()) {
		return Plan{Writes: []Write{{AuthoritySecret, a.data(), "Repair"}}}, nil
	}
	plan := Plan{Bundle: a.bundle(), Wake: wake}
	for i := range p.Certificates {
		c := &p.Certificates[i]
		w, due, err := p.certificate(c, s.Secrets[c.Secret], a, now)
		if err != nil {
			return Plan{}, err
		}
		if w != nil {
			plan.Writes = append(plan.Writes, *w)
		}
		plan.Wake = earlier(plan.Wake, due)
	}
	return plan, nil
}

// look finds out who goes by what the authority is now.
func (p *Policy) look(s State, a *authority) seen {
	bundle := a.bundle()
	l := seen{known: s.Published(bundle), signed: true, asked: s.Asked}
	for i := range p.Certificates {
		data := s.Secrets[p.Certificates[i].Secret]
		cert := readCertificate(data).cert
		l.known = l.known && bytes.Equal(data[corev1.ServiceAccountRootCAKey], bundle)
		l.signed = l.signed && a.current.cert != nil && cert != nil && cert.CheckSignatureFrom(a.current.cert) == nil
	}
	return l
}

// certificate decides about one certificate, and when to look at it again.
func (p *Policy) certificate(c *Certificate, data map[string][]byte, a *authority, now time.Time) (*Write, time.Time, error) {
	have := readCertificate(data)
	why := c.fault(have, a, now)
	if why != "" {
		var err error
		if have, err = a.issue(*c, now, p.Life); err != nil {
			return nil, time.Time{}, fmt.Errorf("issuing the certificate of %s: %w", c.Secret, err)
		}
	}
	want := certificateData(have, a, now)
	if equal(data, want) {
		return nil, have.due(), nil
	}
	if why == "" {
		why = "what it goes with has changed"
	}
	return &Write{c.Secret, want, why}, have.due(), nil
}

func equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
