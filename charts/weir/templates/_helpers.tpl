{{- /*
SPDX-FileCopyrightText: The Weir Authors
SPDX-License-Identifier: Apache-2.0
*/}}

{{- /* The image of all containers. A digest takes precedence over the tag. */}}
{{- define "weir.image" -}}
{{- $image := .Values.image }}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Topology spread constraints: those of the values, or else those of the manifests. A constraint
without a labelSelector counts the pods of its own workload. Arguments: values, name, JSON of the
manifests. */}}
{{- define "weir.spread" -}}
{{- $name := index . 1 }}
{{- $all := list }}
{{- range index . 0 }}
{{- if hasKey . "labelSelector" }}
{{- $all = append $all . }}
{{- else }}
{{- $all = append $all (merge (dict "labelSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" $name))) .) }}
{{- end }}
{{- end }}
{{- if $all }}{{ toYaml $all }}{{ else }}{{ index . 2 }}{{ end }}
{{- end }}

{{- /* The Secret with the certificate of weir-apiserver; empty if weir-apiserver issues it. */}}
{{- define "weir.tlsSecret" -}}
{{- if .Values.certManager.enabled }}weir-apiserver-cert{{ else }}{{ .Values.tls.existingSecret }}{{ end }}
{{- end }}

{{- define "weir.tlsArgs" -}}
{{- if include "weir.tlsSecret" . -}}
- --tls-mode=files
- --tls-cert-file=/etc/weir/tls/tls.crt
- --tls-private-key-file=/etc/weir/tls/tls.key
{{- end }}
{{- end }}

{{- define "weir.tlsMounts" -}}
{{- if include "weir.tlsSecret" . -}}
- {name: tls, mountPath: /etc/weir/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "weir.tlsVolumes" -}}
{{- with include "weir.tlsSecret" . -}}
- {name: tls, secret: {secretName: {{ . | quote }}, defaultMode: 288}}
{{- end }}
{{- end }}

{{- define "weir.authorityAnnotations" -}}
{{- if .Values.certManager.enabled -}}
cert-manager.io/inject-ca-from: {{ .Values.installation.namespace }}/weir-apiserver
{{- else -}}
{{- with .Values.tls.annotations }}{{ toYaml . }}{{ end }}
{{- end }}
{{- end }}

{{- define "weir.caBundle" -}}
{{- with .Values.tls.caBundle }}{{ . | b64enc }}{{ end }}
{{- end }}

{{- define "weir.budget" -}}
{{- $budget := .Values.podDisruptionBudget }}
{{- if kindIs "invalid" $budget.minAvailable -}}
maxUnavailable: {{ $budget.maxUnavailable }}
{{- else -}}
minAvailable: {{ $budget.minAvailable }}
{{- end }}
{{- end }}
