// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/certs"
)

// Values of the option TLS.Mode.
const (
	TLSFiles       = "files"
	TLSSelfManaged = "self-managed"
)

const (
	// ownService is the Service by which kube-apiserver reaches this server.
	ownService = "weir-apiserver"
	// etcdService is the headless Service of the etcd that certificates are issued for.
	etcdService = "weir-etcd"
	// defaultNamespace is that of a server which does not run in a pod.
	defaultNamespace = "weir-system"
	namespaceFile    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	// certificateLimit is how long certificates may take when a server starts.
	certificateLimit = 60 * time.Second
	day              = 24 * time.Hour
)

// TLSOptions say where certificates come from.
type TLSOptions struct {
	// Mode is TLSFiles, TLSSelfManaged, or empty for what the rest suggests.
	Mode string
	// Namespace has the Service and the Secrets.
	Namespace string
	// EtcdDir is where the client certificate for etcd is written to. If it is not
	// empty, the certificates of etcd are issued too.
	EtcdDir string
	// AuthorityLife, Life and Overlap are as in certs.Policy.
	AuthorityLife, Life, Overlap time.Duration
}

func newTLSOptions() TLSOptions {
	t := TLSOptions{Namespace: defaultNamespace, AuthorityLife: 3650 * day, Life: 365 * day, Overlap: 10 * time.Minute}
	// Outside of a pod there is no such file.
	if name, err := os.ReadFile(namespaceFile); err == nil && len(name) > 0 {
		t.Namespace = strings.TrimSpace(string(name))
	}
	return t
}

func (t *TLSOptions) addFlags(all *pflag.FlagSet) {
	all.StringVar(&t.Mode, "tls-mode", t.Mode,
		"self-managed: certificates are kept in Secrets, replaced in time and published; files: they are given (default self-managed unless --tls-cert-file is set)")
	all.StringVar(&t.Namespace, "namespace", t.Namespace, "namespace of this server's Service and Secrets; inside a pod it is the pod's")
	all.StringVar(&t.EtcdDir, "etcd-certificates", t.EtcdDir,
		"directory for the client certificate of etcd; if set, the certificates of an etcd in the same namespace are issued too")
	all.DurationVar(&t.AuthorityLife, "tls-ca-lifetime", t.AuthorityLife, "how long a self-managed certificate authority lasts; at two thirds a new one is made")
	all.DurationVar(&t.Life, "tls-lifetime", t.Life, "how long a self-managed certificate lasts; at two thirds a new one is issued")
	all.DurationVar(&t.Overlap, "tls-ca-overlap", t.Overlap, "how long a new certificate authority is published before it signs, and an old one after it has")
}

// selfManaged reports whether certificates come from Secrets.
func (o *Options) selfManaged() bool {
	if o.TLS.Mode != "" {
		return o.TLS.Mode == TLSSelfManaged
	}
	return o.Recommended.CoreAPI != nil && o.Recommended.SecureServing.ServerCert.CertKey.CertFile == ""
}

func (o *Options) tlsRefusals() []refusal {
	t := o.TLS
	return []refusal{
		{t.Mode != "" && t.Mode != TLSFiles && t.Mode != TLSSelfManaged, "--tls-mode must be self-managed or files"},
		{t.Mode == TLSSelfManaged && o.Recommended.SecureServing.ServerCert.CertKey.CertFile != "", "--tls-cert-file is for --tls-mode=files"},
		{t.EtcdDir != "" && !o.selfManaged(), "--etcd-certificates needs --tls-mode=self-managed"},
		{t.EtcdDir != "" && !o.external(), "--etcd-certificates needs --etcd-servers: the embedded etcd is not reached over a network"},
		{t.Life < time.Second, "--tls-lifetime must be at least a second"},
		{t.AuthorityLife < 3*t.Life, "--tls-ca-lifetime must be at least three times --tls-lifetime"},
		{t.Overlap < 0, "--tls-ca-overlap must not be negative"},
	}
}

// openCertificates waits for a certificate to serve with, and keeps it valid until
// the context ends. It needs kube-apiserver only.
func (o *Options) openCertificates(ctx context.Context) error {
	if !o.selfManaged() {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Recommended.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	m := &certs.Manager{
		Policy: certs.Policy{
			Certificates:  []certs.Certificate{certs.Serving(o.TLS.Namespace, ownService)},
			AuthorityLife: o.TLS.AuthorityLife, Life: o.TLS.Life, Overlap: o.TLS.Overlap,
		},
		Namespace: o.TLS.Namespace, Service: ownService, Clock: clock.RealClock{},
	}
	if o.TLS.EtcdDir != "" {
		m.Policy.Certificates = append(m.Policy.Certificates, certs.Etcd(o.TLS.Namespace, etcdService)...)
		m.Files = map[string]string{certs.EtcdClientSecret: o.TLS.EtcdDir}
		o.defaultEtcdFiles()
	}
	if m.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if m.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := m.Start(ctx, certificateLimit); err != nil {
		return err
	}
	o.Recommended.SecureServing.ServerCert.GeneratedCert = m.Serving()
	return nil
}

// defaultEtcdFiles makes the client of etcd use the files that are written, unless
// flags name others.
func (o *Options) defaultEtcdFiles() {
	transport := &o.Recommended.Etcd.StorageConfig.Transport
	for name, file := range map[string]*string{
		corev1.ServiceAccountRootCAKey: &transport.TrustedCAFile,
		corev1.TLSCertKey:              &transport.CertFile,
		corev1.TLSPrivateKeyKey:        &transport.KeyFile,
	} {
		if *file == "" {
			*file = filepath.Join(o.TLS.EtcdDir, name)
		}
	}
}
