// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

// pki contains the cluster's certificates, as files because the processes read files.
type pki struct {
	dir string
	ca  *authority
}

// authority is a CA. The front proxy has a CA of its own, as in a real cluster: with a shared CA,
// any client certificate could claim to be the proxy.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// pair is a certificate with its key, in PEM.
type pair struct {
	cert, key []byte
}

// users get a client certificate each. kwok acts as all kubelets, and like the administrator it
// must not be limited by API priority and fairness.
var users = map[string]pkix.Name{
	"admin":           {CommonName: "admin", Organization: []string{"system:masters"}},
	Kwok:              {CommonName: "kwok", Organization: []string{"system:masters"}},
	ControllerManager: {CommonName: "system:kube-controller-manager"},
	Scheduler:         {CommonName: "system:kube-scheduler"},
}

func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for certificates: %w", err)
	}
	p := &pki{dir: dir}
	var err error
	if p.ca, err = newAuthority("weir-test-ca"); err != nil {
		return nil, err
	}
	frontProxy, err := newAuthority("weir-test-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"ca.crt": p.ca.pem, "front-proxy-ca.crt": frontProxy.pem}
	add := func(name string, made pair, err error) error {
		files[name+".crt"], files[name+".key"] = made.cert, made.key
		return err
	}
	for name, subject := range users {
		made, err := p.ca.issueClient(subject.CommonName, subject.Organization...)
		if err := add(name, made, err); err != nil {
			return nil, err
		}
	}
	made, err := frontProxy.issueClient("front-proxy-client")
	if err := add("front-proxy-client", made, err); err != nil {
		return nil, err
	}
	made, err = p.ca.issueServer(KubeAPIServer, "localhost", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "127.0.0.1", "10.96.0.1")
	if err := add(KubeAPIServer, made, err); err != nil {
		return nil, err
	}
	if files["sa.key"], files["sa.pub"], err = newKeyPair(); err != nil {
		return nil, err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("writing certificates: %w", err)
		}
	}
	return p, nil
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) fileUser(name string) credentials {
	return credentials{certFile: p.file(name + ".crt"), keyFile: p.file(name + ".key")}
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back %s: %w", name, err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

func (a *authority) issueClient(user string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issueServer(name string, hosts ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	return pair{cert: encode("CERTIFICATE", der), key: encode("EC PRIVATE KEY", keyDER)}, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// Backdated, because a container's clock may lag behind the host's.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

// newKeyPair creates the keys that sign and verify service account tokens.
func newKeyPair() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the service account key: %w", err)
	}
	privateDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the service account key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the service account key: %w", err)
	}
	return encode("EC PRIVATE KEY", privateDER), encode("PUBLIC KEY", publicDER), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
