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

// backdated is how long before it was made a certificate is valid, since clocks
// of machines differ.
const backdated = time.Hour

// pair is a certificate and its key; the zero pair is one that is missing or
// cannot be read.
type pair struct {
	cert *x509.Certificate
	// key is nil if there is none that fits.
	key crypto.Signer

	certPEM, keyPEM []byte
}

// readPair reads the first certificate, and the key if it is the certificate's.
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

// valid reports whether the certificate may be shown now.
func (p pair) valid(now time.Time) bool {
	return p.cert != nil && !now.Before(p.cert.NotBefore) && now.Before(p.cert.NotAfter)
}

// signs reports whether it is an authority that can sign now.
func (p pair) signs(now time.Time) bool {
	return p.valid(now) && p.key != nil && p.cert.IsCA
}

// due is when two thirds of its life have passed. The last third is a reserve.
func (p pair) due() time.Time {
	made := p.cert.NotBefore.Add(backdated)
	return made.Add(p.cert.NotAfter.Sub(made) * 2 / 3)
}

// newAuthority makes a certificate authority, signed by itself.
func newAuthority(now time.Time, life time.Duration) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{
		// The time is for people, who may see two of them side by side.
		Subject:   pkix.Name{CommonName: "weir-ca-" + now.UTC().Format("20060102T150405Z")},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(life),
	}
	asAuthority(template)
	return sign(template, pair{cert: template, key: key}, key)
}

// cross signs the name and the key of the next authority with the current one:
// who knows only the current one can then check what the next one has signed.
func cross(next, current pair) (pair, error) {
	template := &x509.Certificate{
		Subject: next.cert.Subject, SubjectKeyId: next.cert.SubjectKeyId,
		NotBefore: next.cert.NotBefore, NotAfter: current.cert.NotAfter,
	}
	asAuthority(template)
	made, err := sign(template, current, next.key)
	return made.withoutKey(), err
}

func asAuthority(c *x509.Certificate) {
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	c.IsCA, c.BasicConstraintsValid = true, true
}

// issue makes a certificate that ends no later than its authority.
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
		NotBefore: now.Add(-backdated), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: c.Usages,
		BasicConstraintsValid: true,
		DNSNames:              c.Hosts, IPAddresses: c.Addresses,
	}
	return sign(template, a.current, key)
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) //nolint:forbidigo // a key is nothing but chance
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func sign(template *x509.Certificate, parent pair, key crypto.Signer) (pair, error) {
	// A serial number is chosen at random.
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key) //nolint:forbidigo // nor can a signature be foreseen
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

// encodeCert drops what else a Secret says around a certificate.
func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: cert.Raw})
}
