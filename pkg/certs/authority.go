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
	// keyBundle is what is published. Nobody reads it back.
	keyBundle = "ca-bundle.crt"
)

// authority is what the Secret of the certificate authority says.
type authority struct {
	// current signs.
	current pair
	// next is published and signs nothing yet.
	next pair
	// old signs no more and is still trusted.
	old pair
	// cross is current, signed by the one before. It goes with each certificate, for
	// clients that read the authorities only when they start, as etcd does.
	cross pair
	// confirmed is when next was seen everywhere.
	confirmed time.Time
	// switched is when current began to sign.
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

func (a *authority) data() map[string][]byte {
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

// bundle is everything that is to be trusted. Its order is that of time, so that
// Switch, which changes nobody's trust, need not be published.
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

// move is what happens to the authority.
type move string

const (
	stay     move = ""
	found    move = "Found"   // make one, since none can sign
	prepare  move = "Prepare" // make the next one and publish it
	confirm  move = "Confirm" // note that the next one is known
	handOver move = "Switch"  // sign with the next one
	retire   move = "Retire"  // trust the old one no more
)

// seen is what was observed around the authority.
type seen struct {
	// known reports whether the bundle is published everywhere.
	known bool
	// signed reports whether the current authority has signed every certificate.
	signed bool
	// asked reports whether a user wants the authority replaced now.
	asked bool
}

// next is the move to make now. If there is none, it is when to look again; the
// zero time is when something changes.
func (p *Policy) next(a *authority, s seen, now time.Time) (move, time.Time) {
	switch {
	case !a.current.signs(now) && a.next.signs(now):
		return handOver, now
	case !a.current.signs(now):
		return found, now
	case a.next.cert != nil:
		return p.beforeSwitch(a, s, now)
	case a.old.cert != nil:
		return p.beforeRetire(a, s, now)
	case s.asked || !now.Before(a.current.due()):
		return prepare, now
	}
	return stay, a.current.due()
}

// beforeSwitch leads from Prepare to Switch.
func (p *Policy) beforeSwitch(a *authority, s seen, now time.Time) (move, time.Time) {
	since := p.since(a.confirmed, now)
	switch {
	case !a.next.signs(now):
		return prepare, now
	case !s.known:
		return stay, time.Time{}
	case since < 0:
		return confirm, now
	case since < p.Overlap:
		return stay, a.confirmed.Add(p.Overlap)
	}
	return handOver, now
}

// beforeRetire leads from Switch to Retire.
func (p *Policy) beforeRetire(a *authority, s seen, now time.Time) (move, time.Time) {
	since := p.since(a.switched, now)
	switch {
	case !s.signed:
		return stay, time.Time{}
	case since >= 0 && since < p.Overlap && a.old.valid(now):
		return stay, a.switched.Add(p.Overlap)
	}
	return retire, now
}

// since is how long ago a time was, and negative if there is none. A time further ahead
// than the overlap counts as none: the clock was set back.
func (p *Policy) since(then, now time.Time) time.Duration {
	if then.IsZero() || then.After(now.Add(p.Overlap)) {
		return -1
	}
	return max(0, now.Sub(then))
}

// carryOut makes the move.
func (p *Policy) carryOut(a authority, m move, now time.Time) (*authority, error) {
	var err error
	switch m {
	case found:
		old := a.current
		a = authority{switched: now}
		if old.valid(now) {
			// Its key is lost. What it has signed is served for a moment more.
			a.old = old.withoutKey()
		}
		a.current, err = newAuthority(now, p.AuthorityLife)
	case prepare:
		a.confirmed = time.Time{}
		a.next, err = newAuthority(now, p.AuthorityLife)
	case confirm:
		a.confirmed = now
	case handOver:
		err = a.promote(now)
	case retire:
		a.old = pair{}
	}
	return &a, err
}

func (a *authority) promote(now time.Time) error {
	old := a.current
	a.current, a.next, a.old, a.cross = a.next, pair{}, pair{}, pair{}
	a.switched, a.confirmed = now, time.Time{}
	if old.valid(now) {
		a.old = old.withoutKey()
	}
	if !old.signs(now) {
		return nil
	}
	var err error
	a.cross, err = cross(a.current, old)
	return err
}
