// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// waiting is a Rollout that waits at its second step, as it is stored.
const waiting = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata:
  name: web
  namespace: shop
  uid: 0f8fad5b-d9cb-469f-a165-70867728950e
  generation: 3
  finalizers: [rollouts.kruise.io/rollout]
  annotations: {rollouts.kruise.io/hash: 5f8c7d9b4}
  managedFields:
  - apiVersion: rollouts.kruise.io/v1beta1
    fieldsType: FieldsV1
    fieldsV1: {"f:spec":{"f:strategy":{"f:canary":{"f:steps":{},"f:trafficRoutings":{}}},"f:workloadRef":{}}}
    manager: kubectl
    operation: Apply
  - apiVersion: rollouts.kruise.io/v1beta1
    fieldsType: FieldsV1
    fieldsV1: {"f:status":{"f:canaryStatus":{"f:currentStepIndex":{},"f:currentStepState":{},"f:podTemplateHash":{}},"f:conditions":{},"f:phase":{}}}
    manager: weir-controller
    operation: Update
    subresource: status
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: false
      steps:
      - {replicas: 20%, pause: {}}
      - {replicas: 50%, pause: {}}
      - {replicas: 100%, pause: {duration: 60}}
      trafficRoutings:
      - {service: web, gracePeriodSeconds: 3, ingress: {name: web, classType: nginx}}
status:
  observedGeneration: 3
  phase: Progressing
  message: Rollout is in step(2/3), and you need manually confirm to enter the next step
  currentStepIndex: 2
  currentStepState: StepPaused
  canaryStatus:
    currentStepIndex: 2
    nextStepIndex: 3
    currentStepState: StepPaused
    canaryReplicas: 5
    canaryReadyReplicas: 5
    canaryRevision: 58597d7d56
    stableRevision: 59cd647957
    podTemplateHash: 58597d7d56
    rolloutHash: 5f8c7d9b4
    observedRolloutID: "2026"
    lastUpdateTime: "2026-01-02T03:04:05Z"
  conditions:
  - {type: Progressing, status: "True", reason: InRolling, message: Rollout is in Progressing, lastTransitionTime: "2026-01-02T03:04:05Z", lastUpdateTime: "2026-01-02T03:04:05Z"}
  - {type: Succeeded, status: "False", reason: InRolling, message: Rollout is in Progressing, lastTransitionTime: "2026-01-02T03:04:05Z", lastUpdateTime: "2026-01-02T03:04:05Z"}
`

// BenchmarkEncoding is what a read and a write of a Rollout cost by its encoding.
// Kinds that are not built into Kubernetes have no protobuf.
func BenchmarkEncoding(b *testing.B) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	r := &v1beta1.Rollout{}
	if err := yaml.UnmarshalStrict([]byte(waiting), r); err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]runtime.Serializer{
		"json": json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}),
		"cbor": cbor.NewSerializer(scheme, scheme),
	} {
		encoded, err := runtime.Encode(s, r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("write/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := runtime.Encode(s, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(encoded)), "bytes")
		})
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := runtime.Decode(s, encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
