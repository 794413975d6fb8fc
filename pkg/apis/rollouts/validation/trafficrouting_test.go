// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

func validRouting() *rollouts.TrafficRouting {
	return &rollouts.TrafficRouting{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"},
		Spec: rollouts.TrafficRoutingSpec{
			ObjectRef: []rollouts.TrafficRoutingRef{{Service: "web", GracePeriodSeconds: 3, Ingress: &rollouts.IngressRef{Name: "web"}}},
			Strategy: rollouts.TrafficRoutingStrategy{
				Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{{Type: new("Exact"), Name: "user-agent", Value: "pc"}}}},
			},
		},
	}
}

func TestValidateTrafficRouting(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*rollouts.TrafficRoutingSpec)
		want   []string
	}{
		"valid":               {change: func(*rollouts.TrafficRoutingSpec) {}},
		"a weight of 0":       {change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Weight = new(int32(0)) }},
		"a weight of 100":     {change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Weight = new(int32(100)) }},
		"a weight above 100":  {change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Weight = new(int32(101)) }, want: []string{"strategy.weight: Invalid value"}},
		"a negative weight":   {change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Weight = new(int32(-1)) }, want: []string{"strategy.weight: Invalid value"}},
		"no object reference": {change: func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef = nil }, want: []string{"objectRef: Required value"}},
		"no router":           {change: func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef[0].Ingress = nil }, want: []string{"objectRef[0]: Required value"}},
		"no service":          {change: func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef[0].Service = "" }, want: []string{"objectRef[0].service: Required value"}},
		"too many routers": {
			change: func(s *rollouts.TrafficRoutingSpec) {
				s.ObjectRef[0].CustomNetworkRefs = refs(17, "example.com/v1", "Mesh")
			},
			want: []string{"objectRef[0].customNetworkRefs: Too many"},
		},
		"a negative grace period": {change: func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef[0].GracePeriodSeconds = -1 }, want: []string{"objectRef[0].gracePeriodSeconds: Invalid value"}},
		"two services":            {change: func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef = append(s.ObjectRef, s.ObjectRef[0]) }},
		"many matches":            {change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Matches = make([]rollouts.RouteMatch, 17) }},
		"many headers": {
			change: func(s *rollouts.TrafficRoutingSpec) { s.Strategy.Matches[0].Headers = distinct(17) },
			want:   []string{"strategy.matches[0].headers: Too many"},
		},
		"a header twice": {change: func(s *rollouts.TrafficRoutingSpec) {
			s.Strategy.Matches[0].Headers = append(s.Strategy.Matches[0].Headers, s.Strategy.Matches[0].Headers[0])
		}},
		"a header without a name": {
			change: func(s *rollouts.TrafficRoutingSpec) {
				s.Strategy.RequestHeaderModifier = &rollouts.HeaderModifier{Add: []rollouts.Header{{Value: "x"}}}
			},
			want: []string{"strategy.requestHeaderModifier.add[0].name: Required value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := validRouting()
			r := old.DeepCopy()
			test.change(&r.Spec)
			for action, errs := range map[string][]string{
				"create": render(validation.ValidateTrafficRouting(r)),
				"update": render(validation.ValidateTrafficRoutingUpdate(r, old)),
			} {
				for i := range errs {
					errs[i] = strings.TrimPrefix(errs[i], "spec.")
				}
				if diff := cmp.Diff(test.want, errs); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", action, diff)
				}
			}
		})
	}
}

// TestRoutedFieldsAreImmutable checks that the references and the grace period cannot change while requests are
// routed.
func TestRoutedFieldsAreImmutable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rollouts.TrafficRoutingSpec){
		"grace":   func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef[0].GracePeriodSeconds = 600 },
		"ingress": func(s *rollouts.TrafficRoutingSpec) { s.ObjectRef[0].Ingress.Name = "other" },
	} {
		old := validRouting()
		r := old.DeepCopy()
		change(&r.Spec)
		if errs := validation.ValidateTrafficRoutingUpdate(r, old); len(errs) > 0 {
			t.Errorf("%s at rest: %v", name, errs)
		}
		old.Status.LastUpdateTime = &metav1.Time{}
		if diff := cmp.Diff([]string{"spec.objectRef: Forbidden"}, render(validation.ValidateTrafficRoutingUpdate(r, old))); diff != "" {
			t.Errorf("%s while routed: (-want +got)\n%s", name, diff)
		}
		r.Spec.ObjectRef, r.Spec.Strategy.Weight = old.Spec.ObjectRef, new(int32(30))
		if errs := validation.ValidateTrafficRoutingUpdate(r, old); len(errs) > 0 {
			t.Errorf("%s: another share: %v", name, errs)
		}
	}
}

func TestValidateRolloutHistory(t *testing.T) {
	t.Parallel()
	h := &rollouts.RolloutHistory{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x7bqz2", ResourceVersion: "1"},
		Spec:       rollouts.RolloutHistorySpec{Service: &rollouts.ObjectInfo{}},
	}
	if errs := append(validation.ValidateRolloutHistory(h), validation.ValidateRolloutHistoryUpdate(h, h)...); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	h.Name = "Web"
	if diff := cmp.Diff([]string{"metadata.name: Invalid value"}, render(validation.ValidateRolloutHistory(h))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
