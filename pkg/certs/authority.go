// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Keys of the Secret of the certificate authority.
const (
	keyCurrent, keyCurrentKey = "ca.crt", "ca.key"
	keyNext, keyNextKey       = "next.crt", "next.key"
	keyOld                    = "old.crt"
	keyCross                  = "cross.crt"
	keyConfirmed              = "confirmed"
	keySwitched               = "switched"
	// keyBundle is the published bundle, for users. The package never reads it.
	keyBundle = "ca-bundle.crt"
)

// authority is the content of the Secret of the certificate authorities (CAs).
type authority struct {
	// current is the CA that signs certificates.
	current pair
	// next is the CA that replaces current. It is published, and signs nothing yet.
	next pair
	// old is the previous CA. It signs nothing, and clients still trust it.
	old pair
	// cross is the current CA's certificate, signed by the previous CA. It is part of each certificate
	// chain, for clients that read the bundle only when they start, such as etcd.
	cross pair
	// confirmed is the time at which the bundle with next was observed in all places.
	confirmed time.Time
	// switched is the time at which current began to sign.
	switched time.Time
}

func readAuthority(data map[string][]byte) *authority {
	return &authority{
		current:   readPair(data[keyCurrent], data[keyCurrentKey]),
		next:      readPair(data[keyNext], data[keyNextKey]),
		old:       readPair(data[keyOld], nil),
		cross:     readPair(data[keyCross], nil),
		confirmed: readTime(data[keyConfirmed]),
		switched:  readTime(data[keySwitched]),
	}
}

func (a *authority) toSecretData() map[string][]byte {
	data := map[string][]byte{
		keyCurrent: a.current.certPEM, keyCurrentKey: a.current.keyPEM,
		keyNext: a.next.certPEM, keyNextKey: a.next.keyPEM,
		keyOld: a.old.certPEM, keyCross: a.cross.certPEM,
		keyConfirmed: writeTime(a.confirmed), keySwitched: writeTime(a.switched),
		keyBundle: a.bundle(),
	}
	for key, value := range data {
		if len(value) == 0 {
			delete(data, key)
		}
	}
	return data
}

// bundle returns all certificates to be trusted, ordered by time. So Switch, which does not change the set,
// does not change the bundle either.
func (a *authority) bundle() []byte {
	trusted := []pair{a.current, a.next, a.old}
	trusted = slices.DeleteFunc(trusted, func(p pair) bool { return p.cert == nil })
	slices.SortFunc(trusted, func(a, b pair) int {
		return cmp.Or(a.cert.NotBefore.Compare(b.cert.NotBefore), bytes.Compare(a.certPEM, b.certPEM))
	})
	var bundle []byte
	for _, p := range trusted {
		bundle = append(bundle, p.certPEM...)
	}
	return bundle
}

func readTime(text []byte) time.Time {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return time.Time{}
	}
	return t
}

func writeTime(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return []byte(t.UTC().Format(time.RFC3339))
}

// move is a step of the replacement of the CA.
type move string

const (
	noMove           move = ""
	createAuthority  move = "Found"   // create a CA, because none can sign
	prepareNext      move = "Prepare" // create the next CA and publish it
	confirmPublished move = "Confirm" // record that the next CA is published everywhere
	switchToNext     move = "Switch"  // sign with the next CA
	retireOld        move = "Retire"  // remove the old CA from the bundle
)

// observation is the observed use of the CA.
type observation struct {
	// isPublished reports whether the bundle is published everywhere.
	isPublished bool
	// allSigned reports whether the current CA has signed every certificate.
	allSigned bool
	// isRotationRequested reports whether a user requested a new CA.
	isRotationRequested bool
}

// nextMove returns the move to make now, or stay and the time of the next check. A zero time means that only a
// change requires a check.
func (p *Policy) nextMove(a *authority, s observation, now time.Time) (move, time.Time) {
	switch {
	case !a.current.canSign(now) && a.next.canSign(now):
		return switchToNext, now
	case !a.current.canSign(now):
		return createAuthority, now
	case a.next.cert != nil:
		return p.beforeSwitch(a, s, now)
	case a.old.cert != nil:
		return p.beforeRetire(a, s, now)
	case s.isRotationRequested || !now.Before(a.current.renewalTime()):
		return prepareNext, now
	}
	return noMove, a.current.renewalTime()
}

// beforeSwitch returns the moves from Prepare to Switch.
func (p *Policy) beforeSwitch(a *authority, s observation, now time.Time) (move, time.Time) {
	since := p.elapsed(a.confirmed, now)
	switch {
	case !a.next.canSign(now):
		return prepareNext, now
	case !s.isPublished:
		return noMove, time.Time{}
	case since < 0:
		return confirmPublished, now
	case since < p.Overlap:
		return noMove, a.confirmed.Add(p.Overlap)
	}
	return switchToNext, now
}

// beforeRetire returns the moves from Switch to Retire.
func (p *Policy) beforeRetire(a *authority, s observation, now time.Time) (move, time.Time) {
	since := p.elapsed(a.switched, now)
	switch {
	case !s.allSigned:
		return noMove, time.Time{}
	case since >= 0 && since < p.Overlap && a.old.isValid(now):
		return noMove, a.switched.Add(p.Overlap)
	}
	return retireOld, now
}

// elapsed returns the time that has passed since then; negative if then is zero. A time that is further in
// the future than Overlap counts as zero: the clock was set back.
func (p *Policy) elapsed(then, now time.Time) time.Duration {
	if then.IsZero() || then.After(now.Add(p.Overlap)) {
		return -1
	}
	return max(0, now.Sub(then))
}

// applyMove returns the authority after a move.
func (p *Policy) applyMove(a authority, m move, now time.Time) (*authority, error) {
	var err error
	switch m {
	case createAuthority:
		old := a.current
		a = authority{switched: now}
		if old.isValid(now) {
			// The key of the old CA is lost. Clients must trust the old CA until the certificates that it
			// signed are replaced.
			a.old = old.withoutKey()
		}
		a.current, err = newAuthority(now, p.AuthorityLife)
	case prepareNext:
		a.confirmed = time.Time{}
		a.next, err = newAuthority(now, p.AuthorityLife)
	case confirmPublished:
		a.confirmed = now
	case switchToNext:
		err = a.promote(now)
	case retireOld:
		a.old = pair{}
	}
	return &a, err
}

func (a *authority) promote(now time.Time) error {
	old := a.current
	a.current, a.next, a.old, a.cross = a.next, pair{}, pair{}, pair{}
	a.switched, a.confirmed = now, time.Time{}
	if old.isValid(now) {
		a.old = old.withoutKey()
	}
	if !old.canSign(now) {
		return nil
	}
	var err error
	a.cross, err = crossSign(a.current, old)
	return err
}
