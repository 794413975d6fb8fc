// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The newest recording contains every stored field, so that a later version cannot lose one unnoticed. For
// a new field, add it to TestRecord or to everything.yaml, and run "make record".
func TestRecordedFields(t *testing.T) {
	t.Parallel()
	stored := recorded(t, newest(t))
	for resource, kind := range map[string]reflect.Type{
		"rollouts":         reflect.TypeFor[v1beta1.Rollout](),
		"batchreleases":    reflect.TypeFor[v1beta1.BatchRelease](),
		"trafficroutings":  reflect.TypeFor[v1alpha1.TrafficRouting](),
		"rollouthistories": reflect.TypeFor[v1alpha1.RolloutHistory](),
	} {
		found := map[string]bool{}
		for key, o := range stored {
			if strings.HasPrefix(key, resource+"/") {
				look(kind, map[string]any(o), found)
			}
		}
		for _, field := range slices.Sorted(maps.Keys(found)) {
			if !found[field] {
				t.Errorf("%s: no object of the newest recording has %s", resource, field)
			}
		}
	}
}

// newest returns the latest recording. So far, each part of a version has one digit.
func newest(t *testing.T) string {
	t.Helper()
	versions, err := os.ReadDir(recordings)
	if err != nil || len(versions) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return versions[len(versions)-1].Name()
}

// look walks a value along its type, and records which fields of our own types are set.
func look(kind reflect.Type, value any, found map[string]bool) {
	switch kind.Kind() {
	case reflect.Pointer:
		look(kind.Elem(), value, found)
	case reflect.Slice:
		items, _ := value.([]any)
		for _, item := range append(items, nil) {
			look(kind.Elem(), item, found)
		}
	case reflect.Struct:
		if !strings.Contains(kind.PkgPath(), "/pkg/apis/rollouts/") {
			return
		}
		fields, _ := value.(map[string]any)
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch name {
			case "-":
			case "": // inline
				look(field.Type, value, found)
			default:
				_, has := fields[name]
				found[kind.Name()+"."+name] = found[kind.Name()+"."+name] || has
				look(field.Type, fields[name], found)
			}
		}
	default:
	}
}

// If a newer version has stored fields that this version does not know, this version reads and writes all
// other fields. The first write removes the unknown fields: a downgrade loses what only the newer version
// supports.
func TestStoredByNewer(t *testing.T) {
	t.Parallel()
	const key = "rollouts/partition/web"
	was := recorded(t, newest(t))[key]
	newer := recorded(t, newest(t))[key]
	for _, part := range []map[string]any{newer, newer.in("spec"), newer.in("status"), newer.in("status")["canaryStatus"].(map[string]any)} {
		part["fromTheFuture"] = map[string]any{"a": []any{"b"}}
	}
	s := startOn(t, map[string]object{key: newer})
	for _, version := range served["rollouts"] {
		path := "/apis/rollouts.kruise.io/" + version + "/namespaces/partition/rollouts/web"
		keeps(t, s, key, path, was)
	}
	promoted := objectOf(t, []byte(want(t, http.StatusCreated, s, "POST",
		"/apis/rollouts.kruise.io/v1beta1/namespaces/partition/rollouts/web/promote", `{"expect":{"step":3}}`)))
	if n := len(promoted.in("status")["decisions"].([]any)); n != 3 {
		t.Errorf("there are %d decisions after one more, want 3", n)
	}
}
