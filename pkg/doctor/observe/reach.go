// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/doctor"
)

// dialLimit is how long a connection may take. From outside the cluster there
// is often none.
const dialLimit = 3 * time.Second

// apiService is the part of an APIService that is read.
type apiService struct {
	Spec struct {
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			Port      *int32 `json:"port"`
		} `json:"service"`
		CABundle              []byte `json:"caBundle"`
		InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (o *Observer) readAPIServices(ctx context.Context) (map[string]apiService, map[string]bool, error) {
	list, err := o.dynamic.Resource(schema.GroupVersionResource{
		Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices",
	}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	found, automanaged := map[string]apiService{}, map[string]bool{}
	for _, object := range ofGroup(list) {
		var s apiService
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &s); err != nil {
			return nil, nil, fmt.Errorf("reading APIService %s: %w", object.GetName(), err)
		}
		found[object.GetName()] = s
		_, automanaged[object.GetName()] = object.GetLabels()["kube-aggregator.kubernetes.io/automanaged"]
	}
	return found, automanaged, nil
}

func (o *Observer) apiServices(ctx context.Context, f *doctor.Facts) error {
	found, automanaged, err := o.readAPIServices(ctx)
	if err != nil {
		return err
	}
	f.APIServices = map[string]doctor.APIService{}
	for name, s := range found {
		fact := doctor.APIService{
			Automanaged: automanaged[name], SkipsVerification: s.Spec.InsecureSkipTLSVerify, CABundle: s.Spec.CABundle,
			Reason: "Unknown", Message: "kube-apiserver has not looked yet",
		}
		if s.Spec.Service != nil {
			fact.Service = s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
		}
		for _, c := range s.Status.Conditions {
			if c.Type == "Available" {
				fact.Available, fact.Reason, fact.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
			}
		}
		f.APIServices[name] = fact
	}
	return nil
}

func (o *Observer) webhooks(ctx context.Context, f *doctor.Facts) error {
	wanted, err := o.Wanted.Webhooks()
	if err != nil {
		return err
	}
	f.Webhooks = map[string]admissionv1.MutatingWebhookConfiguration{}
	for _, want := range wanted {
		have, err := o.typed.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, want.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		f.Webhooks[want.Name] = *have
	}
	return nil
}

func (o *Observer) policies(ctx context.Context, f *doctor.Facts) error {
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	served, err := o.typed.Discovery().ServerResourcesForGroupVersion(group.String())
	if err != nil {
		return err
	}
	f.Policies = map[string]*unstructured.Unstructured{}
	for _, r := range served.APIResources {
		wanted := o.Wanted.Of(r.Kind)
		switch {
		case strings.Contains(r.Name, "/") || !strings.Contains(r.Kind, "AdmissionPolicy"):
			continue
		case r.Kind == "MutatingAdmissionPolicy":
			f.PoliciesServed = true
		}
		for _, want := range wanted {
			have, err := o.dynamic.Resource(group.WithResource(r.Name)).Get(ctx, want.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err
			}
			f.Policies[r.Kind+" "+want.GetName()] = have
		}
	}
	return nil
}

// certificates connects to what kube-apiserver connects to.
func (o *Observer) certificates(ctx context.Context, f *doctor.Facts) error {
	f.Served = map[string]doctor.Served{}
	found, _, err := o.readAPIServices(ctx)
	if err != nil {
		return err
	}
	for name, s := range found {
		if s.Spec.Service == nil {
			continue
		}
		port := int32(443)
		if s.Spec.Service.Port != nil {
			port = *s.Spec.Service.Port
		}
		f.Served["APIService "+name] = o.service(ctx, s.Spec.Service.Namespace, s.Spec.Service.Name, port)
	}
	for _, c := range f.Webhooks {
		for _, w := range c.Webhooks {
			f.Served["webhook "+w.Name] = o.webhook(ctx, w.ClientConfig)
		}
	}
	return nil
}

func (o *Observer) webhook(ctx context.Context, c admissionv1.WebhookClientConfig) doctor.Served {
	if c.Service != nil {
		port := int32(443)
		if c.Service.Port != nil {
			port = *c.Service.Port
		}
		return o.service(ctx, c.Service.Namespace, c.Service.Name, port)
	}
	if c.URL == nil {
		return doctor.Served{}
	}
	to, err := url.Parse(*c.URL)
	if err != nil {
		return doctor.Served{Err: err}
	}
	port := to.Port()
	if port == "" {
		port = "443"
	}
	return shown(ctx, net.JoinHostPort(to.Hostname(), port), to.Hostname())
}

// service connects as kube-apiserver does: to the address of the Service, or to
// what it stands for.
func (o *Observer) service(ctx context.Context, namespace, name string, port int32) doctor.Served {
	host := name + "." + namespace + ".svc"
	s, err := o.typed.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return doctor.Served{Host: host, Err: err}
	}
	to := s.Spec.ClusterIP
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		to = s.Spec.ExternalName
	}
	return shown(ctx, net.JoinHostPort(to, strconv.Itoa(int(port))), host)
}

// shown is the certificate that is served there. It is judged elsewhere.
func shown(ctx context.Context, address, host string) doctor.Served {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} //nolint:gosec // see above
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return doctor.Served{Host: host, Err: err}
	}
	defer func() { _ = connection.Close() }() // nothing was written
	served := doctor.Served{Host: host}
	if t, ok := connection.(*tls.Conn); ok {
		served.Chain = t.ConnectionState().PeerCertificates
	}
	return served
}
