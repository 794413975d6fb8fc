// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/internal/chart"
	"github.com/weir-rollouts/weir/internal/golden"
)

// installations are the directories of artifacts that install Weir, and the chart values that
// select each.
var installations = []struct {
	dir, storage string
	oneProcess   bool
}{
	{"small", "volume", true}, {"ha", "etcd", true}, {"external-etcd", "external", true},
	{"small-apart", "volume", false}, {"ha-apart", "etcd", false}, {"external-etcd-apart", "external", false},
}

// TestInstallations checks that a real kube-apiserver accepts every installation, and that none has
// unsafe settings. The cluster of the tests was installed from one of them, so these are dry runs.
func TestInstallations(t *testing.T) {
	t.Parallel()
	components, err := testEnv.cluster.Components()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range installations {
		t.Run(i.dir, func(t *testing.T) {
			t.Parallel()
			objects, err := testEnv.cluster.Render(t.Context(), i.dir, components...)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				name := object.GetKind() + " " + object.GetName()
				if object.GetLabels()["app.kubernetes.io/part-of"] != "weir" {
					t.Errorf("%s has no label app.kubernetes.io/part-of=weir, by which an uninstallation finds it", name)
				}
				for _, complaint := range securityProblems(t, object) {
					t.Errorf("%s: %s", name, complaint)
				}
			}
			if err := testEnv.cluster.Check(t.Context(), objects); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCertManager checks that with cert-manager Weir itself issues no certificates and writes no CA
// bundles.
func TestCertManager(t *testing.T) {
	t.Parallel()
	objects, err := testEnv.cluster.Render(t.Context(), "small", "cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	published := 0
	for _, o := range objects {
		if o.GetAnnotations()["cert-manager.io/inject-ca-from"] == "weir-system/weir-apiserver" {
			published++
		}
		if o.GetKind() != "Deployment" || o.GetName() != "weir-apiserver" {
			continue
		}
		pod := podOf(t, o)
		for _, arg := range []string{"--tls-mode=files", "--data-dir=/var/lib/weir/data"} {
			if !slices.Contains(pod.Containers[0].Args, arg) {
				t.Errorf("weir-apiserver has no flag %s: %q", arg, pod.Containers[0].Args)
			}
		}
		if len(pod.Volumes) != 2 {
			t.Errorf("weir-apiserver has the volumes %v, want its data and its certificate", pod.Volumes)
		}
	}
	if published != 4 {
		t.Errorf("%d objects get the CA bundle, want the APIServices and the webhook", published)
	}
}

// TestWebhookOnly checks the installation for clusters without policies: the webhook refuses
// updates that it cannot hold.
func TestWebhookOnly(t *testing.T) {
	t.Parallel()
	objects, err := testEnv.cluster.Render(t.Context(), "small", "webhook-only")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, o := range objects {
		if strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy") {
			t.Errorf("%s %s is left", o.GetKind(), o.GetName())
		}
		if o.GetKind() == "MutatingWebhookConfiguration" {
			webhooks := typed[admissionregistrationv1.MutatingWebhookConfiguration](t, o.Object).Webhooks
			if p := webhooks[0].FailurePolicy; p != nil && *p == admissionregistrationv1.Fail {
				refused++
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d webhooks refuse updates that they cannot hold, want 1", refused)
	}
}

// TestChart checks that the chart with values renders the manifests.
func TestChart(t *testing.T) {
	t.Parallel()
	var all []chart.Installation
	for _, i := range installations {
		objects, err := testEnv.cluster.Render(t.Context(), i.dir)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chart.Installation{Storage: i.storage, OneProcess: i.oneProcess, Objects: objects})
	}
	certManager, err := testEnv.cluster.Render(t.Context(), "small", "cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	monitoring, err := testEnv.cluster.Render(t.Context(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	text, err := chart.Text(all,
		chart.Addition{Value: ".Values.certManager.enabled", Objects: ofKinds(certManager, "Certificate", "Issuer")},
		chart.Addition{Value: ".Values.serviceMonitor.enabled", Objects: ofKinds(monitoring, "ClusterRole", "Service", "ServiceMonitor")},
	)
	if err != nil {
		t.Fatal(err)
	}
	golden.At(t, filepath.Join("..", "..", "charts", "weir", "templates", "install.yaml"), text)
}

// ofKinds returns the objects of some kinds.
func ofKinds(objects []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GetKind()) })
}

// securityProblems returns the unsafe settings of an object.
func securityProblems(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	switch object.GetKind() {
	case "Deployment", "StatefulSet":
		return podSecurityProblems(podOf(t, object))
	case "ClusterRole":
		return roleProblems("", typed[rbacv1.ClusterRole](t, object.Object).Rules)
	case "Role":
		return roleProblems(object.GetNamespace(), typed[rbacv1.Role](t, object.Object).Rules)
	case "APIService":
		if skip, _, _ := unstructured.NestedBool(object.Object, "spec", "insecureSkipTLSVerify"); skip {
			return []string{"it does not verify the TLS certificate of the server"}
		}
	}
	return nil
}

// podOf returns the pod template of a workload.
func podOf(t *testing.T, object *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	template, _, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	return typed[corev1.PodTemplateSpec](t, template).Spec
}

func podSecurityProblems(pod corev1.PodSpec) []string {
	var all []string
	complain := func(wrong bool, what string) {
		if wrong {
			all = append(all, what)
		}
	}
	s := pod.SecurityContext
	complain(pod.ServiceAccountName == "", "it runs as the default service account")
	complain(pod.HostNetwork || pod.HostPID || pod.HostIPC, "it uses a namespace or a volume of its node")
	complain(s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot, "it may run as root")
	complain(s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault, "it has no seccomp profile")
	for _, c := range pod.Containers {
		s := c.SecurityContext
		complain(s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem, "its root filesystem is writable")
		complain(s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "it allows privilege escalation")
		complain(s == nil || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL"), "it has capabilities")
		complain(c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero(), "it has no resource requests, so it is evicted first")
		complain(c.Resources.Limits.Memory().IsZero(), "it has no memory limit")
		complain(c.StartupProbe == nil || c.ReadinessProbe == nil || c.LivenessProbe == nil, "it lacks a probe")
	}
	return all
}

// roleProblems returns the unsafe rules of a role; namespace is empty for a ClusterRole. The role
// weir-sources is for the credentials of metric sources, which are read by name.
func roleProblems(namespace string, rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		for _, names := range [][]string{r.APIGroups, r.Resources, r.Verbs} {
			if slices.Contains(names, rbacv1.ResourceAll) {
				all = append(all, "it allows everything in "+strings.Join(r.Resources, ", "))
			}
		}
		sources := namespace == "weir-sources" && slices.Equal(r.Verbs, []string{"get"})
		if slices.Contains(r.Resources, "secrets") && len(r.ResourceNames) == 0 && !sources && !slices.Equal(r.Verbs, []string{"create"}) {
			all = append(all, "it allows more than to create any secret")
		}
	}
	return all
}

func typed[T any](t *testing.T, object map[string]any) T {
	t.Helper()
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScraped checks for each installation that the Service of artifacts/monitoring selects the
// pods and the port with the metrics of the controllers.
func TestScraped(t *testing.T) {
	t.Parallel()
	monitoring, err := testEnv.cluster.Render(t.Context(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(monitoring, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Service" })
	selector := labels.SelectorFromSet(typed[corev1.Service](t, monitoring[i].Object).Spec.Selector)
	for _, i := range installations {
		objects, err := testEnv.cluster.Render(t.Context(), i.dir)
		if err != nil {
			t.Fatal(err)
		}
		var selected []string
		for _, o := range objects {
			if o.GetKind() != "Deployment" {
				continue
			}
			template := typed[appsv1.Deployment](t, o.Object).Spec.Template
			served := slices.ContainsFunc(template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" })
			if selector.Matches(labels.Set(template.Labels)) && served {
				selected = append(selected, o.GetName())
			}
		}
		if want := map[bool]string{true: "weir-apiserver", false: "weir-controller"}[i.oneProcess]; !slices.Equal(selected, []string{want}) {
			t.Errorf("%s: the metrics of %q are scraped, want those of %s", i.dir, selected, want)
		}
	}
}
