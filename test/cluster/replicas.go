// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// WeirEtcd is the etcd that several replicas of Weir share.
const WeirEtcd = "weir-etcd"

// The Secrets of etcd that weir-apiserver issues.
const etcdServerSecret = "weir-etcd-server"

// Replica is the name of a process with replicas.
func Replica(name string, i int) string { return name + "-" + strconv.Itoa(i) }

// replicated reports whether Weir's processes have replicas and an external etcd.
func (c *Cluster) replicated() bool { return c.opts.WeirReplicas > 0 }

// Replicas are the process names of a Deployment of the manifests.
func (c *Cluster) Replicas(name string) []string {
	if !c.replicated() {
		return []string{name}
	}
	var names []string
	for i := range c.opts.WeirReplicas {
		names = append(names, Replica(name, i))
	}
	return names
}

// deployment is the name of the Deployment of a process.
func deployment(process string) string {
	for _, name := range []string{WeirAPIServer, WeirController} {
		if rest, found := strings.CutPrefix(process, name+"-"); found {
			if _, err := strconv.Atoi(rest); err == nil {
				return name
			}
		}
	}
	return process
}

// replicaPort is the name of a port that each replica has.
func replicaPort(port, process string) string {
	return port + strings.TrimPrefix(process, deployment(process))
}

// weirPorts are the names of the additional ports of replicas.
func (c *Cluster) weirPorts() []string {
	if !c.replicated() {
		return nil
	}
	names := []string{WeirEtcd, weirEtcdPeer, weirEtcdMetrics}
	for i := range c.opts.WeirReplicas {
		for _, port := range []string{WeirAPIServer, weirWebhook, controllerHealth, controllerMetrics} {
			names = append(names, Replica(port, i))
		}
	}
	return names
}

// startReplicas starts etcd, whose certificates the first server issues, and all other processes
// with a Service.
func (c *Cluster) startReplicas(ctx context.Context) error {
	servers := c.Replicas(WeirAPIServer)
	if err := c.spawn(servers[0]); err != nil {
		return err
	}
	if err := c.poll(ctx, "waiting for the certificate of etcd", c.mountEtcdCertificate); err != nil {
		return err
	}
	if err := c.run(ctx, WeirEtcd); err != nil {
		return err
	}
	if err := c.openService(servers); err != nil {
		return err
	}
	if err := c.await(ctx, servers[0]); err != nil {
		return err
	}
	rest := servers[1:]
	if c.opts.Apart {
		rest = append(rest, c.Replicas(WeirController)...)
	}
	for _, name := range rest {
		if err := c.run(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// mountEtcdCertificate writes the files of the Secret, as the kubelet does.
func (c *Cluster) mountEtcdCertificate(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	secret, err := client.CoreV1().Secrets(weirNamespace).Get(ctx, etcdServerSecret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	dir := c.path(etcdServerSecret)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, key := range []string{"ca.crt", corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf("secret %s has no %s yet", etcdServerSecret, key)
		}
		if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openService distributes connections to the replicas that are in the Service.
func (c *Cluster) openService(servers []string) error {
	var members []backend
	for _, name := range servers {
		members = append(members, backend{name: name, healthy: isInService("https://" + c.Address(name) + "/readyz")})
	}
	c.service = newSplitter(members)
	for _, port := range []string{WeirAPIServer, weirWebhook} {
		if err := c.service.listen(c.Address(port), func(name string) string { return c.port(replicaPort(port, name)) }); err != nil {
			return err
		}
	}
	return nil
}

// isInService checks a replica as the kubelet and the controller of EndpointSlices do together. A replica that ends
// leaves the Service at once. A replica that only fails the readiness probe of the manifests, because its store does not
// answer, leaves the Service after three failures in six seconds.
func isInService(readyz string) func(context.Context) error {
	const period, failures = 2 * time.Second, 3
	running, ready := httpOK(readyz+"?exclude=etcd&exclude=etcd-readiness"), httpOK(readyz)
	var failingSince time.Time
	return func(ctx context.Context) error {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := running(asking); err != nil {
			return err
		}
		err := ready(ctx)
		switch {
		case err == nil:
			failingSince = time.Time{}
		case failingSince.IsZero():
			failingSince = time.Now()
		case time.Since(failingSince) >= failures*period:
			return err
		}
		return nil
	}
}

func (c *Cluster) weirEtcdArgs() []string {
	client, peer := "https://"+c.Address(WeirEtcd), "http://"+c.Address(weirEtcdPeer)
	file := func(name string) string { return c.path(etcdServerSecret, name) }
	return []string{
		"--data-dir=" + c.path("weir-etcd-data"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--listen-metrics-urls=http://" + c.Address(weirEtcdMetrics),
		"--client-cert-auth", "--trusted-ca-file=" + file("ca.crt"),
		"--cert-file=" + file("tls.crt"), "--key-file=" + file("tls.key"),
		"--unsafe-no-fsync", "--watch-progress-notify-interval=5s", "--log-level=warn",
	}
}

// withEtcdServers sets the etcd of a server. Repeated flags add servers, so the flag of the
// manifests is removed.
func (c *Cluster) withEtcdServers(name string, args []string) []string {
	if !c.replicated() {
		// The directory may be in memory, because the data need not survive a reboot.
		return append(args, "--data-dir="+c.WeirData(), "--ephemeral")
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-servers=") })
	return append(args, "--etcd-servers=https://"+c.Address(WeirEtcd), "--etcd-certificates="+c.path(name+"-etcd"))
}
