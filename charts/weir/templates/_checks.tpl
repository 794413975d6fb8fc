{{- /*
SPDX-FileCopyrightText: The Weir Authors
SPDX-License-Identifier: Apache-2.0

Refuses values that the schema cannot check, or for which its message does not help.
install.yaml includes this first.
*/}}
{{- define "weir.checks" }}
{{- range $value := list "installation" "storage" "oneProcess" "policies" "replicaCount" "image" "service" "rollout" "etcd" "persistence" "tls" "certManager" "controller" "podDisruptionBudget" "networkPolicy" "serviceMonitor" "serviceAccount" }}
{{- if not (hasKey $.Values $value) }}
{{- fail (printf "the value %s is missing. If this is an upgrade with --reuse-values, run it with --reset-then-reuse-values, which also takes the defaults of this version" $value) }}
{{- end }}
{{- end }}
{{- if and .Values.policies (semverCompare "<1.36-0" .Capabilities.KubeVersion.Version) }}
{{- fail "Kubernetes before 1.36 has no MutatingAdmissionPolicies of v1: set policies=false" }}
{{- end }}
{{- range $value := list "nameOverride" "fullnameOverride" }}
{{- with get $.Values $value }}
{{- if ne (toString .) "weir" }}
{{- fail (printf "%s is %q; leave it empty: a cluster has one Weir, and its programs, policies and certificates know the objects by their names. installation.namespace sets the namespace" $value (toString .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.serviceAccount.name }}
{{- fail (printf "serviceAccount.name is %q; leave it empty: the policies name the accounts weir-controller and weir-apiserver. With serviceAccount.create=false, create these accounts yourself" (toString .)) }}
{{- end }}
{{- if and .Values.oneProcess .Values.controller.extraArgs }}
{{- fail "controller.extraArgs has no effect with oneProcess=true, because the controllers run in weir-apiserver: set extraArgs" }}
{{- end }}
{{- if and .Values.certManager.enabled .Values.tls.existingSecret }}
{{- fail "tls.existingSecret and certManager.enabled are both set; set one of them" }}
{{- end }}
{{- if and .Values.tls.existingSecret (not .Values.tls.caBundle) (not .Values.tls.annotations) }}
{{- fail "tls.existingSecret needs tls.caBundle, the authority of its certificate in PEM, or tls.annotations by which another program publishes the authority" }}
{{- end }}
{{- if and (or .Values.tls.caBundle .Values.tls.annotations) (not .Values.tls.existingSecret) }}
{{- fail "tls.caBundle and tls.annotations are for a certificate of your own: set tls.existingSecret too" }}
{{- end }}
{{- if and .Values.etcd.existingSecret (ne .Values.storage "external") }}
{{- fail "etcd.existingSecret is for storage=external; weir-apiserver issues the certificates of other etcds" }}
{{- end }}
{{- end }}
