// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weir-rollouts/weir/internal/disk"
)

const (
	// standaloneUser is the only user of a server without a cluster.
	standaloneUser = "developer"
	// readyCheckInterval is how often a starting server is checked for readiness.
	readyCheckInterval = 20 * time.Millisecond
)

// StandaloneOptions are the settings of a server without a cluster, for developers of clients. Its only
// user may do everything, and it listens on this machine only.
type StandaloneOptions struct {
	Enabled bool
	// Kubeconfig is the path of the kubeconfig that the server writes; if empty, kubeconfig in the data
	// directory.
	Kubeconfig string
	// Out receives instructions for the user.
	Out io.Writer

	token string
	// isTemporary reports whether the data directory is removed when the server stops.
	isTemporary bool
}

// clusterFlags are flags about a cluster, or about storage that a server with an all-powerful user should
// not use.
var clusterFlags = []string{
	"kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "etcd-servers", webhookPortFlag,
	"tls-mode", "etcd-certificates",
}

// applyStandalone changes the options for a server without a cluster. given reports whether the user set a
// flag.
func (o *Options) applyStandalone(given func(flag string) bool) error {
	for _, name := range clusterFlags {
		if given(name) {
			return fmt.Errorf("--%s cannot be used with --standalone, which has neither a cluster nor a webhook, and a store of its own", name)
		}
	}
	serving := o.Recommended.SecureServing
	if !given("bind-address") {
		serving.BindAddress = net.IPv4(127, 0, 0, 1)
	}
	if !serving.BindAddress.IsLoopback() {
		return fmt.Errorf("--bind-address %s: with --standalone one user may do everything, so it listens on this machine only; "+
			"leave the flag out or use 127.0.0.1", serving.BindAddress)
	}
	if !given("secure-port") {
		serving.BindPort = 0 // any free port
	}
	if !given("cert-dir") {
		serving.ServerCert.CertDirectory = "" // the certificate stays in memory
	}
	if !given("data-dir") {
		o.Store.DataDir = ""
	}
	o.WithoutCluster()
	o.Store.Ephemeral, o.WebhookPort = true, 0
	return nil
}

// WithoutCluster disables everything that needs a cluster. The caller must set authentication and
// authorization.
func (o *Options) WithoutCluster() {
	r := o.Recommended
	r.CoreAPI, r.Admission, r.Authentication, r.Authorization = nil, nil, nil, nil
	r.Features.EnablePriorityAndFairness = false
}

// openStandalone creates the data directory and opens the port. The returned function removes a temporary
// directory.
func (o *Options) openStandalone() (func() error, error) {
	s := &o.Standalone
	remove := func() error { return nil }
	if o.Store.DataDir == "" {
		dir, err := os.MkdirTemp("", "weir-")
		if err != nil {
			return nil, fmt.Errorf("making a data directory: %w", err)
		}
		s.isTemporary, o.Store.DataDir = true, dir
		remove = func() error { return os.RemoveAll(dir) }
	}
	if s.Kubeconfig == "" {
		s.Kubeconfig = filepath.Join(o.Store.DataDir, "kubeconfig")
	}
	s.token = string(uuid.NewUUID())
	serving := o.Recommended.SecureServing
	var err error
	address := net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort))
	if serving.Listener, err = net.Listen("tcp", address); err != nil {
		return nil, errors.Join(fmt.Errorf("listening: %w", err), remove())
	}
	return remove, nil
}

// setStandalone sets an authenticator with one user, and an authorizer that permits everything.
func (c *Config) setStandalone() {
	developer := &user.DefaultInfo{Name: standaloneUser, UID: standaloneUser, Groups: []string{user.SystemPrivilegedGroup}}
	c.Generic.Authentication.Authenticator = authenticatorfactory.NewFromTokens(
		map[string]*user.DefaultInfo{c.options.Standalone.token: developer}, nil)
	c.Generic.Authorization.Authorizer = authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)
}

// announce writes the kubeconfig once the server is ready, and prints how to use it.
func (c *Config) announce(hook genericapiserver.PostStartHookContext) error {
	// The server is not ready before this hook has returned.
	go func() {
		if err := c.writeKubeconfig(hook, hook.LoopbackClientConfig); err != nil {
			fmt.Fprintf(c.options.Standalone.Out, "no kubeconfig was written: %v\n", err)
		}
	}()
	return nil
}

func (c *Config) writeKubeconfig(ctx context.Context, loopback *restclient.Config) error {
	if err := awaitReady(ctx, loopback); err != nil {
		return err
	}
	s, serving := &c.options.Standalone, c.Generic.SecureServing
	authority, _ := serving.Cert.CurrentCertKeyContent()
	const name = "weir"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + serving.Listener.Addr().String(), CertificateAuthorityData: authority,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	err = disk.Replace(s.Kubeconfig, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	stored := "kept in " + c.options.Store.DataDir
	if s.isTemporary {
		stored = "forgotten when it stops"
	}
	fmt.Fprintf(s.Out, "weir-apiserver serves rollouts.kruise.io without a cluster, to user %s only.\n"+
		"What is stored is %s. No controller runs: releases move when you write their status.\n\n"+
		"  export KUBECONFIG=%s\n\n", standaloneUser, stored, s.Kubeconfig)
	return nil
}

// awaitReady waits until the server is ready.
func awaitReady(ctx context.Context, loopback *restclient.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(loopback)
	if err != nil {
		return fmt.Errorf("creating a client of the loopback: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, readyCheckInterval, true, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
}
