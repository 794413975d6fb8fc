// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
	"github.com/weir-rollouts/weir/test/patience"
)

const webhookPath = "/admission/v1/workloads"

// startWithRollout starts a server with a Rollout whose workload is held.
func startWithRollout(t *testing.T, changes ...func(*apiserver.Options)) *apiservertest.Server {
	t.Helper()
	s := start(t, t.TempDir(), changes...)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if code, answer := do(t, s, "POST", list, "application/json", rollout); code != http.StatusCreated {
		t.Fatalf("creating: %d: %s", code, answer)
	}
	if code, answer := do(t, s, "PATCH", list+"/web/status", "application/merge-patch+json", `{"status":{"phase":"Healthy"}}`); code != http.StatusOK {
		t.Fatalf("writing the status: %d: %s", code, answer)
	}
	return s
}

// sendReview sends an AdmissionReview of an update, and returns the status and whether the update is held.
func sendReview(t *testing.T, address string, certificates ...tls.Certificate) (status int, held bool) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}} //nolint:gosec // self-signed
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+webhookPath, strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer admissionv1.AdmissionReview
	held = json.Unmarshal(body, &answer) == nil && answer.Response != nil && bytes.Contains(answer.Response.Patch, []byte("/spec/paused"))
	return res.StatusCode, held
}

// awaitHeld waits until the webhook has observed the Rollout.
func awaitHeld(t *testing.T, address string, certificates ...tls.Certificate) {
	t.Helper()
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	for {
		status, held := sendReview(t, address, certificates...)
		switch {
		case held:
			return
		case status != http.StatusOK && status != http.StatusInternalServerError: // 500 until the cache has synced
			t.Fatalf("the webhook answers %d", status)
		case ctx.Err() != nil:
			t.Fatalf("an update is not held; the webhook answers %d", status)
		}
	}
}

// The API and the webhook share a port, unless the webhook has its own. The port of the API serves the webhook in
// both cases, so that no update is refused while an installation changes from one to the other.
func TestWebhookHolds(t *testing.T) {
	t.Parallel()
	t.Run("one port", func(t *testing.T) {
		t.Parallel()
		s := startWithRollout(t)
		if s.API != s.Webhook {
			t.Errorf("the API is at %s, but the webhook is at %s", s.API, s.Webhook)
		}
		awaitHeld(t, s.API)
	})
	t.Run("two ports", func(t *testing.T) {
		t.Parallel()
		s := startWithRollout(t, func(o *apiserver.Options) {
			var err error
			if o.WebhookListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		})
		if s.API == s.Webhook {
			t.Errorf("the API and the webhook are both at %s", s.API)
		}
		awaitHeld(t, s.API)
		awaitHeld(t, s.Webhook)
	})
	t.Run("no webhook", func(t *testing.T) {
		t.Parallel()
		s := startWithRollout(t, func(o *apiserver.Options) { o.WebhookPort = 0 })
		if status, _ := sendReview(t, s.API); status != http.StatusUnauthorized {
			t.Errorf("a review is answered with %d, want 401 as on any path of the API", status)
		}
	})
}

// attackerAddress is a client that is not at the address of the other clients of a test.
const attackerAddress = "127.0.0.2"

func dialAttacker(t *testing.T, address string) net.Conn {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Fatal("only Linux has all of 127.0.0.0/8 on the loopback interface")
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerAddress)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}

// dialAttackerTLS returns false if the server refuses the connection.
func dialAttackerTLS(t *testing.T, address string) (*tls.Conn, bool) {
	t.Helper()
	conn := tls.Client(dialAttacker(t, address), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the attacker verifies nothing
	return conn, conn.HandshakeContext(t.Context()) == nil
}

// Clients that send bodies slowly, to the webhook and to the API, do not keep other clients from being served.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := startWithRollout(t)
	awaitHeld(t, s.API)
	attacks := map[string]string{
		"a review without end":    "POST " + webhookPath + " HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 4194304\r\n\r\n{",
		"a small body of nobody":  "POST " + list + " HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"a body of a user":        "POST " + list + " HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"headers without end":     "GET " + list + " HTTP/1.1\r\nHost: weir\r\nX-Slow: ",
		"a verb with a slow body": "POST " + list + "/web/abort HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n",
	}
	for name, text := range attacks {
		for range 25 {
			conn, ok := dialAttackerTLS(t, s.API)
			if !ok {
				t.Fatalf("%s: the server does not accept the connection", name)
			}
			if _, err := conn.Write([]byte(text)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if code, answer := do(t, s, "GET", list+"/web", "", ""); code != http.StatusOK {
			t.Errorf("%s: reading a Rollout: %d: %s", name, code, answer)
		}
		if status, held := sendReview(t, s.API); !held {
			t.Errorf("%s: an update is not held; the webhook answers %d", name, status)
		}
	}
}

// A client that opens as many connections as it can is limited by its address, and other clients are served.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	s := startWithRollout(t)
	awaitHeld(t, s.API)
	accepted := 0
	for range 200 {
		if _, ok := dialAttackerTLS(t, s.API); ok {
			accepted++
		}
	}
	if accepted != apiserver.MaxConnectionsPerAddress {
		t.Errorf("one address has %d connections, want %d", accepted, apiserver.MaxConnectionsPerAddress)
	}
	if code, answer := do(t, s, "GET", list+"/web", "", ""); code != http.StatusOK {
		t.Errorf("reading a Rollout: %d: %s", code, answer)
	}
	awaitHeld(t, s.API)
}

// newClientCertificate returns a client certificate, and its authority in PEM.
func newClientCertificate(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	authorityKey, key := newKey(), newKey()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + "-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	client := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, client, authority, key.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// With --webhook-client-ca-file, only kube-apiserver gets an answer from the webhook. Its certificate gives no access
// to the API on the same port.
func TestWebhookClientCertificates(t *testing.T) {
	t.Parallel()
	kube, authority := newClientCertificate(t, "kube-apiserver")
	other, _ := newClientCertificate(t, "kube-apiserver")
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWithRollout(t, func(o *apiserver.Options) { o.WebhookClientCA = file })
	awaitHeld(t, s.API, kube)
	for name, certificates := range map[string][]tls.Certificate{"no certificate": nil, "a certificate of another authority": {other}} {
		if status, _ := sendReview(t, s.API, certificates...); status != http.StatusUnauthorized {
			t.Errorf("%s: the webhook answers %d, want 401", name, status)
		}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{kube}}} //nolint:gosec // self-signed
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("https://" + s.API + list)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API answers %s to the certificate of the webhook's client, want 401", res.Status)
	}
}
