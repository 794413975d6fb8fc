// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "weir-rollouts.io"

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types of this version.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies a resource with this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// AddInternal registers the types as those that a server keeps in memory, too.
func AddInternal(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}, types...)
	return nil
}

var types = []runtime.Object{
	&MetricSource{}, &MetricSourceList{},
	&Check{}, &CheckList{},
	&ClusterCheck{}, &ClusterCheckList{},
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, types...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
