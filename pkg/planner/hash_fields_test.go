// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// notInPlanHash are the fields of a plan that a user may edit without moving the release to another
// step. See PlanHash for the reason.
var notInPlanHash = []string{
	".Steps[].Pause.Duration", ".Steps[].Pause.Given", ".FailureThreshold", ".ProgressDeadlineSeconds", ".Analysis",
	// These fields record whether the user wrote a value, and not the value.
	".ExtraWorkloadGiven", ".DisableCanaryServiceGiven",
}

// TestPlanHashFields changes each field of a plan. A new field must be in the hash or in
// notInPlanHash.
func TestPlanHashFields(t *testing.T) {
	t.Parallel()
	eachField(t, func() (any, func() string) {
		r := filled[rollouts.Release]()
		return r, func() string { return planner.PlanHash(r) }
	}, notInPlanHash)
}

// TestBatchPlanHashFields changes each field of the plan of a BatchRelease.
func TestBatchPlanHashFields(t *testing.T) {
	t.Parallel()
	eachField(t, func() (any, func() string) {
		p := filled[rollouts.ReleasePlan]()
		return p, func() string { return planner.BatchPlanHash(*p) }
	}, nil)
}

// eachField changes one field at a time of the value that made returns, and compares the hashes.
func eachField(t *testing.T, made func() (any, func() string), without []string) {
	t.Helper()
	_, hash := made()
	before, left := hash(), slices.Clone(without)
	var paths []string
	of, _ := made()
	walk(reflect.ValueOf(of).Elem(), "", func(path string, _ reflect.Value) { paths = append(paths, path) })
	for _, path := range paths {
		of, hash := made()
		walk(reflect.ValueOf(of).Elem(), "", func(at string, v reflect.Value) {
			if at == path {
				change(v)
			}
		})
		i := slices.IndexFunc(without, func(w string) bool {
			return path == w || strings.HasPrefix(path, w+".") || strings.HasPrefix(path, w+"[")
		})
		if same := hash() == before; same != (i >= 0) {
			t.Errorf("%s: the hash stays: %t", path, same)
		}
		if i >= 0 {
			left = slices.DeleteFunc(left, func(w string) bool { return w == without[i] })
		}
	}
	if len(paths) < 10 || len(left) > 0 {
		t.Errorf("of %d fields none is %v", len(paths), left)
	}
}

// filled returns a value with all fields set. Lists and maps have one entry.
func filled[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Struct:
		if size, ok := reflect.TypeAssert[*intstr.IntOrString](v.Addr()); ok {
			*size = intstr.FromString("5%")
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.String:
		v.SetString("a")
	}
}

// walk calls field for each leaf that has a value.
func walk(v reflect.Value, path string, field func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		walk(v.Elem(), path, field)
	case reflect.Slice:
		walk(v.Index(0), path+"[]", field)
	case reflect.Struct:
		if _, ok := reflect.TypeAssert[*intstr.IntOrString](v.Addr()); ok {
			field(path, v)
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, field)
		}
	default:
		field(path, v)
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("b")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "c"}))
	case reflect.Struct:
		v.Set(reflect.ValueOf(intstr.FromString("6%")))
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(v.Int() + 1)
	default:
		panic(fmt.Sprintf("a field is a %s", v.Kind()))
	}
}

// TestHashesAreUnambiguous hashes plans that would have the same text without quotes: names that
// look like separators, and parts that move to the next field.
func TestHashesAreUnambiguous(t *testing.T) {
	t.Parallel()
	header := func(name, value string) rollouts.ValueMatch { return rollouts.ValueMatch{Name: name, Value: value} }
	seen := map[string]int{}
	for i, step := range []rollouts.Step{
		{}, {Matches: []rollouts.RouteMatch{{}}}, {Matches: []rollouts.RouteMatch{{}, {}}},
		{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{header("a", "b"), header("c", "d")}}}},
		{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{header("a", "b")}}, {Headers: []rollouts.ValueMatch{header("c", "d")}}}},
		{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{header("a", `b" header - "c" "d`)}}}},
		{Matches: []rollouts.RouteMatch{{QueryParams: []rollouts.ValueMatch{header("a", "b"), header("c", "d")}}}},
		{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{header("a", "b")}, QueryParams: []rollouts.ValueMatch{header("c", "d")}}}},
		{Matches: []rollouts.RouteMatch{{Path: &rollouts.PathMatch{}}}}, {Matches: []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Type: new("")}}}},
		{Matches: []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Value: new("-")}}}}, {Matches: []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Type: new("-")}}}},
		{Traffic: new("")}, {Traffic: new("-")}, {Traffic: new("- - [] -\nstep -")},
		{RequestHeaderModifier: &rollouts.HeaderModifier{}},
		{RequestHeaderModifier: &rollouts.HeaderModifier{Set: []rollouts.Header{{Name: "a", Value: "b"}}}},
		{RequestHeaderModifier: &rollouts.HeaderModifier{Add: []rollouts.Header{{Name: "a", Value: "b"}}}},
		{RequestHeaderModifier: &rollouts.HeaderModifier{Add: []rollouts.Header{{Name: `a" "b`}}}},
		{RequestHeaderModifier: &rollouts.HeaderModifier{Remove: []string{"a", "b"}}}, {RequestHeaderModifier: &rollouts.HeaderModifier{Remove: []string{`a" "b`}}},
	} {
		hash := planner.PlanHash(&rollouts.Release{Steps: []rollouts.Step{step}})
		if before, ok := seen[hash]; ok {
			t.Errorf("steps %d and %d have the same hash", before, i)
		}
		seen[hash] = i
	}
}
