// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Row describes the metrics of a router, a mesh or an instrumentation library.
type Row struct {
	Name string
	// Routers are the kinds of routers that report the metrics, with the class of an Ingress; nil
	// for any router.
	Routers []string

	requests, durations string
	// millisecond is one millisecond in the unit of durations.
	millisecond float64
	// namespace is the label with the namespace of the release, if there is one.
	namespace     string
	extraMatchers []string
	versionLabel  versionSplit
	// targetLabels are labels of the metric that the scrape target may have, too.
	targetLabels []string
	// failureLabels are the labels that distinguish failed requests.
	failureLabels []string
	// targetKnown is a series that is 1 while a target is known.
	targetKnown string
}

// versionSplit has the label that distinguishes the versions, and the patterns of its values. If
// usesPattern is false, the label distinguishes the upstreams of an Ingress.
type versionSplit struct {
	label       string
	versions    func(Release) (fresh, stable string, err error)
	usesPattern bool
	// pod is the label with the pod name; empty if there is none.
	pod string
}

const (
	up      = "up"
	second  = 0.001
	grpc    = "grpc_response_status"
	otel    = "http_server_request_duration_seconds"
	otelBad = "http_response_status_code"
)

// Rows are all rows, in the order in which they are tried. The metrics are documented here:
//   - ingress-nginx: internal/ingress/metric/collectors/socket.go and lua/monitor.lua. The
//     label canary has the upstream of a canary Ingress, and ingress the name of the owner's Ingress.
//   - Traefik 3.6.7: pkg/observability/metrics/prometheus.go, and pkg/provider/kubernetes
//     for the names of services, which differ by provider.
//   - Istio: istio.io/latest/docs/reference/config/metrics. Each proxy on the path reports a
//     request, so a row uses the reports of one of them.
//   - Linkerd: linkerd.io/2-edge/reference/proxy-metrics. Requests to the proxy's own
//     port and probes of the kubelet are inbound, too, so they are excluded.
//   - OpenTelemetry: semantic conventions of HTTP metrics, and the rules that translate
//     them to names of Prometheus. Pushed metrics have target_info instead of up.
//
// Envoy Gateway has no row: it combines all backends of a rule, with both versions, into one cluster.
// There, and without a router, the metrics of the applications are used.
var Rows = []Row{
	{
		Name: "ingress-nginx", Routers: []string{"Ingress/nginx"},
		requests: "nginx_ingress_controller_requests", durations: "nginx_ingress_controller_request_duration_seconds", millisecond: second,
		namespace: "namespace", versionLabel: versionSplit{label: "canary", versions: canaryUpstreams},
		targetLabels: []string{"namespace"}, failureLabels: []string{"status"}, targetKnown: up,
	},
	{
		Name: "Traefik", Routers: []string{"TraefikService", "HTTPRoute", "GRPCRoute"},
		requests: "traefik_service_requests_total", durations: "traefik_service_request_duration_seconds", millisecond: second,
		versionLabel: versionSplit{label: "service", versions: traefikServices, usesPattern: true}, targetLabels: []string{"service"}, failureLabels: []string{"code"}, targetKnown: up,
	},
	{
		Name: "Istio sidecar", requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", millisecond: 1,
		namespace: "namespace", extraMatchers: []string{`reporter="destination"`}, versionLabel: splitByPod("pod"), failureLabels: []string{"response_code", grpc}, targetKnown: up,
	},
	{
		Name: "Istio waypoint", Routers: []string{"VirtualService", "HTTPRoute", "GRPCRoute"},
		requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", millisecond: 1,
		namespace: "destination_service_namespace", extraMatchers: []string{`reporter="waypoint"`},
		versionLabel: versionSplit{label: "destination_service_name", versions: serviceNames, usesPattern: true}, failureLabels: []string{"response_code", grpc}, targetKnown: up,
	},
	{
		Name: "Linkerd", requests: "response_total", durations: "response_latency_ms", millisecond: 1,
		namespace: "namespace", extraMatchers: []string{`direction="inbound"`, `target_port!="4191"`, `route_name!="probe"`},
		versionLabel: splitByPod("pod"), failureLabels: []string{"classification"}, targetKnown: up,
	},
	{
		Name: "OpenTelemetry", requests: otel + "_count", durations: otel, millisecond: second,
		namespace: "namespace", versionLabel: splitByPod("pod"), failureLabels: []string{otelBad}, targetKnown: up,
	},
	{
		Name: "OpenTelemetry (pushed)", requests: otel + "_count", durations: otel, millisecond: second,
		namespace: "k8s_namespace_name", versionLabel: splitByPod("k8s_pod_name"), failureLabels: []string{otelBad}, targetKnown: "target_info",
	},
	{
		Name: "http_requests_total", requests: "http_requests_total", durations: "http_request_duration_seconds", millisecond: second,
		namespace: "namespace", versionLabel: splitByPod("pod"), failureLabels: []string{"code", "status", "status_code"}, targetKnown: up,
	},
}

