// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestStories(t *testing.T) {
	t.Parallel()
	begun := []string{
		"day 0 0s: weir-apiserver-ca: Found",
		"day 0 0s: weir-apiserver-tls: there is none",
		"day 0 0s: 1 published",
	}
	after := func(more ...string) []string { return append(slices.Clone(begun), more...) }
	tests := map[string]struct {
		happens func(s *story)
		want    []string
	}{
		"a quiet year": {
			func(s *story) { s.pass(200 * day) },
			after(),
		},
		"a certificate is due at two thirds of its life": {
			func(s *story) { s.pass(500 * day) },
			after(
				"day 243 8h0m0s: weir-apiserver-tls: it is due",
				"day 486 16h0m0s: weir-apiserver-tls: it is due",
			),
		},
		"an authority is replaced when somebody asks": {
			func(s *story) {
				s.pass(day)
				s.state.RotationRequested = true
				s.pass(day)
			},
			after(
				"day 1 0s: weir-apiserver-ca: Prepare",
				"day 1 0s: weir-apiserver-tls: what it goes with has changed",
				"day 1 0s: 2 published",
				"day 1 0s: weir-apiserver-ca: Confirm",
				"day 1 10m0s: weir-apiserver-ca: Switch",
				"day 1 10m0s: weir-apiserver-tls: another authority has signed it",
				"day 1 20m0s: weir-apiserver-ca: Retire",
				"day 1 20m0s: weir-apiserver-tls: what it goes with has changed",
				"day 1 20m0s: 1 published",
			),
		},
		"nothing is signed with what nobody knows": {
			func(s *story) {
				s.pass(day)
				s.state.RotationRequested, s.deaf = true, true
				s.pass(100 * day)
				s.say("everybody listens again")
				s.deaf = false
				s.pass(5 * time.Minute)
			},
			after(
				"day 1 0s: weir-apiserver-ca: Prepare",
				"day 1 0s: weir-apiserver-tls: what it goes with has changed",
				"day 101 0s: everybody listens again",
				"day 101 0s: 2 published",
				"day 101 0s: weir-apiserver-ca: Confirm",
			),
		},
		"the authority is deleted": {
			func(s *story) {
				s.pass(day)
				s.broken = true
				delete(s.state.Secrets, AuthoritySecret)
				s.pass(day)
			},
			after(
				"day 1 0s: weir-apiserver-ca: Found",
				"day 1 0s: weir-apiserver-tls: another authority has signed it",
				"day 1 0s: 1 published",
			),
		},
		"the certificate is deleted": {
			func(s *story) {
				s.pass(day)
				s.broken = true
				delete(s.state.Secrets, ServingSecret)
				s.pass(day)
			},
			after("day 1 0s: weir-apiserver-tls: there is none"),
		},
		"the key of the authority is damaged": {
			func(s *story) {
				s.pass(day)
				s.breaks(AuthoritySecret, func(data map[string][]byte) { data[keyCurrentKey] = []byte("nonsense") })
				s.pass(day)
			},
			after(
				"day 1 0s: weir-apiserver-ca: Found",
				"day 1 0s: weir-apiserver-tls: another authority has signed it",
				"day 1 0s: 2 published",
				"day 1 10m0s: weir-apiserver-ca: Retire",
				"day 1 10m0s: weir-apiserver-tls: what it goes with has changed",
				"day 1 10m0s: 1 published",
			),
		},
		"what is only said for people is damaged": {
			func(s *story) {
				s.pass(day)
				s.breaks(AuthoritySecret, func(data map[string][]byte) { data[keyBundle], data[keyOld] = nil, []byte("nonsense") })
				s.pass(day)
			},
			after("day 1 0s: weir-apiserver-ca: Repair"),
		},
		"the key of another certificate": {
			func(s *story) {
				s.pass(day)
				s.breaks(ServingSecret, func(data map[string][]byte) {
					data[corev1.TLSPrivateKeyKey] = s.state.Secrets[AuthoritySecret][keyCurrentKey]
				})
				s.pass(day)
			},
			after("day 1 0s: weir-apiserver-tls: its key is not there"),
		},
		"other names": {
			func(s *story) {
				s.pass(day)
				s.policy.Certificates[0] = ServingCertificate("elsewhere", "weir-apiserver")
				s.broken, s.deaf = true, true // this caller looks for the old name
				s.pass(day)
			},
			after("day 1 0s: weir-apiserver-tls: it is for something else"),
		},
		"all were down when the certificate ended": {
			func(s *story) {
				s.pass(day)
				s.now, s.broken = s.now.Add(730*day), true
				s.pass(day)
			},
			after("day 731 0s: weir-apiserver-tls: it is not valid now"),
		},
		"all were down when the authority ended": {
			func(s *story) {
				s.pass(day)
				s.now, s.broken = s.now.Add(4000*day), true
				s.pass(day)
			},
			after(
				"day 4001 0s: weir-apiserver-ca: Found",
				"day 4001 0s: weir-apiserver-tls: it is not valid now",
				"day 4001 0s: 1 published",
			),
		},
		"the clock jumps a year and back": {
			func(s *story) {
				s.pass(day)
				s.now, s.broken = s.now.Add(400*day), true
				s.pass(time.Hour)
				s.now, s.broken = s.now.Add(-400*day), true
				s.pass(day)
			},
			after(
				"day 401 0s: weir-apiserver-tls: it is not valid now",
				"day 1 1h0m0s: weir-apiserver-tls: it is not valid now",
			),
		},
		"the clock jumps twenty years and back": {
			func(s *story) {
				s.pass(day)
				s.now, s.broken = s.now.Add(7300*day), true
				s.pass(time.Hour)
				s.now, s.broken = s.now.Add(-7300*day), true
				s.pass(day)
			},
			after(
				"day 7301 0s: weir-apiserver-ca: Found",
				"day 7301 0s: weir-apiserver-tls: it is not valid now",
				"day 7301 0s: 1 published",
				"day 1 1h0m0s: weir-apiserver-ca: Found",
				"day 1 1h0m0s: weir-apiserver-tls: it is not valid now",
				"day 1 1h0m0s: 1 published",
			),
		},
		"the clock is set back between Confirm and Switch": {
			func(s *story) {
				s.pass(30 * day)
				s.state.RotationRequested = true
				s.pass(time.Minute)
				s.now = s.now.Add(-10 * time.Minute)
				s.pass(time.Hour)
			},
			after(
				"day 30 0s: weir-apiserver-ca: Prepare",
				"day 30 0s: weir-apiserver-tls: what it goes with has changed",
				"day 30 0s: 2 published",
				"day 30 0s: weir-apiserver-ca: Confirm",
				"day 30 10m0s: weir-apiserver-ca: Switch",
				"day 30 10m0s: weir-apiserver-tls: another authority has signed it",
				"day 30 20m0s: weir-apiserver-ca: Retire",
				"day 30 20m0s: weir-apiserver-tls: what it goes with has changed",
				"day 30 20m0s: 1 published",
			),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			tt.happens(s)
			if diff := cmp.Diff(tt.want, s.log); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// For thirty years, certificates and CAs are replaced in time. After each write, all clients can verify all
// served certificates.
func TestThirtyYears(t *testing.T) {
	t.Parallel()
	s := newStory(t, EtcdCertificates("weir-system", "weir-etcd")...)
	s.pass(30 * 365 * day)
	count := map[string]int{}
	for _, line := range s.log {
		for _, word := range []string{"Found", "Prepare", "Confirm", "Switch", "Retire"} {
			if bytes.HasSuffix([]byte(line), []byte(AuthoritySecret+": "+word)) {
				count[word]++
			}
		}
	}
	want := map[string]int{"Found": 1, "Prepare": 4, "Confirm": 4, "Switch": 4, "Retire": 4}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("moves (-want +got)\n%s", diff)
	}
}

// etcd reads the CA bundle only when it starts. It can verify certificates of the next CA as long as the CA
// that it has read is valid.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pass(day)
	before := s.published
	s.state.RotationRequested = true
	s.pass(day)
	if bytes.Contains(s.published, before) {
		t.Fatal("the authority is still the same")
	}
	if err := s.verify(before, false); err == nil {
		t.Error("without the chain it should not be possible")
	}
	if err := s.verify(before, true); err != nil {
		t.Errorf("with the chain: %v", err)
	}
}

