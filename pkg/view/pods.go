// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// maxPodNodes is the maximum number of pods of a revision that have a node each.
const maxPodNodes = 200

// revision is a node of a ReplicaSet or a ControllerRevision, with its pods.
type revision struct {
	rollouts.Node
	pods []*corev1.Pod
}

// revisionNodes returns the revisions with pods, and the stable and the updated revision, newest
// first.
func (b *builder) revisionNodes() []revision {
	var all []revision
	for _, set := range b.facts.revisionObjects {
		r := b.revisionNode(set)
		if r.Revision != "other" && r.Revision != "" || len(r.pods) > 0 || r.Pods != nil && *r.Pods > 0 {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b revision) int {
		return cmp.Or(b.Since.Compare(a.Since.Time), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), maxNodes)]
	ready := int32(0)
	for _, r := range all {
		ready += deref(r.Ready)
	}
	for i := range all {
		all[i].Traffic = b.facts.trafficShare(all[i].Revision, deref(all[i].Ready), ready)
	}
	return all
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// revisionNode returns the node of a ReplicaSet or ControllerRevision. A ReplicaSet counts its own
// pods.
func (b *builder) revisionNode(set object.Object) revision {
	f, value := &b.facts, b.facts.revisionLabel(set)
	kind, parent := revisionRead(f.row, "").Kind, b.workloadID
	for _, extra := range f.canaryWorkloads {
		if metav1.IsControlledBy(set, extra) {
			parent = string(extra.GetUID())
		}
	}
	r := revision{Node: newNode(roleRevision, kind, "", set, parent)}
	r.Revision = f.revisionOf(value)
	r.pods = slices.Concat(f.pods[podOwner{owner: set.GetUID()}], f.pods[podOwner{owner: f.object.GetUID(), revision: value}])
	if rs, ok := set.(*appsv1.ReplicaSet); ok {
		r.Desired, r.Pods, r.Ready, r.Images = rs.Spec.Replicas, new(rs.Status.Replicas), new(rs.Status.ReadyReplicas), templateImages(&rs.Spec.Template)
	} else {
		b.countPods(&r)
	}
	b.setRevisionHealth(&r, f.PodCreationErrors[value])
	return r
}

// countPods counts the pods of a ControllerRevision, which has no counts of its own. If the pods
// are not visible, the status of the Rollout has the counts of the updated revision.
func (b *builder) countPods(r *revision) {
	if !b.canSeePods() {
		if p := b.observed.Rollout.Status.Active(); p != nil && r.Revision == "update" {
			r.Pods, r.Ready = new(p.UpdateReplicas), new(p.UpdateReadyReplicas)
		}
		return
	}
	r.Pods, r.Ready = new(int32), new(int32)
	for _, p := range r.pods {
		*r.Pods++
		if workload.IsReadyOrTerminating(p) && p.DeletionTimestamp == nil {
			*r.Ready++
		}
		r.Images = containerImages(p.Spec.Containers)
	}
}

func (b *builder) canSeePods() bool {
	return b.observed.Answers[podRead(podSelector(b.observed.objectOf(b.observed.workloadRead(b.facts.row))))].isVisible()
}

// setRevisionHealth sets the health and the message of a revision's node.
func (b *builder) setRevisionHealth(r *revision, refusal string) {
	if r.Health != healthy {
		return
	}
	trouble, again := workload.UnreadyReasons(r.pods, r.Revision, b.now)
	b.requeueAfter(again)
	switch r.Message = cmp.Or(refusal, trouble.Message); {
	case r.Message != "":
		r.Health = degraded
	case deref(r.Ready) < deref(cmp.Or(r.Desired, r.Pods)):
		r.Health = progressing
	}
}

func (b *builder) requeueAfter(after time.Duration) {
	if after > 0 && (b.tree.RequeueAfter == 0 || after < b.tree.RequeueAfter) {
		b.tree.RequeueAfter = after
	}
}

// addRevisions adds revisions and their pods: one node for each pod or, if there are many, one node
// for pods with the same health and message.
func (b *builder) addRevisions(all []revision) {
	for _, r := range all {
		b.addNode(r.Node)
		if len(r.pods) > maxPodNodes {
			b.addPodGroups(r)
			continue
		}
		slices.SortFunc(r.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, p := range r.pods {
			b.addNode(podNode(p, r, b.now))
		}
	}
}

func podNode(p *corev1.Pod, of revision, now time.Time) rollouts.Node {
	n := newNode(rolePod, podKind, "", p, of.ID)
	n.Revision, n.Node, n.Images = of.Revision, p.Spec.NodeName, containerImages(p.Spec.Containers)
	n.Batch = batchNumber(p)
	for _, c := range p.Status.ContainerStatuses {
		n.Restarts += c.RestartCount
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() && p.DeletionTimestamp == nil {
			n.Since = new(c.LastTransitionTime)
		}
	}
	if workload.IsReadyOrTerminating(p) {
		return n
	}
	n.Health = progressing
	if cause, _ := workload.UnreadyReason(p, now); cause.Message != "" {
		n.Health, n.Message = degraded, cause.Message
	}
	return n
}

// batchNumber returns the step that created a pod, according to the label of the pod.
func batchNumber(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Labels[rollouts.LabelRolloutBatchID], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// addPodGroups adds one node for all pods with the same health and message.
func (b *builder) addPodGroups(r revision) {
	groups := map[string]*rollouts.Node{}
	var order []string
	for _, p := range r.pods {
		one := podNode(p, r, b.now)
		key := one.Health + " " + one.Message
		g := groups[key]
		if g == nil {
			g = &rollouts.Node{
				ID: r.ID + " " + key, Parent: r.ID, Role: rolePods, APIVersion: one.APIVersion, Kind: one.Kind,
				Revision: r.Revision, Health: one.Health, Message: one.Message, Pods: new(int32), Ready: new(int32),
			}
			groups[key], order = g, append(order, key)
		}
		*g.Pods++
		if one.Health == healthy {
			*g.Ready++
		}
		g.Restarts += one.Restarts
	}
	slices.Sort(order)
	for _, key := range order[:min(len(order), maxPodNodes)] {
		b.addNode(*groups[key])
	}
}
