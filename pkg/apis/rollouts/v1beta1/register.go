// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// GroupName is the API group of this package.
const GroupName = rollouts.GroupName

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

var (
	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder      = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)
	localSchemeBuilder = &SchemeBuilder
	// AddToScheme registers the types of this version, their defaults and their conversions.
	AddToScheme = localSchemeBuilder.AddToScheme
)

// Resource qualifies a resource with this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Rollout{}, &RolloutList{},
		&BatchRelease{}, &BatchReleaseList{},
		&PromoteOptions{}, &AbortOptions{}, &RollbackOptions{}, &RetryOptions{},
		&PauseOptions{}, &ResumeOptions{}, &JumpOptions{},
		&RolloutWhy{}, &RolloutTree{}, &RolloutPlan{}, &RolloutReleases{}, &HistoryOptions{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return rollouts.AddFieldSelectors(scheme, SchemeGroupVersion)
}
