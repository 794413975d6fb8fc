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
	// millisecond is one in the unit of durations.
	millisecond float64
	// namespace is the label with the namespace of the release, if there is one.
	namespace string
	where     []string
	by        split
	// collide are the labels that a target has, too.
	collide []string
	// classes are the labels that tell a failure.
	classes []string
	// known is 1 as long as a target is known.
	known string
}

// split is the label that tells the versions apart, and its patterns. One that is not
// matched tells those of an Ingress apart.
type split struct {
	label    string
	versions func(Release) (fresh, stable string, err error)
	matched  bool
	// pod is the label, if it names pods.
	pod string
}

const (
	up      = "up"
	second  = 0.001
	grpc    = "grpc_response_status"
	otel    = "http_server_request_duration_seconds"
	otelBad = "http_response_status_code"
)

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
		requests: "nginx_ingress_controller_requests", durations: "nginx_ingress_controller_request_duration_seconds", millisecond: second,
		namespace: "namespace", by: split{label: "canary", versions: canaries},
		collide: []string{"namespace"}, classes: []string{"status"}, known: up,
	},
	{
		Name: "Traefik", Routers: []string{"TraefikService", "HTTPRoute", "GRPCRoute"},
		requests: "traefik_service_requests_total", durations: "traefik_service_request_duration_seconds", millisecond: second,
		by: split{label: "service", versions: traefikServices, matched: true}, collide: []string{"service"}, classes: []string{"code"}, known: up,
	},
	{
		Name: "Istio sidecar", requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", millisecond: 1,
		namespace: "namespace", where: []string{`reporter="destination"`}, by: byPod("pod"), classes: []string{"response_code", grpc}, known: up,
	},
	{
		Name: "Istio waypoint", Routers: []string{"VirtualService", "HTTPRoute", "GRPCRoute"},
		requests: "istio_requests_total", durations: "istio_request_duration_milliseconds", millisecond: 1,
		namespace: "destination_service_namespace", where: []string{`reporter="waypoint"`},
		by: split{label: "destination_service_name", versions: services, matched: true}, classes: []string{"response_code", grpc}, known: up,
	},
	{
		Name: "Linkerd", requests: "response_total", durations: "response_latency_ms", millisecond: 1,
		namespace: "namespace", where: []string{`direction="inbound"`, `target_port!="4191"`, `route_name!="probe"`},
		by: byPod("pod"), classes: []string{"classification"}, known: up,
	},
	{
		Name: "OpenTelemetry", requests: otel + "_count", durations: otel, millisecond: second,
		namespace: "namespace", by: byPod("pod"), classes: []string{otelBad}, known: up,
	},
	{
		Name: "OpenTelemetry (pushed)", requests: otel + "_count", durations: otel, millisecond: second,
		namespace: "k8s_namespace_name", by: byPod("k8s_pod_name"), classes: []string{otelBad}, known: "target_info",
	},
	{
		Name: "http_requests_total", requests: "http_requests_total", durations: "http_request_duration_seconds", millisecond: second,
		namespace: "namespace", by: byPod("pod"), classes: []string{"code", "status", "status_code"}, known: up,
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

// grpcErrors are the codes of gRPC that OpenTelemetry counts as errors of a server.
var grpcErrors = []string{"2", "4", "12", "13", "14", "15"}

// bad finds a status of 500 and above, a class as 5xx, a code of gRPC, or the word.
func (r Row) bad(labels map[string]string) bool {
	return slices.ContainsFunc(r.classes, func(class string) bool {
		value := labels[class]
		return len(value) == 3 && value[0] == '5' || class == grpc && slices.Contains(grpcErrors, value) || value == "failure"
	})
}

// failures is a regular expression of the values that bad finds.
func failures(class string) string {
	if class == grpc {
		return "5..|failure|" + strings.Join(grpcErrors, "|")
	}
	return "5..|failure"
}

func canaries(rel Release) (fresh, stable string, err error) {
	if len(rel.Ingresses) == 0 {
		return "", "", errors.New("the release has no Ingress")
	}
	return ".+", "", nil
}

func byPod(label string) split {
	return split{label: label, pod: label, matched: true, versions: func(rel Release) (string, string, error) {
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
	if len(rel.New.Service.Ports) == 0 || len(rel.Stable.Service.Ports) == 0 {
		return "", "", errors.New("a version has no Service of its own with ports")
	}
	name := func(s Service) string {
		return fmt.Sprintf("%[1]s-%[2]s-(%[3]s)@kubernetes(crd)?|%[1]s-%[2]s-http-(%[3]s)@kubernetesgateway",
			rel.Namespace, strings.ReplaceAll(s.Name, ".", "-"), strings.Join(s.Ports, "|"))
	}
	return name(rel.New.Service), name(rel.Stable.Service), nil
}
