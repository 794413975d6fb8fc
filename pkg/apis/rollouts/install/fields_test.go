// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// The check of fields finds nothing in an object that the server itself has encoded. Otherwise the server would refuse
// a write that its decoder accepts.
func TestFieldsOfEncodedObjects(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for _, version := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion} {
		for kind, of := range scheme.KnownTypes(version) {
			if _, ours := of.FieldByName("Spec"); !ours {
				continue // a list, or options of the generic server
			}
			filler := newFiller(scheme, 7)
			for range rounds / 10 {
				object := reflect.New(of).Interface()
				filler.Fill(object)
				encoded, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				var decoded map[string]any
				if err := utiljson.Unmarshal(encoded, &decoded); err != nil {
					t.Fatal(err)
				}
				if found := validation.CheckFields(object, decoded); len(found.WrongTypes) > 0 || len(found.Unknown) > 0 {
					t.Fatalf("%s of %s: %v, %v\n%s", kind, version, found.WrongTypes, found.Unknown, encoded)
				}
			}
		}
	}
}
