// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// cloneSet releases a CloneSet by its partition: Kruise updates all other pods to the live template,
// in place if the owner asks for it.
var cloneSet = partitioned{&partitionKind{
	kind:             cloneSetKind.Kind,
	subjectOf:        func(o object.Object) subject { return o.(*CloneSet) },
	revisionName:     func(r *appsv1.ControllerRevision) string { return hashSuffix(r.Name) },
	podRevision:      cloneSetRevisionOf,
	arrangePods:      arrangeActive,
	revisionInStatus: true,
	inPlace:          true,
}}

// all is the partition that keeps every pod as it is.
var all = intstr.FromString("100%")

// arrangeActive sets the active pods of a view.
func arrangeActive(v *view, pods []*corev1.Pod) {
	for _, p := range pods {
		if isActive(p) {
			v.pods = append(v.pods, p)
		}
	}
}

// hashSuffix returns the last part of the name of a revision. Pods have it as a label value.
func hashSuffix(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// cloneSetRevisionOf returns the revision of a pod.
func cloneSetRevisionOf(p *corev1.Pod) string {
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return hash
	}
	return hashSuffix(p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

// fields implements subject. By default, Kruise replaces 20% of the pods at once. If no pod may be
// missing, Kruise first creates a surge pod, so that the limit counts as 1.
func (c *CloneSet) fields() fields {
	n, u, st := orElse(c.Spec.Replicas, 1), c.Spec.UpdateStrategy, c.Status
	return fields{
		template: &c.Spec.Template, unknown: &c.Unknown, historyLimit: &c.Spec.RevisionHistoryLimit, replicas: c.Spec.Replicas,
		partition: podsKept(u.Partition, n), stopped: u.Paused || u.Partition != nil && *u.Partition == all,
		maxUnavailable:     resolveUnavailable(intstr.ValueOrDefault(u.MaxUnavailable, intstr.FromString("20%")), n, u.MaxSurge == nil),
		observedGeneration: st.ObservedGeneration, currentRevision: hashSuffix(st.CurrentRevision), updateRevision: hashSuffix(st.UpdateRevision),
		total: st.Replicas, updated: st.UpdatedReplicas, updatedReady: st.UpdatedReadyReplicas,
	}
}

func (c *CloneSet) stopController(isHeld bool) {
	own := originalCloneSet{Partition: c.Spec.UpdateStrategy.Partition, Paused: c.Spec.UpdateStrategy.Paused}
	if isHeld {
		own = readOriginalCloneSet(c)
	}
	saveOriginalCloneSet(c, own)
	c.Spec.UpdateStrategy.Partition = new(all)
}

func (c *CloneSet) resume() { c.Spec.UpdateStrategy.Paused = false }

// preserveStrategy implements subject.
func (c *CloneSet) preserveStrategy(old object.Object, isAnother bool) {
	wrote, before, own := &c.Spec.UpdateStrategy, old.(*CloneSet).Spec.UpdateStrategy, readOriginalCloneSet(c)
	if !equality.Semantic.DeepEqual(wrote.Partition, before.Partition) {
		own.Partition = wrote.Partition
		saveOriginalCloneSet(c, own)
	}
	if wrote.Paused != before.Paused {
		own.Paused = wrote.Paused
		saveOriginalCloneSet(c, own)
	}
	wrote.Partition, wrote.Paused = before.Partition, before.Paused
	if isAnother {
		wrote.Partition = new(all)
	}
}

// setPartition implements subject. It does not change a partition that keeps the same number of
// pods.
func (c *CloneSet) setPartition(n int32) {
	p, replicas := &c.Spec.UpdateStrategy.Partition, orElse(c.Spec.Replicas, 1)
	if *p == nil || podsKept(*p, replicas) != n || (**p == all) != (n >= replicas) {
		*p = new(partitionToKeep(n, replicas))
	}
}

// restore implements subject. A workload that stays paused keeps a partition that allows no
// replacement.
func (c *CloneSet) restore(_ view, how planner.RestoreWorkload, isOurs bool) {
	if own := readOriginalCloneSet(c); isOurs {
		c.Spec.UpdateStrategy.Paused = own.Paused
		c.Spec.UpdateStrategy.Partition = own.Partition
		if own.Partition == nil {
			c.Spec.UpdateStrategy.Partition = new(intstr.FromInt32(0))
		}
	}
	if how.KeepPaused {
		c.Spec.UpdateStrategy.Partition = new(all)
	}
}

// podsKept returns how many pods a partition keeps at the earlier revision. If there is more than
// one pod, only the exact value "100%" keeps all; other percentages keep at most all but one.
func podsKept(partition *intstr.IntOrString, replicas int32) int32 {
	if partition == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(partition, int(replicas), true)
	if err != nil {
		return 0
	}
	left := min(max(int32(n), 0), replicas) //nolint:gosec // bounded by replicas
	if partition.Type == intstr.String && *partition != all && replicas > 1 {
		left = min(left, replicas-1)
	}
	return left
}

// partitionToKeep returns the partition that keeps n pods. It prefers a percentage if that is exact:
// after a change of the size, a percentage stays correct until Weir has observed the change.
func partitionToKeep(n, replicas int32) intstr.IntOrString {
	switch {
	case n >= replicas:
		return all
	case n <= 0:
		return intstr.FromInt32(0)
	}
	share := intstr.FromString(fmt.Sprintf("%d%%", n*100/replicas))
	if podsKept(&share, replicas) == n {
		return share
	}
	return intstr.FromInt32(n)
}

// originalCloneSet is the value of the annotation that saves the owner's settings of a CloneSet. The
// annotation is absent if all are defaults.
type originalCloneSet struct {
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	Paused    bool                `json:"paused,omitempty"`
	// The following fields are saved only during a blue-green release. MinReadySeconds is not nil
	// then.
	MaxUnavailable  *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge        *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds *int32              `json:"minReadySeconds,omitempty"`
}

// saveOriginalCloneSet writes the annotation. It ignores a partition that Weir wrote, defaults, and
// values that could not be restored.
func saveOriginalCloneSet(c *CloneSet, o originalCloneSet) {
	o.dropInvalid()
	if o.Partition != nil && (*o.Partition == all || *o.Partition == intstr.FromInt32(0)) {
		o.Partition = nil
	}
	c.SetAnnotations(withoutKeys(c.Annotations, rollouts.AnnotationOriginalStrategy))
	if o != (originalCloneSet{}) {
		setAnnotation(c, rollouts.AnnotationOriginalStrategy, encode(o))
	}
}

// dropInvalid drops values that are neither a number of pods nor a percentage.
func (o *originalCloneSet) dropInvalid() {
	o.Partition, o.MaxUnavailable, o.MaxSurge = validShareOrNil(o.Partition), validShareOrNil(o.MaxUnavailable), validShareOrNil(o.MaxSurge)
}

// readOriginalCloneSet reads the annotation. It returns defaults if the value is unreadable, or if
// it lacks the owner's values although the spec has Weir's.
func readOriginalCloneSet(c *CloneSet) originalCloneSet {
	var o originalCloneSet
	if err := json.Unmarshal([]byte(c.Annotations[rollouts.AnnotationOriginalStrategy]), &o); err != nil {
		o = originalCloneSet{}
	}
	if orElse(o.MinReadySeconds, c.Spec.MinReadySeconds) == foreverReady {
		o.MaxUnavailable, o.MaxSurge, o.MinReadySeconds = nil, nil, new(int32)
	}
	o.dropInvalid()
	return o
}
