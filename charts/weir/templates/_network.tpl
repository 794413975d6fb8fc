{{- /* SPDX-FileCopyrightText: The Weir Authors. SPDX-License-Identifier: Apache-2.0.
The values ports and hostNetwork. */}}

{{- /* Ports of the container. With hostNetwork they are ports of the node, where the kubelet uses 10250. */}}
{{- define "weir.apiPort" -}}
{{- $port := .Values.ports.api | default (ternary 10290 10250 .Values.hostNetwork) | int }}
{{- if and .Values.hostNetwork (eq $port 10250) }}
{{- fail "ports.api is 10250, which the kubelet uses on every node; with hostNetwork set another port, such as 10290" }}
{{- end }}
{{- $port }}
{{- end }}

{{- define "weir.metricsPort" -}}
{{- .Values.ports.metrics | default (ternary 10291 8080 .Values.hostNetwork) | int }}
{{- end }}

{{- /* Flags for what differs from the defaults. */}}
{{- define "weir.portArgs" -}}
{{- if .Values.ports.webhook }}
- --webhook-port={{ .Values.ports.webhook | int }}
{{- end }}
{{- if or .Values.ports.metrics .Values.hostNetwork }}
- --metrics-bind-address=:{{ include "weir.metricsPort" . }}
{{- end }}
{{- end }}

{{- define "weir.webhookContainerPort" -}}
{{- if .Values.ports.webhook }}
- {name: webhook, containerPort: {{ .Values.ports.webhook | int }}}
{{- end }}
{{- end }}

{{- define "weir.webhookPort" -}}
{{- if .Values.ports.webhook }}
- {name: webhook, port: 9443, targetPort: webhook}
{{- end }}
{{- end }}

{{- define "weir.webhookRule" -}}
{{- if .Values.ports.webhook }}
- {port: webhook}
{{- end }}
{{- end }}

{{- define "weir.hostNetwork" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end }}

{{- define "weir.podSecurity" -}}
{{- if .Values.hostNetwork }}
pod-security.kubernetes.io/warn: restricted
{{- end }}
{{- end }}
