// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
)

// The commands that an import prints use the namespace and the port of the installation. The chart can set
// both.
func TestImportNamesTheInstallation(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "releases", Name: "weir-apiserver", Labels: map[string]string{"app.kubernetes.io/part-of": "weir"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "webhook", Port: 9443}, {Name: "api", Port: 8443}}},
	}
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "releases", Name: "weir-controller"}}
	lists := map[schema.GroupVersionResource]string{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}:   "MutatingWebhookConfigurationList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: "ValidatingWebhookConfigurationList",
		apiServices: "APIServiceList",
	}
	for _, tt := range []struct {
		objects []runtime.Object
		want    []string
		blocked string
	}{
		{nil, []string{`"service":{"namespace":"weir-system","name":"weir-apiserver","port":443}`, "kubectl -n weir-system scale deployment weir-controller --replicas=1"}, ""},
		{
			[]runtime.Object{service, controller},
			[]string{`"service":{"namespace":"releases","name":"weir-apiserver","port":8443}`, "kubectl -n releases scale deployment weir-controller --replicas=1"},
			"kubectl -n releases scale deployment weir-controller --replicas=0",
		},
	} {
		s := &clusterSource{kube: fake.NewClientset(tt.objects...), dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)}
		var out bytes.Buffer
		if err := s.printNext(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("printed\n%s\nwant %s", out.String(), want)
			}
		}
		blocked, err := s.listBlockers(t.Context(), defaultManager)
		if all := strings.Join(blocked, "\n"); err != nil || !strings.Contains(all, tt.blocked) || strings.Contains(all, "scale") != (tt.blocked != "") {
			t.Errorf("blocked by %s, %v; want %s", all, err, tt.blocked)
		}
	}
}
