// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// stolenTokenRequest is a request that RBAC allows a service account of Weir. deniedBy is the
// policy that refuses the request; empty if Weir itself sends such requests.
type stolenTokenRequest struct {
	name, method, path, kind, body, deniedBy string
}

const (
	asMerge        = "application/merge-patch+json"
	asPatch        = "application/json-patch+json"
	asJSON         = "application/json"
	apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.rollouts.kruise.io"
	webhookPath    = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/weir-workloads"
)

// stolenTokenRequests have paths relative to a namespace of the test, or with ~ to kube-system.
var stolenTokenRequests = []stolenTokenRequest{
	{"publish a CA bundle", "PATCH", apiServicePath, asMerge, `{"spec":{"caBundle":"Zm9v"}}`, ""},
	{"point the APIService to another Service", "PATCH", apiServicePath, asMerge, `{"spec":{"service":{"namespace":"kube-system"}}}`, "weir-guard-apiservices"},
	{"disable TLS verification", "PATCH", apiServicePath, asMerge, `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`, "weir-guard-apiservices"},
	{"make the APIService local", "PATCH", apiServicePath, asMerge, `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}}}`, "weir-guard-apiservices"},
	{"have another CA bundle injected", "PATCH", apiServicePath, asMerge,
		`{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"mallory/ca"}}}`, "weir-guard-apiservices"},

	{"publish a CA bundle of a webhook", "PATCH", webhookPath, asPatch, `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Zm9v"}]`, ""},
	{"send every Secret to the webhook", "PATCH", webhookPath, asPatch,
		`[{"op":"replace","path":"/webhooks/0/rules","value":[{"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"operations":["*"]}]}]`, "weir-guard-webhooks"},
	{"point the webhook to another server", "PATCH", webhookPath, asPatch, `[{"op":"replace","path":"/webhooks/0/clientConfig/service/name","value":"mallory"}]`, "weir-guard-webhooks"},
	{"send more objects to the webhook", "PATCH", webhookPath, asPatch, `[{"op":"remove","path":"/webhooks/0/objectSelector"}]`, "weir-guard-webhooks"},
	{"send no objects to the webhook", "PATCH", webhookPath, asPatch, `[{"op":"add","path":"/webhooks/0/matchConditions/-","value":{"name":"never","expression":"false"}}]`, "weir-guard-webhooks"},
	{"add a webhook", "PATCH", webhookPath, asPatch,
		`[{"op":"add","path":"/webhooks/-","value":{"name":"a.b.c","clientConfig":{"url":"https://a.example"},"sideEffects":"None","admissionReviewVersions":["v1"]}}]`, "weir-guard-webhooks"},
	{"remove a webhook", "PATCH", webhookPath, asPatch, `[{"op":"remove","path":"/webhooks/0"}]`, "weir-guard-webhooks"},

	{"create a token", "POST", "/api/v1/namespaces/weir-system/secrets", asJSON,
		`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"token","annotations":{"kubernetes.io/service-account.name":"weir-controller"}}}`, "weir-guard-creations"},
	{"create a token Secret with a name of Weir", "POST", "/api/v1/namespaces/weir-system/secrets", asJSON,
		`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"weir-etcd-peer","annotations":{"kubernetes.io/service-account.name":"weir-controller"}}}`, "weir-guard-creations"},
	{"create a token Secret with a generated name", "POST", "/api/v1/namespaces/weir-system/secrets", asJSON,
		`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"generateName":"weir-etcd-","annotations":{"kubernetes.io/service-account.name":"weir-controller"}}}`, "weir-guard-creations"},
	{"create a bootstrap token", "POST", "/api/v1/namespaces/weir-system/secrets", asJSON, `{"apiVersion":"v1","kind":"Secret","type":"bootstrap.kubernetes.io/token","metadata":{"name":"weir-etcd-server"}}`, "weir-guard-creations"},
	{"store a certificate", "POST", "/api/v1/namespaces/weir-system/secrets", asJSON,
		`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/tls","metadata":{"name":"weir-etcd-peer"},"data":{"tls.crt":"","tls.key":""}}`, ""},
}

// controllerTokenRequests are requests with the token of weir-controller.
var controllerTokenRequests = []stolenTokenRequest{
	{"label a pod", "PATCH", "pod", asMerge, `{"metadata":{"labels":{"a":"b"}}}`, ""},
	{"change the image of a pod", "PATCH", "pod", asPatch, `[{"op":"replace","path":"/spec/containers/0/image","value":"mallory"}]`, "weir-guard-pods"},
	{"create an index", "POST", "/api/v1/namespaces/default/configmaps", asJSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"rollouts-index"}}`, ""},
	{"create another ConfigMap", "POST", "/api/v1/namespaces/kube-system/configmaps", asJSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cluster-autoscaler-priority-expander"}}`, "weir-guard-creations"},
	{"create a canary Service", "POST", "/api/v1/namespaces/default/services", asJSON, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-canary"},"spec":{"ports":[{"port":80}]}}`, ""},
	{"create another Service", "POST", "/api/v1/namespaces/default/services", asJSON, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`, "weir-guard-creations"},
	{"delete a Service", "DELETE", "/api/v1/namespaces/default/services/kubernetes", asJSON, ``, "weir-guard-creations"},
	{"create another Ingress", "POST", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", asJSON,
		`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web"},"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}}`, "weir-guard-creations"},
	{"run a Job", "POST", "/apis/batch/v1/namespaces/default/jobs", asJSON,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"web"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"mallory"}]}}}}`, "weir-guard-creations"},
	{"create a Deployment of the system", "POST", "/apis/apps/v1/namespaces/kube-system/deployments", asJSON, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
		"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"mallory"}]}}}}`, "weir-guard-system"},
	{"change a Deployment of the system", "PATCH", "system", asPatch, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"mallory"}]`, "weir-guard-system"},
	{"scale a Deployment of the system", "PATCH", "system", asMerge, `{"spec":{"replicas":1}}`, "weir-guard-system"},
	{"delete a Deployment of the system", "DELETE", "system", asJSON, ``, "weir-guard-system"},
	{"point a Service of the system to other pods", "PATCH", "system-service", asMerge, `{"spec":{"selector":{"app":"mallory"}}}`, "weir-guard-system"},
	{"create a canary Service of the system", "POST", "/api/v1/namespaces/kube-system/services", asJSON,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-canary"},"spec":{"ports":[{"port":80}]}}`, "weir-guard-system"},
	{"restore a Deployment of the system", "PATCH", "system", asMerge, `{"metadata":{"labels":{"rollouts.kruise.io/workload-type":null}},"spec":{"paused":false}}`, ""},
}