// RowsFor returns the rows that may have the requests of a release with these routers, the likely
// ones first. A router is a kind, or Ingress/CLASS.
func RowsFor(routers ...string) []Row {
	var rows []Row
	for _, row := range Rows {
		if row.Routers == nil || slices.ContainsFunc(routers, func(r string) bool { return slices.Contains(row.Routers, r) }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// grpcErrors are the gRPC codes that OpenTelemetry counts as server errors.
var grpcErrors = []string{"2", "4", "12", "13", "14", "15"}

// isFailure reports whether the labels describe a failed request: a status of 500 and above, the
// class 5xx, a gRPC code, or the word failure.
func (r Row) isFailure(labels map[string]string) bool {
	return slices.ContainsFunc(r.failureLabels, func(class string) bool {
		value := labels[class]
		return len(value) == 3 && value[0] == '5' || class == grpc && slices.Contains(grpcErrors, value) || value == "failure"
	})
}

// failurePattern returns a regular expression of the values that isFailure accepts.
func failurePattern(class string) string {
	if class == grpc {
		return "5..|failure|" + strings.Join(grpcErrors, "|")
	}
	return "5..|failure"
}

func canaryUpstreams(rel Release) (fresh, stable string, err error) {
	if len(rel.Ingresses) == 0 {
		return "", "", errors.New("the release has no Ingress")
	}
	return ".+", "", nil
}

func splitByPod(label string) versionSplit {
	return versionSplit{label: label, pod: label, usesPattern: true, versions: func(rel Release) (string, string, error) {
		if rel.New.Pods == "" || rel.Stable.Pods == "" {
			return "", "", errors.New("a version has no pods")
		}
		return string(rel.New.Pods), string(rel.Stable.Pods), nil
	}}
}

func serviceNames(rel Release) (fresh, stable string, err error) {
	if rel.New.Service.Name == "" || rel.Stable.Service.Name == "" {
		return "", "", errors.New("a version has no Service of its own")
	}
	return quoteName(rel.New.Service.Name), quoteName(rel.Stable.Service.Name), nil
}

// traefikServices returns patterns of the service names of Traefik's providers: for Ingresses, for
// IngressRoutes and TraefikServices, and for the Gateway API.
func traefikServices(rel Release) (fresh, stable string, err error) {
	if len(rel.New.Service.Ports) == 0 || len(rel.Stable.Service.Ports) == 0 {
		return "", "", errors.New("a version has no Service of its own with ports")
	}
	name := func(s Service) string {
		return fmt.Sprintf("%[1]s-%[2]s-(%[3]s)@kubernetes(crd)?|%[1]s-%[2]s-http-(%[3]s)@kubernetesgateway",
			rel.Namespace, strings.ReplaceAll(s.Name, ".", "-"), strings.Join(s.Ports, "|"))
	}
	return name(rel.New.Service), name(rel.Stable.Service), nil
}
