// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/certs"
	"github.com/weir-rollouts/weir/test/cluster"
)

const (
	systemNamespace = "weir-system"
	serverName      = "weir-apiserver.weir-system.svc"
)

func secretOf(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, testEnv.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

// authorities returns the CA bundle that callers of weir-apiserver have to trust.
func authorities(t *testing.T) []byte {
	t.Helper()
	secret, err := secretOf(t.Context(), systemNamespace, certs.ServingSecret)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data[corev1.ServiceAccountRootCAKey]
}

// trustedByAPIService returns the CA bundle and the port of an APIService.
func trustedByAPIService(ctx context.Context, version string) ([]byte, int64, error) {
	service := &unstructured.Unstructured{}
	service.SetAPIVersion("apiregistration.k8s.io/v1")
	service.SetKind("APIService")
	if err := testEnv.client.Get(ctx, client.ObjectKey{Name: version + ".rollouts.kruise.io"}, service); err != nil {
		return nil, 0, err
	}
	text, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
	if err != nil {
		return nil, 0, err
	}
	port, _, err := unstructured.NestedInt64(service.Object, "spec", "service", "port")
	if err != nil {
		return nil, 0, err
	}
	bundle, err := base64.StdEncoding.DecodeString(text)
	return bundle, port, err
}

// trustedByWebhook returns the CA bundle and the port of the webhook.
func trustedByWebhook(ctx context.Context) ([]byte, int64, error) {
	hook := &admissionv1.MutatingWebhookConfiguration{}
	if err := testEnv.client.Get(ctx, client.ObjectKey{Name: "weir-workloads"}, hook); err != nil {
		return nil, 0, err
	}
	config := hook.Webhooks[0].ClientConfig
	return config.CABundle, int64(*config.Service.Port), nil
}

// handshake connects as a client that trusts the bundle.
func handshake(ctx context.Context, bundle []byte, port int64) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: serverName}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// connectToBothPorts opens a new connection to each port.
func connectToBothPorts(ctx context.Context) error {
	api, apiPort, err := trustedByAPIService(ctx, "v1beta1")
	hook, hookPort, hookErr := trustedByWebhook(ctx)
	if err := errors.Join(err, hookErr); err != nil {
		return err
	}
	return errors.Join(handshake(ctx, api, apiPort), handshake(ctx, hook, hookPort))
}

// readRollouts reads through kube-apiserver.
func (a *app) readRollouts(ctx context.Context) error {
	return testEnv.client.Get(ctx, a.key(name), &v1beta1.Rollout{})
}

