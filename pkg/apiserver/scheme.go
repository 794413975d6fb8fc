// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// groups are the served API groups. Each version of a group has an APIService.
var groups = []string{rollouts.GroupName, weir.GroupName}

// NewScheme returns the scheme with all versions of the API and the types of the generic server.
func NewScheme() *runtime.Scheme {
	scheme := newPublishedScheme()
	utilruntime.Must(weir.AddInternal(scheme))
	return scheme
}

// newPublishedScheme returns the scheme with the types that clients know.
func newPublishedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	utilruntime.Must(weir.AddToScheme(scheme))
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	utilruntime.Must(scheme.SetVersionPriority(unversioned))
	return scheme
}

// withoutProtobuf removes protobuf from the media types, because our types do not support it. A client that
// prefers protobuf then gets JSON, as from a CRD, and not the error 406.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	return slices.DeleteFunc(all, func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })
}