// A CA is stored before it signs anything or is published. If two replicas start at once, only one can
// store its CA.
func TestStoredFirst(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	plan, err := s.policy.Plan(s.state, s.now)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Writes) != 1 || plan.Writes[0].Secret != AuthoritySecret || len(plan.Bundle) != 0 {
		t.Errorf("want nothing but the authority: %+v", plan)
	}
}

// This table lists the issued certificates.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := newStory(t, EtcdCertificates("weir-system", "weir-etcd")...)
	s.pass(time.Hour)
	type row struct {
		Hosts          []string
		Server, Client bool
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.published)
	can := func(secret, host string, usage x509.ExtKeyUsage) bool {
		_, err := readCertificate(s.state.Secrets[secret]).cert.Verify(x509.VerifyOptions{
			DNSName: host, Roots: pool, CurrentTime: s.now, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		return err == nil
	}
	member := "weir-etcd-2.weir-etcd.weir-system.svc"
	tests := map[string]row{
		ServingSecret: {Hosts: []string{
			"weir-apiserver.weir-system.svc", "weir-apiserver.weir-system.svc.cluster.local", "localhost", "127.0.0.1",
		}, Server: true},
		EtcdServerSecret: {Hosts: []string{member, member + ".cluster.local", "weir-etcd.weir-system.svc", "127.0.0.1"}, Server: true, Client: true},
		EtcdPeerSecret:   {Hosts: []string{member, member + ".cluster.local"}, Server: true, Client: true},
		EtcdClientSecret: {Hosts: []string{""}, Client: true},
	}
	for secret, want := range tests {
		got := row{}
		for _, host := range want.Hosts {
			if can(secret, host, x509.ExtKeyUsageAny) {
				got.Hosts = append(got.Hosts, host)
			}
		}
		got.Server = can(secret, want.Hosts[0], x509.ExtKeyUsageServerAuth)
		got.Client = can(secret, want.Hosts[0], x509.ExtKeyUsageClientAuth)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", secret, diff)
		}
	}
	if s.state.Secrets[EtcdPeerSecret][keyCurrentKey] != nil {
		t.Error("the key of the authority is where pods of etcd see it")
	}
}
