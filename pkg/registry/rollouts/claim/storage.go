// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
)

// NewStorage opens a storage for records that consist of metadata only, such as claims, in the
// backend that keeps the objects.
func NewStorage(backend *storagebackend.ConfigForResource, resource string) (storage.Interface, func(), error) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("registering the claim: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, nil, fmt.Errorf("finding a serializer for %s", runtime.ContentTypeJSON)
	}
	version := metav1.SchemeGroupVersion

	config := backend.Config
	config.Codec = codecs.CodecForVersions(info.Serializer, info.Serializer, version, version)
	config.EncodeVersioner = version
	// Records contain only names and uids, and nothing rewrites them. So they are not
	// encrypted: they must stay readable after an encryption key is retired.
	config.Transformer = nil
	s, destroy, err := factory.Create(*config.ForResource(rollouts.Resource(resource)),
		func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		"/"+resource)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the storage of %s: %w", resource, err)
	}
	return storagefull.Storage{Interface: s}, destroy, nil
}
