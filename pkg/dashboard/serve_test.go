// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/weir-rollouts/weir/internal/disk"
	"github.com/weir-rollouts/weir/test/patience"
)

// TestReloadTLS replaces the certificate of a server in several ways. New connections get the new one, and
// none fails while certificate and key do not match.
func TestReloadTLS(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(dir string, cert, key []byte) error{
		"together": func(dir string, cert, key []byte) error {
			return disk.ReplaceTogether(dir, map[string][]byte{"tls.crt": cert, "tls.key": key})
		},
		"one after the other": func(dir string, cert, key []byte) error {
			if err := os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			generation := 0
			next := func() string {
				generation++
				host := fmt.Sprintf("generation-%d", generation)
				cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := replace(dir, cert, key); err != nil {
					t.Fatal(err)
				}
				return host
			}
			want := next()
			config, err := ReloadTLS(t.Context(), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), "")
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, http.NotFoundHandler(), tls.NewListener(listener, config)) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			for range 3 {
				shown(t, listener.Addr().String(), want)
				want = next()
			}
			shown(t, listener.Addr().String(), want)
		})
	}
}

// shown waits until new connections get the certificate of a host.
func shown(t *testing.T, address, host string) {
	t.Helper()
	err := patience.Until(t.Context(), "it serves "+host, func(context.Context) error {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // self-signed
		if err != nil {
			t.Errorf("a connection fails: %v", err)
			return nil
		}
		err = conn.ConnectionState().PeerCertificates[0].VerifyHostname(host)
		return errors.Join(err, conn.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClients requires client certificates of the CA in the file.
func TestClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, err := certutil.GenerateSelfSignedCertKey("dashboard", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	clients := filepath.Join(dir, "ca.crt")
	if err := disk.ReplaceTogether(dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cert}); err != nil {
		t.Fatal(err)
	}
	config, err := ReloadTLS(t.Context(), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), clients)
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := net.Pipe()
	now, err := config.GetConfigForClient(&tls.ClientHelloInfo{ServerName: "dashboard", Conn: conn})
	if err != nil || now.ClientAuth != tls.RequireAndVerifyClientCert || now.ClientCAs == nil {
		t.Fatalf("clients need no certificate: %+v (%v)", now, err)
	}
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(cert); !now.ClientCAs.Equal(pool) {
		t.Error("certificates of another authority count")
	}
	if err := os.WriteFile(clients, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReloadTLS(t.Context(), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), clients); err == nil {
		t.Error("an authority without certificates is taken")
	}
}

// piped is a listener with one connection.
type piped struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (p piped) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conn:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p piped) Close() error   { close(p.closed); return nil }
func (p piped) Addr() net.Addr { return &net.TCPAddr{} }

// TestIdle checks that idle connections are closed: those without any request at once, and others after the
// idle timeout.
func TestIdle(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]time.Duration{"": headerTimeout, "GET / HTTP/1.1\r\nHost: weir\r\n\r\n": idleTimeout} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			listener := piped{make(chan net.Conn, 1), make(chan struct{})}
			listener.conn <- server
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, http.NotFoundHandler(), listener) }()
			began := time.Now()
			if request != "" {
				if _, err := io.WriteString(client, request); err != nil {
					t.Fatal(err)
				}
			}
			from := bufio.NewReader(client)
			if request != "" {
				answer, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
			}
			_, _ = io.Copy(io.Discard, from) // until the server closes it
			if took := time.Since(began); took != want {
				t.Errorf("the request %q: the connection is closed after %s, want %s", request, took, want)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
