// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Row is one source of metrics: a router, a mesh, or a convention of applications.
type Row struct {
	Name string
	// Routers are the kinds that it may serve, with the class of an Ingress; nil is any.
	Routers []string

	requests, durations string
	// perMillisecond is how many of the unit of durations are a millisecond.
	perMillisecond float64
	// namespace is the label with the namespace of the release, if there is one.
	namespace string
	where     func(Release) []string
	by        split
	// collide are the labels that a target has, too.
	collide []string
	// classes are the labels with the status; bad tells that of a failed request.
	classes []string
	bad     func(labels map[string]string) bool
	// known is 1 as long as a target is known.
	known string
}

// split is the label that tells the versions apart, and its patterns.
type split struct {
	label    string
	versions func(Release) (fresh, stable string, err error)
	// matched labels have one of the patterns.
	matched bool
}

const up = "up"

// Table is every row, in the order to try them. What is exported was read here:
//   - ingress-nginx: internal/ingress/metric/collectors/socket.go and lua/monitor.lua. The
//     label canary is the upstream of a canary Ingress; ingress names the stable one.
//   - Traefik 3.6.7: pkg/observability/metrics/prometheus.go, and pkg/provider/kubernetes
//     for the names of services, which differ by provider.
//   - Istio: istio.io/latest/docs/reference/config/metrics. Each proxy on the way reports a
//     request, so a row takes one reporter.
//   - Linkerd: linkerd.io/2-edge/reference/proxy-metrics. Its own port and the probes of
//     the kubelet are inbound, too.
//   - OpenTelemetry: semantic conventions of HTTP metrics, and the rules that translate
//     them to names of Prometheus. Pushed ones have target_info in place of up.
//
// Envoy Gateway has no row: it makes one cluster of all backends of a rule, which has
// both versions. There, and without a router, applications tell.
var Table = []Row{
	{
		Name: "ingress-nginx", Routers: []string{"Ingress/nginx"},
		requests: "nginx_ingress_controller_requests", durations: "nginx_ingress_controller_request_duration_seconds", perMillisecond: 0.001,
		namespace: "namespace", where: ingresses, by: split{label: "canary", versions: canaries}, collide: []string{"namespace"},
		classes: []string{"status"}, bad: serverError("status"), known: up,
	},
	{
		Name: "Traefik", Routers: []string{"TraefikService", "HTTPRoute", "GRPCRoute"},
		requests: "traefik_service_requests_total", durations: "traefik_service_request_duration_seconds", perMillisecond: 0.001,
		by: split{label: "service", versions: traefikServices, matched: true}, collide: []string{"service"},
		classes: []string{"code"}, bad: serverError("code"), known: up,
	},
	{
		Name: "Istio sidecar", requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", perMillisecond: 1,
		namespace: "namespace", where: always(`reporter="destination"`), by: byPod("pod"),
		classes: []string{"response_code", "grpc_response_status"}, bad: serverError("response_code", "grpc_response_status"), known: up,
	},
	{
		Name: "Istio waypoint", Routers: []string{"VirtualService", "HTTPRoute", "GRPCRoute"},
		requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", perMillisecond: 1,
		namespace: "destination_service_namespace", where: always(`reporter="waypoint"`), by: split{label: "destination_service_name", versions: services, matched: true},
		classes: []string{"response_code", "grpc_response_status"}, bad: serverError("response_code", "grpc_response_status"), known: up,
	},
	{
		Name: "Linkerd", requests: "response_total", durations: "response_latency_ms", perMillisecond: 1,
		namespace: "namespace", where: always(`direction="inbound"`, `target_port!="4191"`, `route_name!="probe"`), by: byPod("pod"),
		classes: []string{"classification"}, bad: func(labels map[string]string) bool { return labels["classification"] == "failure" }, known: up,
	},
	{
		Name: "OpenTelemetry", requests: "http_server_request_duration_seconds_count", durations: "http_server_request_duration_seconds", perMillisecond: 0.001,
		namespace: "namespace", by: byPod("pod"),
		classes: []string{"http_response_status_code"}, bad: serverError("http_response_status_code"), known: up,
	},
	{
		Name: "OpenTelemetry (pushed)", requests: "http_server_request_duration_seconds_count", durations: "http_server_request_duration_seconds", perMillisecond: 0.001,
		namespace: "k8s_namespace_name", by: byPod("k8s_pod_name"),
		classes: []string{"http_response_status_code"}, bad: serverError("http_response_status_code"), known: "target_info",
	},
	{
		Name: "http_requests_total", requests: "http_requests_total", durations: "http_request_duration_seconds", perMillisecond: 0.001,
		namespace: "namespace", by: byPod("pod"),
		classes: []string{"code", "status", "status_code"}, bad: serverError("code", "status", "status_code"), known: up,
	},
}

