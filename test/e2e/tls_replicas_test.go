// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/certs"
	"github.com/weir-rollouts/weir/test/patience"
)

// newCertManager manages certificates in the namespace of the application, as each weir-apiserver
// does in its own.
func (a *app) newCertManager(rows []certs.Certificate, dir string) (*certs.Manager, error) {
	m := &certs.Manager{
		Policy: certs.Policy{
			Certificates:  append([]certs.Certificate{certs.ServingCertificate(a.namespace, "weir-apiserver")}, rows...),
			AuthorityLife: 30 * 24 * time.Hour, Life: 24 * time.Hour, Overlap: time.Second,
		},
		Namespace: a.namespace, Service: "weir-apiserver", Clock: clock.RealClock{}, Files: map[string]string{},
	}
	for _, row := range rows {
		m.Files[row.Secret] = filepath.Join(dir, row.Secret)
	}
	var err, dynamicErr error
	m.Client, err = kubernetes.NewForConfig(testEnv.cluster.Config())
	m.Dynamic, dynamicErr = dynamic.NewForConfig(testEnv.cluster.Config())
	return m, errors.Join(err, dynamicErr)
}

// TestReplicasAgreeOnCertificates starts replicas concurrently without any stored certificate. All
// of them must serve the same certificate of the same CA.
func TestReplicasAgreeOnCertificates(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	var replicas [4]*certs.Manager
	var starting sync.WaitGroup
	for i := range replicas {
		m, err := a.newCertManager(nil, "")
		if err != nil {
			t.Fatal(err)
		}
		replicas[i] = m
		starting.Go(func() {
			if err := m.Start(t.Context(), patience.Scaled(patience.Long)); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	a.eventually("all replicas serve the stored certificate", func(ctx context.Context) error {
		issuer, err := secretOf(ctx, a.namespace, certs.AuthoritySecret)
		leaf, leafErr := secretOf(ctx, a.namespace, certs.ServingSecret)
		if err := errors.Join(err, leafErr); err != nil {
			return err
		}
		made, err := certutil.ParseCertsPEM(issuer.Data["ca-bundle.crt"])
		if err != nil {
			return err
		}
		if len(made) != 1 {
			return fmt.Errorf("%d CAs were created", len(made))
		}
		for i, m := range replicas {
			if cert, _ := m.Serving().CurrentCertKeyContent(); string(cert) != string(leaf.Data[corev1.TLSCertKey]) {
				return fmt.Errorf("replica %d serves with another certificate", i)
			}
		}
		return nil
	})
}

// TestCertificatesOfEtcd checks that etcd with these certificates accepts only clients with the
// client certificate, also after the CA was replaced, without a restart.
func TestCertificatesOfEtcd(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	dir := t.TempDir()
	m, err := a.newCertManager(certs.EtcdCertificates(a.namespace, "weir-etcd"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context(), patience.Scaled(patience.Long)); err != nil {
		t.Fatal(err)
	}
	url := a.startEtcd(dir)
	before, err := os.ReadFile(filepath.Join(dir, certs.EtcdClientSecret, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	a.eventually("etcd answers", etcdAnswers(url, dir, before, true))
	if err := etcdAnswers(url, dir, before, false)(t.Context()); err == nil {
		t.Error("etcd accepts clients without a certificate")
	}

	issuer := &corev1.Secret{}
	issuer.Namespace, issuer.Name = a.namespace, certs.AuthoritySecret
	ask := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+certs.RotateAnnotation+`":""}}}`))
	if err := testEnv.client.Patch(t.Context(), issuer, ask); err != nil {
		t.Fatal(err)
	}
	a.eventually("the CA and the files were replaced", func(context.Context) error {
		for _, name := range []string{certs.EtcdServerSecret, certs.EtcdPeerSecret, certs.EtcdClientSecret} {
			after, err := os.ReadFile(filepath.Join(dir, name, "ca.crt"))
			if err != nil {
				return err
			}
			if strings.Contains(string(after), string(before)) {
				return fmt.Errorf("%s still trusts the old CA", name)
			}
		}
		return nil
	})
	after, err := os.ReadFile(filepath.Join(dir, certs.EtcdClientSecret, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	a.eventually("etcd accepts clients with the old certificates", etcdAnswers(url, dir, before, true))
	a.eventually("etcd accepts clients with the new certificates", etcdAnswers(url, dir, after, true))
}

// startEtcd runs an etcd member with the certificates in the directory.
func (a *app) startEtcd(dir string) string {
	a.t.Helper()
	var urls [2]string
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			a.t.Fatal(err)
		}
		urls[i] = "https://" + l.Addr().String()
		if err := l.Close(); err != nil {
			a.t.Fatal(err)
		}
	}
	file := func(secret, name string) string { return filepath.Join(dir, secret, name) }
	cmd := exec.CommandContext(a.t.Context(), filepath.Join(testEnv.cluster.Bin(), "etcd"), "--log-level=error",
		"--data-dir="+filepath.Join(dir, "data"), "--unsafe-no-fsync",
		"--listen-client-urls="+urls[0], "--advertise-client-urls="+urls[0],
		"--listen-peer-urls="+urls[1], "--initial-advertise-peer-urls="+urls[1], "--initial-cluster=default="+urls[1],
		"--client-cert-auth", "--trusted-ca-file="+file(certs.EtcdServerSecret, "ca.crt"),
		"--cert-file="+file(certs.EtcdServerSecret, "tls.crt"), "--key-file="+file(certs.EtcdServerSecret, "tls.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+file(certs.EtcdPeerSecret, "ca.crt"),
		"--peer-cert-file="+file(certs.EtcdPeerSecret, "tls.crt"), "--peer-key-file="+file(certs.EtcdPeerSecret, "tls.key"),
	)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process may have ended with the context
		_ = cmd.Wait()
	})
	return urls[0]
}

// etcdAnswers returns a check that etcd answers on a new connection, with the client certificate or
// without.
func etcdAnswers(url, dir string, bundle []byte, shows bool) func(context.Context) error {
	return func(ctx context.Context) error {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(bundle)
		if shows {
			own := filepath.Join(dir, certs.EtcdClientSecret)
			cert, err := tls.LoadX509KeyPair(filepath.Join(own, "tls.crt"), filepath.Join(own, "tls.key"))
			if err != nil {
				return err
			}
			config.Certificates = []tls.Certificate{cert}
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return err
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := c.Do(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if !strings.Contains(string(body), `"health":"true"`) {
			return fmt.Errorf("etcd answers %s", body)
		}
		return nil
	}
}
