// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A route is kept on the object that does it, as a step of a Rollout has it.
// What a router does is not read out of its dialect: it does what is on record
// if that, spelled again, is what the object says.

// record is what is kept of a route.
type record struct {
	v1beta1.Step `json:",inline"`
	// For is who routes an object in place. One made for a release tells it by its
	// owner reference.
	For string `json:"for,omitempty"`
}

// marked adds a route to annotations.
func marked(annotations map[string]string, want planner.Route, who string) (map[string]string, error) {
	step := rollouts.Step{Matches: want.Matches, RequestHeaderModifier: want.Headers}
	if want.Weight != nil {
		share := itoa(*want.Weight) + "%"
		step.Traffic = &share
	}
	wire := record{For: who}
	if err := v1beta1.Convert_rollouts_Step_To_v1beta1_Step(step.DeepCopy(), &wire.Step, nil); err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	text, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	with := map[string]string{rollouts.AnnotationRouted: string(text)}
	maps.Copy(with, annotations)
	return with, nil
}

// recorded is the route that an object does, or false when none is on it.
func recorded(obj metav1.Object) (planner.Route, bool) {
	wire := recordOf(obj)
	if wire == nil {
		return planner.Route{}, false
	}
	var step rollouts.Step
	if err := v1beta1.Convert_v1beta1_Step_To_rollouts_Step(&wire.Step, &step, nil); err != nil {
		return planner.Route{}, false
	}
	return planner.RouteOf(step), true
}

// recordOf reads the record of an object, which is nil when there is none.
func recordOf(obj metav1.Object) *record {
	wire := &record{}
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationRouted]), wire); err != nil {
		return nil
	}
	return wire
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