// For are the rows that may have the requests of a release with those routers, the
// likely ones first. A router is a kind, or Ingress/CLASS.
func For(routers ...string) []Row {
	var rows []Row
	for _, row := range Table {
		if row.Routers == nil || slices.ContainsFunc(routers, func(r string) bool { return slices.Contains(row.Routers, r) }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// The codes of gRPC that OpenTelemetry counts as errors of a server.
var grpcErrors = []string{"2", "4", "12", "13", "14", "15"}

// serverError finds a status of 500 and above, a class as 5xx, or a code of gRPC. Each
// request has one of the labels.
func serverError(labels ...string) func(map[string]string) bool {
	return func(of map[string]string) bool {
		return slices.ContainsFunc(labels, func(label string) bool {
			value := of[label]
			return len(value) == 3 && value[0] == '5' || strings.HasPrefix(label, "grpc_") && slices.Contains(grpcErrors, value)
		})
	}
}

func always(matchers ...string) func(Release) []string {
	return func(Release) []string { return matchers }
}

func ingresses(rel Release) []string {
	names := make([]string, 0, len(rel.Ingresses))
	for _, name := range rel.Ingresses {
		names = append(names, literal(name))
	}
	return []string{fmt.Sprintf("ingress=~%q", strings.Join(names, "|"))}
}

func canaries(rel Release) (fresh, stable string, err error) {
	if len(rel.Ingresses) == 0 {
		return "", "", errors.New("the release has no Ingress")
	}
	return ".+", "", nil
}

func byPod(label string) split {
	return split{label: label, matched: true, versions: func(rel Release) (string, string, error) {
		if rel.New.Pods == "" || rel.Stable.Pods == "" {
			return "", "", errors.New("a version has no pods")
		}
		return string(rel.New.Pods), string(rel.Stable.Pods), nil
	}}
}

func services(rel Release) (fresh, stable string, err error) {
	if rel.New.Service.Name == "" || rel.Stable.Service.Name == "" {
		return "", "", errors.New("a version has no Service of its own")
	}
	return literal(rel.New.Service.Name), literal(rel.Stable.Service.Name), nil
}

// traefikServices are those of the providers for an Ingress, for IngressRoutes and
// TraefikServices, and for the Gateway API.
func traefikServices(rel Release) (fresh, stable string, err error) {
	if _, _, err := services(rel); err != nil {
		return "", "", err
	}
	name := func(s Service) string {
		ports := strings.Join(s.Ports, "|")
		return fmt.Sprintf("%[1]s-%[2]s-(%[3]s)@kubernetes(crd)?|%[1]s-%[2]s-http-(%[3]s)@kubernetesgateway", rel.Namespace, strings.ReplaceAll(s.Name, ".", "-"), ports)
	}
	if len(rel.New.Service.Ports) == 0 || len(rel.Stable.Service.Ports) == 0 {
		return "", "", errors.New("a Service has no ports")
	}
	return name(rel.New.Service), name(rel.Stable.Service), nil
}
