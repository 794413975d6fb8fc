// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestMetrics checks that weir-controller serves every metric that an alert or the dashboard uses,
// and that docs/metrics.md lists every served metric.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.surge, p.unavailable = 1, 0
	a := start(t, p)
	served := map[string]bool{}
	serves := func(names ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			now, err := testEnv.metrics(ctx)
			maps.Copy(served, now)
			for _, name := range names {
				if err == nil && !served[name] && !served[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] {
					err = fmt.Errorf("%s is not served", name)
				}
			}
			return err
		}
	}
	// Some metrics exist only while a release fails, or while a Rollout is stalled.
	q := a.createPodQuota(6)
	a.release("v2")
	a.eventually("the metric of a release that fails is served", serves("weir_rollout_failing"))
	if err := testEnv.client.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	// The policies hold a template change without the webhook. This edit calls the webhook.
	if err := a.patchDeployment(`{"spec":{"paused":false}}`); err != nil {
		t.Fatal(err)
	}
	a.create(&v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "stalled"},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "stalled"},
			Strategy:    v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: v1beta1.Release{Steps: []v1beta1.Step{{Replicas: new(intstr.FromString("100%"))}}}}},
		},
	})
	a.eventually("all metrics of the alerts and the dashboard are served", serves(monitoredMetrics(t)...))
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
}

// monitoredMetrics returns the metrics of Weir that artifacts/monitoring uses.
func monitoredMetrics(t *testing.T) []string {
	t.Helper()
	objects, err := testEnv.cluster.Render(t.Context(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, o := range objects {
		data, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bweir_[a-z_]+`).FindAllString(string(data), -1) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// TestPoliciesSpareWebhook checks that the webhook is not called for a Deployment that a policy has
// just held, and is called in clusters without policies. This test does not run in parallel with
// tests that release. Go runs the tests in the order of their files, so it runs before TestUninstall,
// after which kube-apiserver needs a while until the policies are in effect again.
func TestPoliciesSpareWebhook(t *testing.T) {
	a := start(t, planWithoutTraffic())
	before, err := testEnv.heldByWebhook(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	after, err := testEnv.heldByWebhook(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{true: 0, false: 1}[testEnv.policies]; after-before != want {
		t.Errorf("the webhook held %d updates, want %d", after-before, want)
	}
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
}

// heldByWebhook returns the number of updates that the webhook has held.
func (w *environment) heldByWebhook(ctx context.Context) (int, error) {
	page, err := w.getPage(ctx, "https://"+w.cluster.Address(cluster.WeirAPIServer)+"/metrics")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^weir_admission_duration_seconds_count\{verdict="held"\} (\d+)$`).FindStringSubmatch(page)
	if found == nil {
		return 0, nil
	}
	return strconv.Atoi(found[1])
}

// metrics returns the names of the served metrics of Weir.
func (w *environment) metrics(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	for _, url := range []string{w.cluster.Metrics(), "https://" + w.cluster.Address(cluster.WeirAPIServer) + "/metrics"} {
		page, err := w.getPage(ctx, url)
		if err != nil {
			return nil, err
		}
		for _, found := range regexp.MustCompile(`(?m)^# TYPE (weir_[a-z_]+) `).FindAllStringSubmatch(page, -1) {
			names[found[1]] = true
		}
	}
	return names, nil
}

// getPage reads a page as an administrator.
func (w *environment) getPage(ctx context.Context, url string) (string, error) {
	config := rest.CopyConfig(w.cluster.Config())
	// The URL has the address, but the certificate is for the name of the Service.
	config.Insecure, config.CAFile, config.CAData = true, "", nil
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), nil
}
