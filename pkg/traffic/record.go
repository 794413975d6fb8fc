// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A route is kept on the object that does it, spelled as a step of a Rollout.
// It is not read out of the dialect of a router: a router does what is on record
// if rendering the record again gives the same object.

// record is what is kept of a route.
type record struct {
	v1beta1.Step `json:",inline"`
	// For names the owner of a route in place. An object made for a release has an
	// owner reference instead.
	For string `json:"for,omitempty"`
}

// marked adds a route, and the name of its owner, to annotations.
func marked(annotations map[string]string, want planner.Route, owner string) (map[string]string, error) {
	step := rollouts.Step{Matches: want.Matches, RequestHeaderModifier: want.Headers}
	if want.Weight != nil {
		step.Traffic = new(itoa(*want.Weight) + "%")
	}
	wire := record{For: owner}
	if err := v1beta1.Convert_rollouts_Step_To_v1beta1_Step(step.DeepCopy(), &wire.Step, nil); err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	text, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	return added(map[string]string{rollouts.AnnotationRouted: string(text)}, annotations), nil
}

// recorded returns the route on an object. ok is false if there is none.
func recorded(obj metav1.Object) (route planner.Route, ok bool) {
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

// recordOf reads the record of an object; nil if there is none.
func recordOf(obj metav1.Object) *record {
	wire := &record{}
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationRouted]), wire); err != nil {
		return nil
	}
	return wire
}

// forget removes the record of a route in place.
func forget(annotations map[string]string) {
	for _, key := range []string{rollouts.AnnotationOriginalSpec, rollouts.AnnotationRouted, rollouts.AnnotationRoutedBy} {
		delete(annotations, key)
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
