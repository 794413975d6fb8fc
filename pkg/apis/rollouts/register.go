// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group that this project serves.
const GroupName = "rollouts.kruise.io"

// SchemeGroupVersion is the group with the internal (hub) version.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

var (
	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the hub types.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind qualifies a kind with this group.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource qualifies a resource with this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Rollout{}, &RolloutList{},
		&BatchRelease{}, &BatchReleaseList{},
		&TrafficRouting{}, &TrafficRoutingList{},
		&RolloutHistory{}, &RolloutHistoryList{},
		&PromoteOptions{}, &AbortOptions{}, &RollbackOptions{}, &RetryOptions{},
		&PauseOptions{}, &ResumeOptions{}, &JumpOptions{},
		&RolloutWhy{}, &RolloutTree{}, &RolloutPlan{}, &RolloutReleases{}, &HistoryOptions{},
	)
	return nil
}
