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

// cloneSet releases a CloneSet by its partition: Kruise brings as many pods to the
// live template as that leaves, in place where the owner asks for it.
var cloneSet = partitioned{&partitionKind{
	kind:             cloneSetKind.Kind,
	subjectOf:        func(o object.Object) subject { return o.(*CloneSet) },
	revisionName:     func(r *appsv1.ControllerRevision) string { return hashSuffix(r.Name) },
	podRevision:      cloneSetRevisionOf,
	arrangePods:      arrangeActive,
	revisionInStatus: true,
	inPlace:          true,
}}

// all is the share that leaves every pod as it is.
var all = intstr.FromString("100%")

// arrangeActive leaves out pods that do not count.
func arrangeActive(v *view, pods []*corev1.Pod) {
	for _, p := range pods {
		if isActive(p) {
			v.pods = append(v.pods, p)
		}
	}
}

// hashSuffix is the part of the name of a revision that pods are labelled with.
func hashSuffix(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// cloneSetRevisionOf is the revision of a pod.
func cloneSetRevisionOf(p *corev1.Pod) string {
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return hash
	}
	return hashSuffix(p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

// fields has Kruise replace a fifth of the pods at once by default. Where none may be
// missing it makes one more first, so that there is one at least.
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

// preserveStrategy has what the owner writes of the strategy given back in the end.
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

// setPartition leaves the partition that is there if it keeps as many pods.
func (c *CloneSet) setPartition(n int32) {
	p, replicas := &c.Spec.UpdateStrategy.Partition, orElse(c.Spec.Replicas, 1)
	if *p == nil || podsKept(*p, replicas) != n || (**p == all) != (n >= replicas) {
		*p = new(partitionToKeep(n, replicas))
	}
}

// restore keeps a partition that lets nothing be replaced where the workload stays paused.
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

// podsKept is how many pods a partition leaves at the earlier revision. Of more than
// one pod only the exact share "100%" means all.
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

// partitionToKeep is the partition that leaves n pods: a share where that is exact, which
// stays right for as long as it takes us to see that the size has changed.
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

// originalCloneSet is the value of the annotation that keeps what the owner wrote. It
// is absent where that is the default.
type originalCloneSet struct {
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	Paused    bool                `json:"paused,omitempty"`
	// What follows is kept while pods surge; the seconds are there then.
	MaxUnavailable  *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge        *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds *int32              `json:"minReadySeconds,omitempty"`
}

// saveOriginalCloneSet takes no partition of ours for the owner's, and leaves out the default, and what could
// not be given back.
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

// dropInvalid drops what is neither a number of pods nor a percentage.
func (o *originalCloneSet) dropInvalid() {
	o.Partition, o.MaxUnavailable, o.MaxSurge = validShareOrNil(o.Partition), validShareOrNil(o.MaxUnavailable), validShareOrNil(o.MaxSurge)
}

// readOriginalCloneSet is the default where the annotation is unreadable, and where it lacks the owner's
// values although those in the spec are Weir's.
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