// webhookHolds returns an error unless the webhook holds a dry-run update.
func (a *app) webhookHolds(ctx context.Context) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"try":"this"}}}}}`))
	if err := testEnv.client.Patch(ctx, d, patch, client.DryRunAll); err != nil {
		return err
	}
	if !d.Spec.Paused {
		return errors.New("the Deployment would not be held")
	}
	return nil
}

// continuousLoad repeats requests until it is ended. No request may fail.
type continuousLoad struct {
	t    *testing.T
	stop context.CancelFunc
	done sync.WaitGroup
	asks map[string]func(context.Context) error
	n    map[string]*atomic.Int64
}

func (a *app) startContinuousLoad() *continuousLoad {
	ctx, stop := context.WithCancel(a.t.Context())
	l := &continuousLoad{t: a.t, stop: stop, n: map[string]*atomic.Int64{}, asks: map[string]func(context.Context) error{
		"reads": a.readRollouts, "holds": a.webhookHolds, "handshakes": connectToBothPorts,
	}}
	for what, ask := range l.asks {
		n := &atomic.Int64{}
		l.n[what] = n
		l.done.Go(func() {
			for ctx.Err() == nil {
				if err := ask(ctx); err != nil && ctx.Err() == nil {
					a.t.Errorf("after %d %s: %v", n.Load(), what, err)
				}
				n.Add(1)
			}
		})
	}
	return l
}

func (l *continuousLoad) end() {
	l.stop()
	l.done.Wait()
	for what, n := range l.n {
		l.t.Logf("%d %s", n.Load(), what)
	}
}

// restartWithChange restarts weir-apiserver, and changes its certificates while it is down.
func restartWithChange(t *testing.T, change func(), args ...string) {
	t.Helper()
	if err := testEnv.cluster.End(cluster.WeirAPIServer); err != nil {
		t.Fatal(err)
	}
	change()
	if err := testEnv.cluster.StartWith(cluster.WeirAPIServer, args...); err != nil {
		t.Fatal(err)
	}
}

func forgetCertificates(t *testing.T) {
	for _, name := range []string{certs.AuthoritySecret, certs.ServingSecret} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}}
		if err := client.IgnoreNotFound(testEnv.client.Delete(context.WithoutCancel(t.Context()), secret)); err != nil {
			t.Error(err)
		}
	}
}

// TestCertificatesRepaired deletes, empties or damages certificates, which Weir must repair at once
// without help.
func TestCertificatesRepaired(t *testing.T) {
	a := start(t, planWithoutTraffic())
	tests := []struct {
		what  string
		doing func(ctx context.Context) error
	}{
		{"the certificate is deleted", func(ctx context.Context) error { return deleteSecret(ctx, certs.ServingSecret) }},
		{"the CA is deleted", func(ctx context.Context) error { return deleteSecret(ctx, certs.AuthoritySecret) }},
		{"both are deleted", func(ctx context.Context) error {
			return errors.Join(deleteSecret(ctx, certs.ServingSecret), deleteSecret(ctx, certs.AuthoritySecret))
		}},
		{"the certificate is damaged", func(ctx context.Context) error {
			return damageSecret(ctx, certs.ServingSecret, corev1.TLSCertKey)
		}},
		{"the key of the CA is damaged", func(ctx context.Context) error {
			return damageSecret(ctx, certs.AuthoritySecret, "ca.key")
		}},
		{"the CA bundles are empty", func(ctx context.Context) error {
			hook := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-workloads"}}
			empty := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`))
			err := testEnv.client.Patch(ctx, hook, empty)
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				service := &unstructured.Unstructured{}
				service.SetAPIVersion("apiregistration.k8s.io/v1")
				service.SetKind("APIService")
				service.SetName(version + ".rollouts.kruise.io")
				empty := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"caBundle":null}}`))
				err = errors.Join(err, testEnv.client.Patch(ctx, service, empty))
			}
			return err
		}},
	}
	for _, tt := range tests {
		if err := tt.doing(t.Context()); err != nil {
			t.Fatalf("when %s: %v", tt.what, err)
		}
		a.eventually(tt.what+" and all certificates are consistent again", certificatesConsistent)
		a.eventually(tt.what+" and the API answers", a.readRollouts)
		a.eventually(tt.what+" and the webhook answers", a.webhookHolds)
		a.eventually(tt.what+" and connections are verified", connectToBothPorts)
	}
}

// certificatesConsistent checks both Secrets, and that callers trust their CA.
func certificatesConsistent(ctx context.Context) error {
	issuer, err := secretOf(ctx, systemNamespace, certs.AuthoritySecret)
	leaf, leafErr := secretOf(ctx, systemNamespace, certs.ServingSecret)
	if err := errors.Join(err, leafErr); err != nil {
		return err
	}
	want := string(issuer.Data["ca-bundle.crt"])
	beta, _, betaErr := trustedByAPIService(ctx, "v1beta1")
	alpha, _, alphaErr := trustedByAPIService(ctx, "v1alpha1")
	hook, _, hookErr := trustedByWebhook(ctx)
	if err := errors.Join(betaErr, alphaErr, hookErr); err != nil {
		return err
	}
	for who, bundle := range map[string][]byte{
		"v1beta1": beta, "v1alpha1": alpha, "the webhook": hook, "the certificate": leaf.Data[corev1.ServiceAccountRootCAKey],
	} {
		if want == "" || string(bundle) != want {
			return fmt.Errorf("%s does not have the CA bundle", who)
		}
	}
	if _, err := tls.X509KeyPair(leaf.Data[corev1.TLSCertKey], leaf.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return err
	}
	_, err = tls.X509KeyPair(issuer.Data["ca.crt"], issuer.Data["ca.key"])
	return err
}

func deleteSecret(ctx context.Context, name string) error {
	return testEnv.client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}})
}

func damageSecret(ctx context.Context, name, key string) error {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, key, base64.StdEncoding.EncodeToString([]byte("nonsense")))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}}
	return testEnv.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))
}
