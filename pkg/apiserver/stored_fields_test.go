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

// The newest recording has every field that is stored, so that a later version
// can lose none of them unseen. A new field asks for a new recording: add it to
// what TestRecord does, or to everything.yaml, and "make record".
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

// newest is the last recording. Versions have one digit in each place so far.
func newest(t *testing.T) string {
	t.Helper()
	versions, err := os.ReadDir(recordings)
	if err != nil || len(versions) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return versions[len(versions)-1].Name()
}

// look goes through a value along its type, and notes which fields of our own
// types it has.
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

// A newer version has stored fields that this one does not know. Everything else
// is read and written as ever, and they are gone after the first write: going
// back costs what only the newer version can say.
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
