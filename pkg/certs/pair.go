// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// backdate is how long before its creation a certificate becomes valid, because clocks of machines differ.
const backdate = time.Hour

// pair is a certificate and its key. It is zero if the certificate is missing or cannot be read.
type pair struct {
	cert *x509.Certificate
	// key is nil if it is missing or does not belong to the certificate.
	key crypto.Signer

	certPEM, keyPEM []byte
}

// readPair decodes the first certificate, and the key if it belongs to the certificate.
func readPair(certPEM, keyPEM []byte) pair {
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return pair{}
	}
	p := pair{cert: certs[0], certPEM: encodeCert(certs[0])}
	read, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return p
	}
	key, ok := read.(crypto.Signer)
	if !ok {
		return p
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); ok && public.Equal(p.cert.PublicKey) {
		p.key, p.keyPEM = key, keyPEM
	}
	return p
}

func (p pair) withoutKey() pair { return pair{cert: p.cert, certPEM: p.certPEM} }

// isValid reports whether the certificate is within its validity period.
func (p pair) isValid(now time.Time) bool {
	return p.cert != nil && !now.Before(p.cert.NotBefore) && now.Before(p.cert.NotAfter)
}

// canSign reports whether the certificate is a CA that can sign now.
func (p pair) canSign(now time.Time) bool {
	return p.isValid(now) && p.key != nil && p.cert.IsCA
}

// renewalTime returns the time at which two thirds of the certificate's life have passed. The last third is a
// reserve.
func (p pair) renewalTime() time.Time {
	made := p.cert.NotBefore.Add(backdate)
	return made.Add(p.cert.NotAfter.Sub(made) * 2 / 3)
}

// newAuthority creates a self-signed CA.
func newAuthority(now time.Time, life time.Duration) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{
		// The time in the name lets people distinguish two CAs.
		Subject:   pkix.Name{CommonName: "weir-ca-" + now.UTC().Format("20060102T150405Z")},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
	}
	setCAFields(template)
	return sign(template, pair{cert: template, key: key}, key)
}

// crossSign returns a certificate for the next CA that is signed by the current CA. Clients that trust only the
// current CA can then verify certificates of the next CA.
func crossSign(next, current pair) (pair, error) {
	template := &x509.Certificate{
		Subject: next.cert.Subject, SubjectKeyId: next.cert.SubjectKeyId,
		NotBefore: next.cert.NotBefore, NotAfter: current.cert.NotAfter,
	}
	setCAFields(template)
	made, err := sign(template, current, next.key)
	return made.withoutKey(), err
}

func setCAFields(c *x509.Certificate) {
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	c.IsCA, c.BasicConstraintsValid = true, true
}

// issue creates a certificate that expires no later than its CA.
func (a *authority) issue(c Certificate, now time.Time, life time.Duration) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	until := now.Add(life)
	if last := a.current.cert.NotAfter; until.After(last) {
		until = last
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: c.Name},
		NotBefore: now.Add(-backdate), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: c.Usages,
		BasicConstraintsValid: true,
		DNSNames:              c.Hosts, IPAddresses: c.Addresses,
	}
	return sign(template, a.current, key)
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) //nolint:forbidigo // a key must be random
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func sign(template *x509.Certificate, parent pair, key crypto.Signer) (pair, error) {
	// CreateCertificate chooses a random serial number.
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key) //nolint:forbidigo // a signature needs randomness
	if err != nil {
		return pair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("reading the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return pair{}, fmt.Errorf("encoding the key of %s: %w", template.Subject.CommonName, err)
	}
	return pair{cert: cert, key: key, certPEM: encodeCert(cert), keyPEM: keyPEM}, nil
}

// encodeCert encodes only the certificate, without other content of a Secret.
func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: cert.Raw})
}
