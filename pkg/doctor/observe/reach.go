// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/doctor"
)

// dialTimeout limits the time for a connection. From outside the cluster, Services often cannot be reached.
const dialTimeout = 3 * time.Second

// httpsPort is the port to which kube-apiserver connects by default.
const httpsPort = 443

// apiService contains the fields of an APIService that are read.
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

var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

func (o *Observer) observeAPIServices(ctx context.Context, f *doctor.Facts) error {
	list, err := o.listOfGroups(ctx, apiServiceResource)
	if err != nil {
		return err
	}
	f.APIServices = map[string]doctor.APIService{}
	for _, object := range list {
		var s apiService
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &s); err != nil {
			return fmt.Errorf("reading APIService %s: %w", object.GetName(), err)
		}
		fact := doctor.APIService{
			SkipsVerification: s.Spec.InsecureSkipTLSVerify, CABundle: s.Spec.CABundle,
			Reason: "Unknown", Message: "kube-apiserver has not looked yet",
		}
		_, fact.Automanaged = object.GetLabels()["kube-aggregator.kubernetes.io/automanaged"]
		if s.Spec.Service != nil {
			fact.Service, fact.Port = s.Spec.Service.Namespace+"/"+s.Spec.Service.Name, ptr.Deref(s.Spec.Service.Port, httpsPort)
		}
		if c := meta.FindStatusCondition(s.Status.Conditions, "Available"); c != nil {
			fact.Available, fact.Reason, fact.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
		}
		f.APIServices[object.GetName()] = fact
	}
	return nil
}

func (o *Observer) observeWebhooks(ctx context.Context, f *doctor.Facts) error {
	wanted, err := o.Wanted.Webhooks()
	if err != nil {
		return err
	}
	f.Webhooks = map[string]admissionv1.MutatingWebhookConfiguration{}
	for _, want := range wanted {
		have, err := nilIfNotFound(o.typed.admission.MutatingWebhookConfigurations().Get(ctx, want.Name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if have != nil {
			f.Webhooks[want.Name] = *have
		}
	}
	return nil
}

func (o *Observer) observePolicies(ctx context.Context, f *doctor.Facts) error {
	group := admissionv1.SchemeGroupVersion
	resources, err := o.typed.discovery.ServerResourcesForGroupVersion(group.String())
	if err != nil {
		return err
	}
	f.Policies = map[string]*unstructured.Unstructured{}
	for _, r := range resources.APIResources {
		if strings.Contains(r.Name, "/") || !strings.Contains(r.Kind, "AdmissionPolicy") {
			continue
		}
		f.PoliciesServed = f.PoliciesServed || r.Kind == "MutatingAdmissionPolicy"
		for _, want := range o.Wanted.OfKinds(r.Kind) {
			have, err := nilIfNotFound(o.dynamic.Resource(group.WithResource(r.Name)).Get(ctx, want.GetName(), metav1.GetOptions{}))
			if err != nil {
				return err
			}
			if have != nil {
				f.Policies[r.Kind+" "+want.GetName()] = have
			}
		}
	}
	return nil
}

// observeCertificates connects to the endpoints of the APIServices and webhooks, which were read before.
func (o *Observer) observeCertificates(ctx context.Context, f *doctor.Facts) error {
	f.Served = map[string]doctor.Served{}
	for name, s := range f.APIServices {
		if namespace, service, ok := strings.Cut(s.Service, "/"); ok {
			f.Served["APIService "+name] = o.connectToService(ctx, namespace, service, s.Port)
		}
	}
	for _, c := range f.Webhooks {
		for _, w := range c.Webhooks {
			f.Served["webhook "+w.Name] = o.connectToWebhook(ctx, w.ClientConfig)
		}
	}
	return nil
}

func (o *Observer) connectToWebhook(ctx context.Context, c admissionv1.WebhookClientConfig) doctor.Served {
	if c.Service != nil {
		return o.connectToService(ctx, c.Service.Namespace, c.Service.Name, ptr.Deref(c.Service.Port, httpsPort))
	}
	if c.URL == nil {
		return doctor.Served{}
	}
	to, err := url.Parse(*c.URL)
	if err != nil {
		return doctor.Served{Err: err}
	}
	return readServingCertificate(ctx, net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), strconv.Itoa(httpsPort))), to.Hostname())
}

// connectToService connects to a Service as kube-apiserver does: to its cluster IP, or to its external name.
func (o *Observer) connectToService(ctx context.Context, namespace, name string, port int32) doctor.Served {
	host := name + "." + namespace + ".svc"
	s, err := o.typed.core.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return doctor.Served{Host: host, Err: err}
	}
	to := s.Spec.ClusterIP
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		to = s.Spec.ExternalName
	}
	return readServingCertificate(ctx, net.JoinHostPort(to, strconv.Itoa(int(port))), host)
}

// readServingCertificate reads the serving certificate of an address. pkg/doctor verifies it.
func readServingCertificate(ctx context.Context, address, host string) doctor.Served {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} //nolint:gosec // see above
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return doctor.Served{Host: host, Err: err}
	}
	defer func() { _ = connection.Close() }() // an error does not matter, because nothing was written
	s := doctor.Served{Host: host}
	if t, ok := connection.(*tls.Conn); ok {
		s.Chain = t.ConnectionState().PeerCertificates
	}
	return s
}
