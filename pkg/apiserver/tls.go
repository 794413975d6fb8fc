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
	// serviceName is the Service through which kube-apiserver reaches this server.
	serviceName = "weir-apiserver"
	// etcdService is the headless Service of the etcd that certificates are issued for.
	etcdService = "weir-etcd"
	// defaultNamespace is the namespace of a server that does not run in a pod.
	defaultNamespace = "weir-system"
	namespaceFile    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	// certificateTimeout limits how long a starting server waits for certificates.
	certificateTimeout = 60 * time.Second
	day                = 24 * time.Hour
)

// TLSOptions are the settings of certificates.
type TLSOptions struct {
	// Mode is TLSFiles or TLSSelfManaged. If it is empty, hasSelfManagedCertificates derives it from other options.
	Mode string
	// Namespace is the namespace of the Service and the Secrets.
	Namespace string
	// EtcdDir is the directory for the client certificate for etcd. If it is set, the server also issues
	// the certificates of etcd.
	EtcdDir string
	// AuthorityLife, Life and Overlap are the fields of certs.Policy with these names.
	AuthorityLife, Life, Overlap time.Duration
}

func newTLSOptions() TLSOptions {
	t := TLSOptions{Namespace: defaultNamespace, AuthorityLife: 3650 * day, Life: 365 * day, Overlap: 10 * time.Minute}
	// The file exists only in a pod.
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

// hasSelfManagedCertificates reports whether the server issues its own certificates and stores them in Secrets.
func (o *Options) hasSelfManagedCertificates() bool {
	if o.TLS.Mode != "" {
		return o.TLS.Mode == TLSSelfManaged
	}
	return o.Recommended.CoreAPI != nil && o.Recommended.SecureServing.ServerCert.CertKey.CertFile == ""
}

func (o *Options) tlsRules() []optionRule {
	t := o.TLS
	return []optionRule{
		{t.Mode != "" && t.Mode != TLSFiles && t.Mode != TLSSelfManaged, "--tls-mode must be self-managed or files"},
		{t.Mode == TLSSelfManaged && o.Recommended.SecureServing.ServerCert.CertKey.CertFile != "", "--tls-cert-file is for --tls-mode=files"},
		{t.EtcdDir != "" && !o.hasSelfManagedCertificates(), "--etcd-certificates needs --tls-mode=self-managed"},
		{t.EtcdDir != "" && !o.usesExternalEtcd(), "--etcd-certificates needs --etcd-servers: the embedded etcd is not reached over a network"},
		{t.Life < time.Second, "--tls-lifetime must be at least a second"},
		{t.AuthorityLife < 3*t.Life, "--tls-ca-lifetime must be at least three times --tls-lifetime"},
		{t.Overlap < 0, "--tls-ca-overlap must not be negative"},
	}
}

// openCertificates waits for a serving certificate, and renews it until the context ends. It needs only
// kube-apiserver.
func (o *Options) openCertificates(ctx context.Context) error {
	if !o.hasSelfManagedCertificates() {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Recommended.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	m := &certs.Manager{
		Policy: certs.Policy{
			Certificates:  []certs.Certificate{certs.ServingCertificate(o.TLS.Namespace, serviceName)},
			AuthorityLife: o.TLS.AuthorityLife, Life: o.TLS.Life, Overlap: o.TLS.Overlap,
		},
		Namespace: o.TLS.Namespace, Service: serviceName, Clock: clock.RealClock{},
	}
	if o.TLS.EtcdDir != "" {
		m.Policy.Certificates = append(m.Policy.Certificates, certs.EtcdCertificates(o.TLS.Namespace, etcdService)...)
		m.Files = map[string]string{certs.EtcdClientSecret: o.TLS.EtcdDir}
		o.defaultEtcdFiles()
	}
	if m.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if m.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := m.Start(ctx, certificateTimeout); err != nil {
		return err
	}
	o.Recommended.SecureServing.ServerCert.GeneratedCert = m.Serving()
	return nil
}

// defaultEtcdFiles sets the files that the certificate manager writes as the default for the etcd client.
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
