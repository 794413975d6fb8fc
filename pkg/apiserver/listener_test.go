// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// One address can open a limited number of connections. Each closed connection makes room for another.
func TestConnectionsAreShared(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitedListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var open []net.Conn
	for range MaxConnectionsPerAddress {
		dial()
		open = append(open, <-accepted)
	}
	if n, err := dial().Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("one more reads %d bytes (%v), want that it is closed", n, err)
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	again := dial()
	conn := <-accepted
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(again, make([]byte, 1)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// addressedConn is a connection from an address. It reports whether it was closed.
type addressedConn struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (c *addressedConn) RemoteAddr() net.Addr { return c.address }

func (c *addressedConn) Close() error {
	c.closed = true
	return nil
}

// queuedListener accepts the connections of a channel.
type queuedListener struct {
	net.Listener
	conns chan net.Conn
}

func (l queuedListener) Accept() (net.Conn, error) { return <-l.conns, nil }

// When all connections are in use, each new connection replaces the oldest one of the address with the most. A client
// with few connections keeps all of them, and always gets a new one.
func TestFewConnectionsSurviveMany(t *testing.T) {
	t.Parallel()
	l := newLimitedListener(queuedListener{conns: make(chan net.Conn, 1)})
	port := 0
	accept := func(host string) *addressedConn {
		t.Helper()
		port++
		conn := &addressedConn{address: &net.TCPAddr{IP: net.ParseIP(host), Port: port}}
		l.Listener.(queuedListener).conns <- conn
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	kube := []*addressedConn{accept("10.0.0.1"), accept("10.0.0.1"), accept("10.0.0.1")}
	const attackers = 40
	var many []*addressedConn
	for i := range attackers * (MaxConnectionsPerAddress - 1) {
		many = append(many, accept(fmt.Sprintf("10.1.0.%d", i%attackers)))
	}
	kube = append(kube, accept("10.0.0.1"))
	for i, conn := range kube {
		if conn.closed {
			t.Errorf("connection %d of kube-apiserver was closed", i)
		}
	}
	open := 0
	for _, conn := range many {
		if !conn.closed {
			open++
		}
	}
	if want := maxConnections - len(kube); open != want || l.open != maxConnections {
		t.Errorf("the attackers have %d open connections, want %d; the listener counts %d", open, want, l.open)
	}
}

// The connections of the aggregator do not count, so that it can have one for each watch over a websocket.
func TestAggregatorIsNotLimited(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimitedListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	served := make(chan string, 1)
	handler := exemptAggregator(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.RemoteAddr }), l,
		func(r *http.Request) bool { return r.Header.Get("X-Remote-User") != "" })
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	for name, tt := range map[string]struct {
		header string
		counts bool
	}{"the aggregator": {"X-Remote-User: kube\r\n", false}, "another client": {"", true}} {
		conn, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: weir\r\n%s\r\n", tt.header)
		if address := <-served; l.counts(address) != tt.counts {
			t.Errorf("the connection of %s counts: %t", name, !tt.counts)
		}
	}
}

// Only a client with a certificate of the front proxy's authority and with one of its names is the aggregator.
func TestIsFromFrontProxy(t *testing.T) {
	t.Parallel()
	proxy, config := newFrontProxy(t, "front-proxy-client")
	stranger, _ := newFrontProxy(t, "front-proxy-client")
	for name, tt := range map[string]struct {
		state *tls.ConnectionState
		names []string
		want  bool
	}{
		"the front proxy":   {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{proxy}}, []string{"front-proxy-client"}, true},
		"any name":          {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{proxy}}, nil, true},
		"another name":      {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{proxy}}, []string{"aggregator"}, false},
		"another authority": {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{stranger}}, nil, false},
		"no certificate":    {&tls.ConnectionState{}, nil, false},
		"no TLS":            {nil, nil, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = tt.state
		if got := isFromFrontProxy(config(tt.names))(r); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// newFrontProxy returns a client certificate, and a function that returns the configuration of its authority with
// the names that it may have.
func newFrontProxy(t *testing.T, name string) (*x509.Certificate, func(names []string) *authenticatorfactory.RequestHeaderConfig) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// The certificate is its own authority.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	content, err := dynamiccertificates.NewStaticCAContent("front-proxy", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return certificate, func(names []string) *authenticatorfactory.RequestHeaderConfig {
		return &authenticatorfactory.RequestHeaderConfig{CAContentProvider: content, AllowedClientNames: headerrequest.StaticStringSlice(names)}
	}
}
