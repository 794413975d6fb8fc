// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command weir-dashboard serves the dashboard to users without a kubeconfig. It has no permissions of its
// own: it forwards requests as the user of the browser.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/dashboard"
)

// options are the values of the flags.
type options struct {
	auth, address, kubeconfig, authority string
	certificate, key, clientCA           string
	secretFile, sessionKey, cluster      string
	impersonate                          dashboard.Impersonation
}

func main() {
	var o options
	f := pflag.NewFlagSet("weir-dashboard", pflag.ExitOnError)
	f.StringVar(&o.auth, "auth", "token", "how users sign in: token (each user pastes one), bearer (the proxy in front sends a token), or impersonate (the proxy in front names the user)")
	f.StringVar(&o.address, "listen", "127.0.0.1:8080", "address and port; one that others reach needs a certificate")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty inside a pod")
	f.StringVar(&o.cluster, "cluster-name", "", "name of the cluster that the header of each page shows")
	f.StringVar(&o.authority, "certificate-authority", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "authority of the cluster, inside a pod")
	f.StringVar(&o.certificate, "tls-cert-file", "", "file with the serving certificate; it is reloaded when it changes")
	f.StringVar(&o.key, "tls-private-key-file", "", "private key of the certificate")
	f.StringVar(&o.clientCA, "client-ca-file", "", "CA of the proxy's client certificate")
	f.StringVar(&o.sessionKey, "session-key-file", "", "file of 32 bytes that replicas share, for token; without it sessions end with the process")
	f.StringVar(&o.secretFile, "proxy-secret-file", "", "file with the shared secret that the proxy sends in X-Weir-Proxy, for impersonate")
	f.StringVar(&o.impersonate.Prefix, "impersonate-prefix", "", "what is before the name of each user and group, for impersonate")
	f.StringVar(&o.impersonate.UserHeader, "user-header", "X-Forwarded-User", "header with the name of the user, for impersonate")
	f.StringVar(&o.impersonate.GroupsHeader, "groups-header", "X-Forwarded-Groups", "header with the groups of the user, for impersonate; empty reads none")
	_ = f.Parse(os.Args[1:]) // exits on an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weir-dashboard:", err)
		os.Exit(1) //nolint:gocritic // the deferred call would only release the signal handler
	}
}

func (o *options) run(ctx context.Context) error {
	config, err := o.clusterConfig()
	if err != nil {
		return err
	}
	who, err := o.newIdentity(ctx, config)
	if err != nil {
		return err
	}
	handler, err := dashboard.NewProxy(config, who, dashboard.About{Version: dashboard.BuildVersion(), Cluster: o.cluster})
	if err != nil {
		return err
	}
	listener, err := o.listen(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "weir-dashboard serves on", listener.Addr())
	return dashboard.Serve(ctx, handler, listener)
}

// clusterConfig returns the client configuration of the cluster. Only impersonation needs credentials of its own.
func (o *options) clusterConfig() (*rest.Config, error) {
	inside := o.kubeconfig == ""
	if inside && o.auth != "impersonate" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" {
			return nil, errors.New("outside of a pod, --kubeconfig says how to reach the cluster")
		}
		return &rest.Config{Host: "https://" + net.JoinHostPort(host, port), TLSClientConfig: rest.TLSClientConfig{CAFile: o.authority}}, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	if o.auth != "impersonate" {
		config = rest.AnonymousClientConfig(config)
	}
	return config, nil
}

func (o *options) newIdentity(ctx context.Context, config *rest.Config) (dashboard.Identity, error) {
	switch o.auth {
	case "token":
		return o.newSessions()
	case "bearer":
		return dashboard.Bearer{}, nil
	case "impersonate":
		return o.newImpersonation(ctx, config)
	}
	return nil, fmt.Errorf("--auth %q must be token, bearer or impersonate", o.auth)
}

func (o *options) newSessions() (dashboard.Identity, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	if o.sessionKey != "" {
		var err error
		if key, err = os.ReadFile(o.sessionKey); err != nil {
			return nil, fmt.Errorf("reading --session-key-file: %w", err)
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("--session-key-file must have 32 bytes: %w", err)
	}
	sealed, err := cipher.NewGCMWithRandomNonce(block)
	return &dashboard.Sessions{Sealed: sealed, Clock: clock.RealClock{}}, err
}

func (o *options) newImpersonation(ctx context.Context, config *rest.Config) (dashboard.Identity, error) {
	if o.impersonate.Prefix == "" || strings.HasPrefix(o.impersonate.Prefix, "system:") {
		return nil, errors.New("--impersonate-prefix is required, and must not begin with system:, so that no user can be a user of the cluster itself")
	}
	if o.secretFile != "" {
		secret, err := os.ReadFile(o.secretFile)
		if err != nil {
			return nil, fmt.Errorf("reading --proxy-secret-file: %w", err)
		}
		o.impersonate.Secret = strings.TrimSpace(string(secret))
	}
	if o.impersonate.Secret == "" && o.clientCA == "" {
		return nil, errors.New("--proxy-secret-file or --client-ca-file must say how the proxy in front is known")
	}
	return o.impersonate, dashboard.CheckConstrained(ctx, config, o.impersonate.Prefix)
}

func (o *options) listen(ctx context.Context) (net.Listener, error) {
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if o.certificate == "" {
		if address, ok := listener.Addr().(*net.TCPAddr); !ok || !address.IP.IsLoopback() {
			return nil, errors.Join(fmt.Errorf("--listen %s: tokens and names go over the network there; give --tls-cert-file, or listen on 127.0.0.1", o.address), listener.Close())
		}
		return listener, nil
	}
	config, err := dashboard.ReloadTLS(ctx, o.certificate, o.key, o.clientCA)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--tls-cert-file, --tls-private-key-file, --client-ca-file: %w", err), listener.Close())
	}
	return tls.NewListener(listener, config), nil
}
