// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Active returns the style and the release that is set. The release of an invalid
// strategy may be nil.
func (s *Strategy) Active() (Style, *Release) {
	switch {
	case s.BlueGreen != nil:
		return StyleBlueGreen, s.BlueGreen
	case s.Canary != nil && s.Canary.ExtraWorkload:
		return StyleCanary, s.Canary
	default:
		return StylePartition, s.Canary
	}
}

// StyleFor returns how pods of the workload are replaced. The canary style is for
// Deployments of apps/v1; other kinds are partitioned instead.
func StyleFor(s *Strategy, ref *ObjectRef) Style {
	style, _ := s.Active()
	if style == StyleCanary && (ref == nil || ref.APIVersion != "apps/v1" || ref.Kind != "Deployment") {
		return StylePartition
	}
	return style
}

// Active returns the progress that is set, or nil.
func (s *RolloutStatus) Active() *Progress {
	if s.BlueGreen != nil {
		return s.BlueGreen
	}
	return s.Canary
}

// SetActive stores the progress under the key of the style, and clears the other key.
func (s *RolloutStatus) SetActive(style Style, p *Progress) {
	s.Canary, s.BlueGreen = nil, nil
	if style == StyleBlueGreen {
		s.BlueGreen = p
		return
	}
	s.Canary = p
}

// Condition returns the condition of the type, or nil.
func (s *RolloutStatus) Condition(t ConditionType) *Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// Stalled returns the condition Stalled if it is true and its reason is Weir's, or nil.
// A condition Stalled of others decides nothing.
func (s *RolloutStatus) Stalled() *Condition {
	c := s.Condition(ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || !StallReason(c.Reason).Known() {
		return nil
	}
	return c
}

// Failing returns the condition Failing if it is true, or nil.
func (s *RolloutStatus) Failing() *Condition {
	c := s.Condition(ConditionFailing)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// SetCondition stores a condition. The transition time only changes with the status, and
// an equal condition changes nothing.
func (s *RolloutStatus) SetCondition(c Condition, now metav1.Time) {
	old := s.Condition(c.Type)
	if old == nil {
		c.LastUpdateTime, c.LastTransitionTime = now, now
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return
	}
	c.LastUpdateTime, c.LastTransitionTime = now, old.LastTransitionTime
	if old.Status != c.Status {
		c.LastTransitionTime = now
	}
	*old = c
}

// RemoveCondition removes the condition of the type.
func (s *RolloutStatus) RemoveCondition(t ConditionType) {
	var kept []Condition
	for _, c := range s.Conditions {
		if c.Type != t {
			kept = append(kept, c)
		}
	}
	s.Conditions = kept
}

// UnderWay reports whether a release has begun and has not ended.
func (s *RolloutStatus) UnderWay() bool {
	return s.Phase == PhaseProgressing || s.Phase == PhaseTerminating || s.Phase == PhaseDisabling
}

// Activity returns what the release is doing.
func (s *RolloutStatus) Activity() Activity {
	if c := s.Condition(ConditionProgressing); c != nil {
		return Activity(c.Reason)
	}
	return ActivityNone
}

// SetActivity stores what the release is doing. The Progressing condition is
// false once a release has ended or been aborted.
func (s *RolloutStatus) SetActivity(a Activity, message string, now metav1.Time) {
	status := metav1.ConditionTrue
	if a == ActivityCompleted || a == ActivityAborted {
		status = metav1.ConditionFalse
	}
	s.SetCondition(Condition{Type: ConditionProgressing, Status: status, Reason: string(a), Message: message}, now)
}

// Step returns the step of the 1-based index, or nil.
func (r *Release) Step(index int32) *Step {
	if r == nil || index < 1 || int(index) > len(r.Steps) {
		return nil
	}
	return &r.Steps[index-1]
}

// Next returns the 1-based index of the next step, or -1 after the last one.
func (r *Release) Next(index int32) int32 {
	if int(index) >= len(r.Steps) {
		return -1
	}
	return index + 1
}

// Key returns the key in spec.strategy of the release with the style.
func (s Style) Key() string {
	if s == StyleBlueGreen {
		return "blueGreen"
	}
	return "canary"
}

// Class returns the dialect of annotations, or an empty one.
func (r *IngressRef) Class() string {
	if r.ClassType == nil {
		return ""
	}
	return *r.ClassType
}

// TrafficRouting returns the name of the TrafficRouting object, or an empty one.
func (r *Release) TrafficRouting() string {
	if r.TrafficRoutingRef == nil {
		return ""
	}
	return *r.TrafficRoutingRef
}

// AsksForTraffic reports whether the step sends requests to the new version.
func (s *Step) AsksForTraffic() bool {
	return s.Traffic != nil || len(s.Matches) > 0
}
