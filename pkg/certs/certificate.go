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

// Certificate describes a certificate to be issued.
type Certificate struct {
	// Secret is the name of its Secret. ca.crt contains all trusted CAs; tls.crt and tls.key contain the
	// certificate with its chain, and the key.
	Secret string
	// Name is the common name.
	Name      string
	Usages    []x509.ExtKeyUsage
	Hosts     []string
	Addresses []net.IP
}

var (
	serverUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	clientUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	peerUsages   = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

	loopbackAddresses = []net.IP{net.IPv4(127, 0, 0, 1).To4()}
)

// ServingCertificate returns the certificate of a Service.
func ServingCertificate(namespace, service string) Certificate {
	return Certificate{
		Secret: ServingSecret, Name: service, Usages: serverUsages,
		Hosts: append(serviceHosts(service, namespace), "localhost"), Addresses: loopbackAddresses,
	}
}

// EtcdCertificates returns the certificates of an etcd whose members are the pods of a StatefulSet behind a headless
// Service of the same name. A member identifies a peer by the DNS names in its certificate; the wildcard
// covers the pods.
func EtcdCertificates(namespace, service string) []Certificate {
	names := append(serviceHosts(service, namespace), serviceHosts("*."+service, namespace)...)
	names = append(names, service, "localhost")
	return []Certificate{
		{Secret: EtcdServerSecret, Name: service, Usages: peerUsages, Hosts: names, Addresses: loopbackAddresses},
		{Secret: EtcdPeerSecret, Name: service + "-peer", Usages: peerUsages, Hosts: names, Addresses: loopbackAddresses},
		{Secret: EtcdClientSecret, Name: service + "-client", Usages: clientUsages},
	}
}

func serviceHosts(service, namespace string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// reissueReason returns why a certificate must be issued again; empty if it is valid.
func (c *Certificate) reissueReason(p pair, a *authority, now time.Time) string {
	switch {
	case p.cert == nil:
		return "there is none"
	case p.key == nil:
		return "its key is not there"
	case !p.isValid(now):
		return "it is not valid now"
	case p.cert.CheckSignatureFrom(a.current.cert) != nil:
		return "another authority has signed it"
	case !c.matches(p.cert):
		return "it is for something else"
	case !now.Before(p.renewalTime()):
		return "it is due"
	}
	return ""
}

func (c *Certificate) matches(cert *x509.Certificate) bool {
	return cert.Subject.CommonName == c.Name &&
		slices.Equal(cert.ExtKeyUsage, c.Usages) &&
		slices.Equal(cert.DNSNames, c.Hosts) &&
		slices.EqualFunc(cert.IPAddresses, c.Addresses, net.IP.Equal)
}

func readCertificate(data map[string][]byte) pair {
	return readPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
}

// certificateData returns the desired data of the Secret of a certificate.
func certificateData(p pair, a *authority, now time.Time) map[string][]byte {
	chain := p.certPEM
	if a.cross.isValid(now) {
		chain = bytes.Join([][]byte{p.certPEM, a.cross.certPEM}, nil)
	}
	return map[string][]byte{
		corev1.ServiceAccountRootCAKey: a.bundle(),
		corev1.TLSCertKey:              chain,
		corev1.TLSPrivateKeyKey:        p.keyPEM,
	}
}
