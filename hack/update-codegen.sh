#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0

# Generates deepcopy functions, defaults, conversions, OpenAPI, and the Go client. The generators are
# tools in go.mod, which sets their versions.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

hub=./pkg/apis/rollouts
versions=(./pkg/apis/rollouts/v1beta1 ./pkg/apis/rollouts/v1alpha1)
# This group has neither internal types nor stored defaults.
weir=./pkg/apis/weir/v1alpha1
header=(--go-header-file hack/boilerplate.go.txt)
generated=github.com/weir-rollouts/weir/pkg/generated
report="$(mktemp)"
schema="$(mktemp)"
trap 'rm -f "${report}" "${schema}"' EXIT

go tool deepcopy-gen "${header[@]}" --output-file zz_generated.deepcopy.go "${hub}" "${versions[@]}" "${weir}"
go tool defaulter-gen "${header[@]}" --output-file zz_generated.defaults.go "${versions[@]}"
go tool conversion-gen "${header[@]}" --output-file zz_generated.conversion.go "${versions[@]}"

# Model names avoid slashes in the merged OpenAPI document of a cluster. With slashes, kubectl, Helm
# and Argo CD fail for every kind, not only for those of Weir. Types of other modules are only read.
foreign=(
	k8s.io/apimachinery/pkg/api/resource
	k8s.io/apimachinery/pkg/apis/meta/v1
	k8s.io/apimachinery/pkg/runtime
	k8s.io/apimachinery/pkg/util/intstr
	k8s.io/apimachinery/pkg/version
)
readonly=()
for package in "${foreign[@]}" k8s.io/apimachinery/pkg/types time; do
	readonly+=(--readonly-pkg "${package}")
done
go tool openapi-gen "${header[@]}" --output-file zz_generated.openapi.go \
	--output-model-name-file zz_generated.model_name.go \
	--output-dir pkg/generated/openapi \
	--output-pkg "${generated}/openapi" \
	--report-filename "${report}" \
	"${readonly[@]}" "${foreign[@]}" "${versions[@]}" "${weir}"

# Some names in Go follow the internal types and differ from the older names in JSON. All other
# violations in Weir's own types are errors.
if grep weir-rollouts "${report}" | grep -v '^API rule violation: names_match,'; then
	exit 1
fi

# The Go client. Files that a generator no longer writes are removed. There is no fake clientset:
# tests can use weir-apiserver --standalone, which starts in a second.
rm -rf pkg/generated/{applyconfiguration,clientset,listers,informers}
go run ./hack/openapi-schema >"${schema}"
go tool applyconfiguration-gen "${header[@]}" --openapi-schema "${schema}" \
	--output-dir pkg/generated/applyconfiguration --output-pkg "${generated}/applyconfiguration" \
	"${versions[@]}" "${weir}"
go tool client-gen "${header[@]}" --clientset-name versioned --fake-clientset=false \
	--input-base github.com/weir-rollouts/weir/pkg/apis --input rollouts/v1beta1 --input rollouts/v1alpha1 --input weir/v1alpha1 \
	--apply-configuration-package "${generated}/applyconfiguration" \
	--output-dir pkg/generated/clientset --output-pkg "${generated}/clientset"
go tool lister-gen "${header[@]}" \
	--output-dir pkg/generated/listers --output-pkg "${generated}/listers" "${versions[@]}" "${weir}"
go tool informer-gen "${header[@]}" \
	--versioned-clientset-package "${generated}/clientset/versioned" --listers-package "${generated}/listers" \
	--output-dir pkg/generated/informers --output-pkg "${generated}/informers" "${versions[@]}" "${weir}"
