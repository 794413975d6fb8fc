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

// groups are served, each with its own APIServices.
var groups = []string{rollouts.GroupName, weir.GroupName}

// NewScheme knows every version of the API and what the generic server needs.
func NewScheme() *runtime.Scheme {
	scheme := published()
	utilruntime.Must(weir.AddInternal(scheme))
	return scheme
}

// published has the types as clients know them.
func published() *runtime.Scheme {
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

// withoutProtobuf hides a media type that our types do not have. A client that
// prefers protobuf is then answered in JSON, as by a CRD, and not with 406.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	return slices.DeleteFunc(all, func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })
}