// TestStolenTokens sends requests with stolen tokens of Weir. Policies must refuse all writes that
// Weir itself does not send, even if RBAC cannot distinguish them. All requests are dry runs.
func TestStolenTokens(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	pods := &corev1.PodList{}
	a.eventually("a pod exists", func(ctx context.Context) error {
		if err := testEnv.client.List(ctx, pods, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is no pod")
		}
		return nil
	})
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "theft"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"count/rollouts.rollouts.kruise.io": resource.MustParse("1000"), corev1.ResourcePods: resource.MustParse("1000"),
		}},
	}
	a.create(quota)
	labels := map[string]string{"app": "stolen-tokens"}
	system := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "stolen-tokens"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "stolen-tokens"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, o := range []client.Object{system, service} {
		if err := testEnv.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := testEnv.client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	paths := map[string]string{
		"pod":            "/api/v1/namespaces/" + a.namespace + "/pods/" + pods.Items[0].Name,
		"system":         "/apis/apps/v1/namespaces/kube-system/deployments/stolen-tokens",
		"system-service": "/api/v1/namespaces/kube-system/services/stolen-tokens",
	}
	all := map[string][]stolenTokenRequest{"weir-controller": slices.Concat(stolenTokenRequests, quotaStatusRequests(a, quota), controllerTokenRequests)}
	if *apart {
		all = map[string][]stolenTokenRequest{"weir-apiserver": slices.Concat(stolenTokenRequests, quotaStatusRequests(a, quota)), "weir-controller": controllerTokenRequests}
	}
	for account, tried := range all {
		// The requests impersonate the accounts, so that they do not count as requests of Weir in grantAudit.
		config := rest.CopyConfig(testEnv.cluster.Config())
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:weir-system:" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:weir-system"},
		}
		for _, one := range tried {
			if path, ok := paths[one.path]; ok {
				one.path = path
			}
			answer := one.try(t, config)
			switch {
			case one.deniedBy == "" && answer != "":
				t.Errorf("%s may not %s, as Weir does: %s", account, one.name, answer)
			case one.deniedBy != "" && !strings.Contains(answer, "ValidatingAdmissionPolicy '"+one.deniedBy+"'"):
				t.Errorf("%s may try to %s: %q, want the refusal of %s", account, one.name, answer, one.deniedBy)
			}
		}
	}
	a.checkNow(a.hasDecisions())
}

// quotaStatusRequests write the whole status of a quota, as RBAC allows, after its objects have
// been counted.
func quotaStatusRequests(a *app, quota *corev1.ResourceQuota) []stolenTokenRequest {
	a.t.Helper()
	// kube-controller-manager may not have discovered Weir's kinds yet.
	a.eventually("the quota counts objects", func(ctx context.Context) error {
		if err := testEnv.client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Used) == 0 {
			return fmt.Errorf("the quota counts %v", quota.Status.Used)
		}
		return nil
	})
	with := func(name corev1.ResourceName) string {
		q := quota.DeepCopy()
		q.APIVersion, q.Kind, q.ResourceVersion = "v1", "ResourceQuota", ""
		q.Status.Used[name] = resource.MustParse("7")
		body, err := json.Marshal(q)
		if err != nil {
			a.t.Fatal(err)
		}
		return string(body)
	}
	path := "/api/v1/namespaces/" + a.namespace + "/resourcequotas/" + quota.Name + "/status"
	return []stolenTokenRequest{
		{"count our objects", "PUT", path, asJSON, with("count/rollouts.rollouts.kruise.io"), ""},
		{"count others' objects", "PUT", path, asJSON, with(corev1.ResourcePods), "weir-guard-quotas"},
	}
}

// try sends the request, and returns the response if it is a refusal.
func (o stolenTokenRequest) try(t *testing.T, config *rest.Config) string {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), o.method, config.Host+o.path+"?dryRun=All", bytes.NewReader([]byte(o.body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", o.kind)
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode/100 == 2 {
		return ""
	}
	return string(body)
}

// TestUnheldNamespacesRefuse checks that a Rollout cannot be created in namespaces in which
// workloads are not held, and that an existing one can be changed there.
func TestUnheldNamespacesRefuse(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{metav1.NamespaceSystem, "weir-system"} {
		r := (&app{t: t, plan: planWithoutTraffic(), namespace: namespace}).newRollout()
		r.Namespace, r.Name = namespace, "unheld"
		err := testEnv.client.Create(t.Context(), r)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.namespace") || !strings.Contains(err.Error(), "Weir never holds workloads in namespace "+namespace) {
			t.Errorf("a Rollout in %s: %v, want a refusal that names the namespace", namespace, err)
		}
		list := &v1beta1.RolloutList{}
		if err := testEnv.client.List(t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) > 0 {
			t.Errorf("namespace %s has %d Rollouts (%v), want none", namespace, len(list.Items), err)
		}
	}
}
