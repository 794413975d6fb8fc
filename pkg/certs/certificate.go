// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Names of Secrets.
const (
	AuthoritySecret  = "weir-apiserver-ca"
	ServingSecret    = "weir-apiserver-tls"
	EtcdServerSecret = "weir-etcd-server"
	EtcdPeerSecret   = "weir-etcd-peer"
	EtcdClientSecret = "weir-etcd-client"
)

// Certificate is a row of the table of what is issued.
type Certificate struct {
	// Secret is where it is: ca.crt has all authorities to be trusted, tls.crt
	// and tls.key are the certificate with its chain and the key.
	Secret string
	// Name is its common name.
	Name      string
	Usages    []x509.ExtKeyUsage
	Hosts     []string
	Addresses []net.IP
}

var (
	server = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both   = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

	loopback = []net.IP{net.IPv4(127, 0, 0, 1).To4()}
)

// Serving is the certificate of a Service.
func Serving(namespace, service string) Certificate {
	return Certificate{
		Secret: ServingSecret, Name: service, Usages: server,
		Hosts: append(hosts(service, namespace), "localhost"), Addresses: loopback,
	}
}

// Etcd are the certificates of an etcd whose members are the pods of a
// StatefulSet, behind a headless Service of that name. A member asks who a peer
// is by the names of its certificate, and finds the pods under *.
func Etcd(namespace, service string) []Certificate {
	names := append(hosts(service, namespace), hosts("*."+service, namespace)...)
	names = append(names, service, "localhost")
	return []Certificate{
		{Secret: EtcdServerSecret, Name: service, Usages: both, Hosts: names, Addresses: loopback},
		{Secret: EtcdPeerSecret, Name: service + "-peer", Usages: both, Hosts: names, Addresses: loopback},
		{Secret: EtcdClientSecret, Name: service + "-client", Usages: client},
	}
}

func hosts(service, namespace string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// fault is why a certificate has to be issued anew, or empty.
func (c *Certificate) fault(p pair, a *authority, now time.Time) string {
	switch {
	case p.cert == nil:
		return "there is none"
	case p.key == nil:
		return "its key is not there"
	case !p.valid(now):
		return "it is not valid now"
	case p.cert.CheckSignatureFrom(a.current.cert) != nil:
		return "another authority has signed it"
	case !c.describes(p.cert):
		return "it is for something else"
	case !now.Before(p.due()):
		return "it is due"
	}
	return ""
}

func (c *Certificate) describes(cert *x509.Certificate) bool {
	return cert.Subject.CommonName == c.Name &&
		slices.Equal(cert.ExtKeyUsage, c.Usages) &&
		slices.Equal(cert.DNSNames, c.Hosts) &&
		slices.EqualFunc(cert.IPAddresses, c.Addresses, net.IP.Equal)
}

func readCertificate(data map[string][]byte) pair {
	return readPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
}

// certificateData is what the Secret of a certificate should say.
func certificateData(p pair, a *authority, now time.Time) map[string][]byte {
	chain := p.certPEM
	if a.cross.valid(now) {
		chain = bytes.Join([][]byte{p.certPEM, a.cross.certPEM}, nil)
	}
	return map[string][]byte{
		corev1.ServiceAccountRootCAKey: a.bundle(),
		corev1.TLSCertKey:              chain,
		corev1.TLSPrivateKeyKey:        p.keyPEM,
	}
}
