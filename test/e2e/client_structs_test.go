// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Clients that were built with older API packages know fewer fields. When they read an object and
// write it back, the other fields are missing.

// rollout030 is a Rollout of v1alpha1 as in release 0.3.0 of OpenKruise Rollouts, which KubeVela
// uses.
type rollout030 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		ObjectRef struct {
			WorkloadRef *reference `json:"workloadRef,omitempty"`
		} `json:"objectRef"`
		Strategy struct {
			Paused bool     `json:"paused,omitempty"`
			Canary *plan030 `json:"canary,omitempty"`
		} `json:"strategy"`
		RolloutID string `json:"rolloutID,omitempty"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64         `json:"observedGeneration,omitempty"`
		Canary             *progress030  `json:"canaryStatus,omitempty"`
		Conditions         []condition06 `json:"conditions,omitempty"`
		Phase              string        `json:"phase,omitempty"`
		Message            string        `json:"message,omitempty"`
	} `json:"status"`
}

type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

type plan030 struct {
	Steps []struct {
		Weight   *int32              `json:"weight,omitempty"`
		Replicas *intstr.IntOrString `json:"replicas,omitempty"`
		Pause    struct {
			Duration *int32 `json:"duration,omitempty"`
		} `json:"pause"`
		Matches []struct {
			Headers []match `json:"headers,omitempty"`
		} `json:"matches,omitempty"`
	} `json:"steps,omitempty"`
	TrafficRoutings []struct {
		Service            string `json:"service"`
		GracePeriodSeconds int32  `json:"gracePeriodSeconds,omitempty"`
		Ingress            *struct {
			ClassType string `json:"classType,omitempty"`
			Name      string `json:"name"`
		} `json:"ingress,omitempty"`
	} `json:"trafficRoutings,omitempty"`
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
}

type match struct {
	Type  *string `json:"type,omitempty"`
	Name  string  `json:"name"`
	Value string  `json:"value"`
}

type progress030 struct {
	ObservedWorkloadGeneration int64        `json:"observedWorkloadGeneration,omitempty"`
	ObservedRolloutID          string       `json:"observedRolloutID,omitempty"`
	RolloutHash                string       `json:"rolloutHash,omitempty"`
	StableRevision             string       `json:"stableRevision,omitempty"`
	CanaryRevision             string       `json:"canaryRevision"`
	PodTemplateHash            string       `json:"podTemplateHash"`
	CanaryReplicas             int32        `json:"canaryReplicas"`
	CanaryReadyReplicas        int32        `json:"canaryReadyReplicas"`
	CurrentStepIndex           int32        `json:"currentStepIndex"`
	CurrentStepState           string       `json:"currentStepState"`
	Message                    string       `json:"message,omitempty"`
	LastUpdateTime             *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// rollout060 is a Rollout of v1beta1 as in release 0.6.0, which Kuberik uses. Its spec is complete.
type rollout060 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   map[string]any `json:"spec"`
	Status struct {
		ObservedGeneration int64         `json:"observedGeneration,omitempty"`
		Canary             *progress060  `json:"canaryStatus,omitempty"`
		Conditions         []condition06 `json:"conditions,omitempty"`
		Phase              string        `json:"phase,omitempty"`
		Message            string        `json:"message,omitempty"`
		CurrentStepIndex   int32         `json:"currentStepIndex"`
		CurrentStepState   string        `json:"currentStepState"`
	} `json:"status"`
}

type progress060 struct {
	progress030    `json:",inline"`
	NextStepIndex  int32  `json:"nextStepIndex"`
	FinalisingStep string `json:"finalisingStep"`
}

type condition06 struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastUpdateTime     metav1.Time `json:"lastUpdateTime,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
}
