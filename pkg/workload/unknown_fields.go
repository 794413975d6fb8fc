// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"github.com/weir-rollouts/weir/pkg/object"
)

// The CustomResourceDefinition of a workload may store pod template fields that
// corev1.PodTemplateSpec lacks, and its controller may use them to create pods. So Weir keeps
// these unknown fields beside the typed template. Two templates are equal only if both parts
// are equal.

// UnknownFields is the canonical JSON of those fields of a pod template that
// corev1.PodTemplateSpec lacks, nested as in the template; empty if there are none.
type UnknownFields string

// keepsUnknownFields is implemented by the Go types of custom resources.
type keepsUnknownFields interface{ unknownFields() *UnknownFields }

// unknownIn returns the unknown fields of the template of an object. Objects of apps/v1
// have none: kube-apiserver drops them.
func unknownIn(obj object.Object) UnknownFields {
	if o, ok := obj.(keepsUnknownFields); ok {
		return *o.unknownFields()
	}
	return ""
}

// sameUnknown reports whether the templates of two objects have the same unknown fields.
func sameUnknown(a, b object.Object) bool { return unknownIn(a) == unknownIn(b) }

// FromJSON decodes an object as kube-apiserver does: keys are case-sensitive. A repeated key is an
// error, because Weir and kube-apiserver might use different values of it.
func (r Row) FromJSON(data []byte) (object.Object, error) {
	obj := r.New()
	repeated, err := kjson.UnmarshalStrict(data, obj, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(repeated, err)...); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", r.GVK.Kind, err)
	}
	if o, ok := obj.(keepsUnknownFields); ok {
		var content struct {
			Spec struct {
				Template any `json:"template"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(data, &content); err != nil {
			return nil, fmt.Errorf("decoding the template of a %s: %w", r.GVK.Kind, err)
		}
		*o.unknownFields() = unknownOf(content.Spec.Template)
	}
	return obj, nil
}

// untagged is the JSON tag of fields that are never encoded. FromUnstructured wrongly treats
// the tag as the key "-".
const untagged = "-"

// FromContent reads an object from the content of an unstructured one.
func (r Row) FromContent(content map[string]any) (object.Object, error) {
	obj := r.New()
	if _, ok := content[untagged]; ok {
		content = maps.Clone(content)
		delete(content, untagged)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		return nil, err
	}
	if o, ok := obj.(keepsUnknownFields); ok {
		spec, _ := content["spec"].(map[string]any)
		*o.unknownFields() = unknownOf(spec["template"])
	}
	return obj, nil
}

// Content is the inverse of FromContent. The result includes the unknown fields of the template.
func Content(obj object.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if unknown := unknownIn(obj); unknown != "" {
		spec, ok := content["spec"].(map[string]any)
		if !ok {
			return nil, errors.New("the object has no spec")
		}
		if spec["template"], err = unknown.addTo(spec["template"]); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// Marshal is the inverse of FromJSON.
func Marshal(obj object.Object) ([]byte, error) {
	if unknownIn(obj) == "" {
		return json.Marshal(obj)
	}
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	return json.Marshal(content)
}

// withUnknown returns the digest of a template from the digest of its typed part and its unknown
// fields. Without unknown fields it returns the digest of the typed part.
func withUnknown(digest string, unknown UnknownFields) string {
	if digest == "" || unknown == "" {
		return digest
	}
	sum := sha256.Sum256([]byte(digest + "\n" + string(unknown)))
	return hex.EncodeToString(sum[:])
}

// unknownOf returns the unknown fields of a template that was decoded into maps and slices.
func unknownOf(template any) UnknownFields {
	rest := unknownFor(template, reflect.TypeFor[corev1.PodTemplateSpec]())
	if rest == nil {
		return ""
	}
	return UnknownFields(encode(rest))
}

// unknownFor returns the parts of a JSON value for which a Go type has no field; nil if there are
// none. Elements of a list keep their index: elements without unknown fields are nil.
func unknownFor(value any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		return unknownMembers(v, t)
	case []any:
		return unknownElements(v, t)
	}
	return nil
}

var unmarshaler = reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()

func unknownMembers(members map[string]any, t reflect.Type) any {
	rest := map[string]any{}
	for key, value := range members {
		field, isKnown := memberType(t, key)
		if !isKnown {
			rest[key] = value
		} else if r := unknownFor(value, field); r != nil {
			rest[key] = r
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

func unknownElements(elements []any, t reflect.Type) any {
	if t.Kind() != reflect.Slice {
		return nil
	}
	var rest []any
	for i, value := range elements {
		if r := unknownFor(value, t.Elem()); r != nil {
			if rest == nil {
				rest = make([]any, len(elements))
			}
			rest[i] = r
		}
	}
	if rest == nil {
		return nil
	}
	return rest
}

// memberType returns the Go type of the value of a key in a JSON object that decodes into t.
// It returns false for an unknown key.
func memberType(t reflect.Type, key string) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		field, ok := fieldsOf(t)[key]
		return field, ok
	default:
		return nil, false
	}
}

// jsonFields caches fieldsOf.
var jsonFields sync.Map

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := jsonFields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			fields[name] = f.Type
			continue
		}
		maps.Copy(fields, fieldsOf(f.Type)) // a field without a JSON name is embedded
	}
	jsonFields.Store(t, fields)
	return fields
}

// jsonOf returns a value whose JSON is that of a typed template with its unknown fields.
func jsonOf(t *corev1.PodTemplateSpec, unknown UnknownFields) (any, error) {
	if unknown == "" {
		return t, nil
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t)
	if err != nil {
		return nil, err
	}
	return unknown.addTo(tree)
}

// addTo adds the unknown fields to the JSON value of a typed template.
func (u UnknownFields) addTo(template any) (any, error) {
	var unknown any
	if err := json.Unmarshal([]byte(u), &unknown); err != nil {
		return nil, fmt.Errorf("reading the unknown fields of a template: %w", err)
	}
	return addUnknown(template, unknown), nil
}

func addUnknown(known, unknown any) any {
	switch u := unknown.(type) {
	case map[string]any:
		k, ok := known.(map[string]any)
		if !ok {
			return unknown
		}
		for key, value := range u {
			k[key] = addUnknown(k[key], value)
		}
		return k
	case []any:
		k, ok := known.([]any)
		if !ok {
			return unknown
		}
		for i := range min(len(u), len(k)) {
			if u[i] != nil {
				k[i] = addUnknown(k[i], u[i])
			}
		}
		return k
	}
	return unknown
}
