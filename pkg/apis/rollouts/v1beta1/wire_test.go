// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// What a client wrote and what it reads back, through the hub. GitOps tools
// compare the two.
func TestReadBack(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		version     runtime.GroupVersioner
		write, read string
	}{
		"zeros that were written stay": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  disabled: false
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    paused: false
    canary:
      enableExtraWorkloadForCanary: false
      disableGenerateCanaryService: false
      failureThreshold: 0
      steps:
      - {replicas: 0, pause: {}}
      - {replicas: 1, pause: {duration: 0}}
      - {replicas: 100%}
      trafficRoutings:
      - {service: web, gracePeriodSeconds: 0, ingress: {name: web}}
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  disabled: false
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    paused: false
    canary:
      enableExtraWorkloadForCanary: false
      disableGenerateCanaryService: false
      failureThreshold: 0
      steps:
      - {replicas: 0, pause: {}}
      - {replicas: 1, pause: {duration: 0}}
      - {replicas: 100%}
      trafficRoutings:
      - {service: web, gracePeriodSeconds: 0, ingress: {name: web}}
`,
		},
		"what is empty stays empty": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  disabled: false
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      trafficRoutingRef: ""
      patchPodTemplateMetadata: {annotations: {}, labels: {}}
      steps:
      - replicas: 1
        matches: []
        requestHeaderModifier: {set: [], add: [], remove: []}
      - replicas: 2
        matches: [{headers: [], queryParams: []}, {}]
        requestHeaderModifier: {}
      trafficRoutings:
      - {service: web, gracePeriodSeconds: 3, ingress: {name: web, classType: ""}, gateway: {}, customNetworkRefs: []}
status:
  conditions: []
  currentStepIndex: 0
  currentStepState: ""
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  disabled: false
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      trafficRoutingRef: ""
      patchPodTemplateMetadata: {annotations: {}, labels: {}}
      steps:
      - replicas: 1
        matches: []
        requestHeaderModifier: {set: [], add: [], remove: []}
      - replicas: 2
        matches: [{headers: [], queryParams: []}, {}]
        requestHeaderModifier: {}
      trafficRoutings:
      - {service: web, gracePeriodSeconds: 3, ingress: {name: web, classType: ""}, gateway: {}, customNetworkRefs: []}
status:
  conditions: []
  currentStepIndex: 0
  currentStepState: ""
`,
		},
		"what is left out gets its default": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    blueGreen:
      steps:
      - replicas: 1
        matches:
        - {path: {}, headers: [{name: a, value: b}], queryParams: [{name: c, value: d}]}
      trafficRoutings: [{service: web, gateway: {httpRouteName: web}}]
status:
  canaryStatus: {currentStepIndex: 2, currentStepState: StepPaused}
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  disabled: false
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    blueGreen:
      steps:
      - replicas: 1
        matches:
        - path: {type: PathPrefix, value: /}
          headers: [{type: Exact, name: a, value: b}]
          queryParams: [{type: Exact, name: c, value: d}]
      trafficRoutings: [{service: web, gracePeriodSeconds: 3, gateway: {httpRouteName: web}}]
status:
  currentStepIndex: 2
  currentStepState: StepPaused
  canaryStatus:
    canaryReadyReplicas: 0
    canaryReplicas: 0
    canaryRevision: ""
    currentStepIndex: 2
    currentStepState: StepPaused
    finalisingStep: ""
    nextStepIndex: 0
    podTemplateHash: ""
`,
		},
		"a status has its required keys": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
status:
  conditions: [{type: Progressing, status: "True"}]
  blueGreenStatus: {fullyPromoted: true}
  decisions: [{id: 1, verb: promote, user: jane, time: "2026-01-02T03:04:05Z", via: verb}]
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
status:
  conditions: [{type: Progressing, status: "True", reason: "", message: ""}]
  currentStepIndex: 0
  currentStepState: ""
  blueGreenStatus:
    currentStepIndex: 0
    currentStepState: ""
    finalisingStep: ""
    fullyPromoted: true
    nextStepIndex: 0
    podTemplateHash: ""
    updatedReadyReplicas: 0
    updatedReplicas: 0
    updatedRevision: ""
  decisions: [{id: 1, verb: promote, user: jane, time: "2026-01-02T03:04:05Z", via: verb}]
`,
		},
		"a BatchRelease": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: BatchRelease
metadata: {name: web}
spec:
  releasePlan: {batches: [{canaryReplicas: 1}], batchPartition: 0, abort: true}
status: {phase: Progressing}
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: BatchRelease
metadata: {name: web}
spec:
  releasePlan: {batches: [{canaryReplicas: 1}], batchPartition: 0, enableExtraWorkloadForCanary: false, abort: true}
status: {phase: Progressing, canaryStatus: {currentBatch: 0}}
`,
		},
		"weights of the older version": {
			version: v1alpha1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  objectRef: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
  strategy:
    canary:
      steps: [{weight: 20}, {weight: 50, replicas: 3, pause: {}}]
      trafficRoutings: [{service: web, ingress: {name: web}}]
status: {}
`,
			read: `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: web, annotations: {rollouts.kruise.io/rolling-style: canary}}
spec:
  disabled: false
  objectRef: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
  strategy:
    canary:
      steps: [{weight: 20, replicas: 20%}, {weight: 50, replicas: 3, pause: {}}]
      trafficRoutings: [{service: web, gracePeriodSeconds: 3, ingress: {name: web}}]
`,
		},
		"the body of a verb": {
			version: v1beta1.SchemeGroupVersion,
			write: `
apiVersion: rollouts.kruise.io/v1beta1
kind: PromoteOptions
full: true
reason: r
requestID: i
expect: {step: 1, revision: a, plan: b, resourceVersion: "2", uid: u}
`,
			read: `
apiVersion: rollouts.kruise.io/v1beta1
kind: PromoteOptions
full: true
reason: r
requestID: i
expect: {step: 1, revision: a, plan: b, resourceVersion: "2", uid: u}
metadata: {}
`,
		},
		"an empty body of a verb": {
			version: v1alpha1.SchemeGroupVersion,
			write:   "apiVersion: rollouts.kruise.io/v1alpha1\nkind: AbortOptions\n",
			read:    "apiVersion: rollouts.kruise.io/v1alpha1\nkind: AbortOptions\nmetadata: {}\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			install.Install(scheme)
			codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
			hub, err := runtime.Decode(codecs.UniversalDecoder(rollouts.SchemeGroupVersion), []byte(test.write))
			if err != nil {
				t.Fatal(err)
			}
			data, err := runtime.Encode(codecs.EncoderForVersion(codecs.SupportedMediaTypes()[0].Serializer, test.version), hub)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, []byte(test.read)), parse(t, data)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
