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

// A route is recorded in an annotation of the object that implements the route, in the format of a
// step of a Rollout. Weir does not parse the route back from the router's own fields: a router
// implements the recorded route if rendering the record again yields the same object.

// routeRecord is the content of the annotation that records a route.
type routeRecord struct {
	v1beta1.Step `json:",inline"`
	// Owner names the owner of a route on an object that is edited in place. Objects that Weir
	// creates have an owner reference instead.
	Owner string `json:"for,omitempty"`
}

// addRouteRecord adds the record of a route, with its owner, to annotations.
func addRouteRecord(annotations map[string]string, want planner.Route, owner string) (map[string]string, error) {
	step := rollouts.Step{Matches: want.Matches, RequestHeaderModifier: want.Headers}
	if want.Weight != nil {
		step.Traffic = new(itoa(*want.Weight) + "%")
	}
	wire := routeRecord{Owner: owner}
	if err := v1beta1.Convert_rollouts_Step_To_v1beta1_Step(step.DeepCopy(), &wire.Step, nil); err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	text, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("recording the route: %w", err)
	}
	return copyInto(map[string]string{rollouts.AnnotationRouted: string(text)}, annotations), nil
}

// recordedRoute returns the route in the record of an object. ok is false if there is no record.
func recordedRoute(obj metav1.Object) (route planner.Route, ok bool) {
	wire := readRouteRecord(obj)
	if wire == nil {
		return planner.Route{}, false
	}
	var step rollouts.Step
	if err := v1beta1.Convert_v1beta1_Step_To_rollouts_Step(&wire.Step, &step, nil); err != nil {
		return planner.Route{}, false
	}
	return planner.RouteOf(step), true
}

// readRouteRecord returns the route record of an object; nil if there is none.
func readRouteRecord(obj metav1.Object) *routeRecord {
	wire := &routeRecord{}
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[rollouts.AnnotationRouted]), wire); err != nil {
		return nil
	}
	return wire
}

// removeRouteRecord removes the annotations that Weir writes to objects that are edited in place.
func removeRouteRecord(annotations map[string]string) {
	for _, key := range []string{rollouts.AnnotationOriginalSpec, rollouts.AnnotationRouted, rollouts.AnnotationRoutedBy} {
		delete(annotations, key)
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
