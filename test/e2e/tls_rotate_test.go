// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	certutil "k8s.io/client-go/util/cert"

	"github.com/weir-rollouts/weir/pkg/certs"
)

// TestCertificatesRotate uses certificates and CAs that are valid for seconds only, and rotates
// them while clients read, hold and connect. No request fails. Then all processes are stopped until
// no certificate is valid any more. They must start without help, and a paused release must
// continue.
func TestCertificatesRotate(t *testing.T) {
	a, releasing := start(t, planWithoutTraffic()), startPausedAtStep1(t)
	t.Cleanup(func() { restartWithChange(t, func() { forgetCertificates(t) }) })
	restartWithChange(t, func() { forgetCertificates(t) }, "--tls-lifetime=10s", "--tls-ca-lifetime=30s", "--tls-ca-overlap=3s")
	a.eventually("the webhook answers", a.webhookHolds)

	l := a.startContinuousLoad()
	issuers, leaves := sets.New[string](), sets.New[string]()
	const wanted = 4
	err := a.await("certificates were replaced", func(ctx context.Context) error {
		issuer, err := secretOf(ctx, systemNamespace, certs.AuthoritySecret)
		leaf, leafErr := secretOf(ctx, systemNamespace, certs.ServingSecret)
		if err := errors.Join(err, leafErr); err != nil {
			return err
		}
		issuers.Insert(string(issuer.Data["ca.crt"]))
		leaves.Insert(string(leaf.Data[corev1.TLSCertKey]))
		if issuers.Len() < wanted || leaves.Len() < 2*wanted {
			return fmt.Errorf("%d CAs and %d certificates were observed", issuers.Len(), leaves.Len())
		}
		return nil
	})
	l.end()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d CAs, %d certificates", issuers.Len(), leaves.Len())

	restartWithChange(t, func() {
		secret, err := secretOf(t.Context(), systemNamespace, certs.AuthoritySecret)
		if err != nil {
			t.Fatal(err)
		}
		made, err := certutil.ParseCertsPEM(secret.Data["ca-bundle.crt"])
		if err != nil {
			t.Fatal(err)
		}
		a.eventually("nothing is valid", func(context.Context) error {
			for _, cert := range made {
				if time.Now().Before(cert.NotAfter) {
					return fmt.Errorf("a CA is valid until %s", cert.NotAfter)
				}
			}
			return nil
		})
	})
	a.eventually("the API answers", a.readRollouts)
	a.eventually("the webhook answers", a.webhookHolds)
	a.eventually("connections are verified", connectToBothPorts)
	releasing.checkNow(releasing.runs(versions{"v1": 4, "v2": 2}))
	releasing.eventually("step 1 waits", releasing.waitsAtStep(1))
	releasing.promoteAll()
	releasing.eventually("the release is complete", releasing.released("v2"))
}
