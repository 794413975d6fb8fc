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

// mostPods is how many pods of a revision have a node each.
const mostPods = 200

// revision is a node of a ReplicaSet or a ControllerRevision, with its pods.
type revision struct {
	rollouts.Node
	pods []*corev1.Pod
}

// revisions are those that have pods, and the stable and the update one, newest first.
func (b *builder) revisions() []revision {
	var all []revision
	for _, set := range b.facts.sets {
		r := b.revision(set)
		if r.Revision != "other" && r.Revision != "" || len(r.pods) > 0 || r.Pods != nil && *r.Pods > 0 {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b revision) int {
		return cmp.Or(b.Since.Compare(a.Since.Time), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), most)]
	ready := int32(0)
	for _, r := range all {
		ready += deref(r.Ready)
	}
	for i := range all {
		all[i].Traffic = b.facts.share(all[i].Revision, deref(all[i].Ready), ready)
	}
	return all
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// revision makes the node of a set. A ReplicaSet counts its own pods.
func (b *builder) revision(set object.Object) revision {
	f, value := &b.facts, b.facts.valueOf(set)
	kind, parent := setRead(f.row, "").Kind, b.main
	for _, extra := range f.extras {
		if metav1.IsControlledBy(set, extra) {
			parent = string(extra.GetUID())
		}
	}
	r := revision{Node: node(roleRevision, kind, "", set, parent)}
	r.Revision = f.revisionOf(value)
	r.pods = slices.Concat(f.pods[place{owner: set.GetUID()}], f.pods[place{owner: f.object.GetUID(), value: value}])
	if rs, ok := set.(*appsv1.ReplicaSet); ok {
		r.Desired, r.Pods, r.Ready, r.Images = rs.Spec.Replicas, new(rs.Status.Replicas), new(rs.Status.ReadyReplicas), images(&rs.Spec.Template)
	} else {
		b.count(&r)
	}
	b.judge(&r, f.PodCreationErrors[value])
	return r
}

// count counts the pods of a revision where nothing else does. Where they are not seen, the
// status counts those of the update revision.
func (b *builder) count(r *revision) {
	if !b.seesPods() {
		if p := b.seen.Rollout.Status.Active(); p != nil && r.Revision == "update" {
			r.Pods, r.Ready = new(p.UpdateReplicas), new(p.UpdateReadyReplicas)
		}
		return
	}
	r.Pods, r.Ready = new(int32), new(int32)
	for _, p := range r.pods {
		*r.Pods++
		if workload.Well(p) && p.DeletionTimestamp == nil {
			*r.Ready++
		}
		r.Images = imagesOf(p.Spec.Containers)
	}
}

func (b *builder) seesPods() bool {
	return b.seen.Answers[podRead(selectorOf(b.seen.one(b.seen.workloadRead(b.facts.row))))].seen()
}

// judge says how a revision is.
func (b *builder) judge(r *revision, refusal string) {
	if r.Health != healthy {
		return
	}
	trouble, again := workload.Trouble(r.pods, r.Revision, b.now)
	b.lookAgain(again)
	switch r.Message = cmp.Or(refusal, trouble); {
	case r.Message != "":
		r.Health = degraded
	case deref(r.Ready) < deref(cmp.Or(r.Desired, r.Pods)):
		r.Health = progressing
	}
}

func (b *builder) lookAgain(after time.Duration) {
	if after > 0 && (b.tree.Again == 0 || after < b.tree.Again) {
		b.tree.Again = after
	}
}

// addRevisions adds revisions and their pods: one node each, or one for each cause.
func (b *builder) addRevisions(all []revision) {
	for _, r := range all {
		b.add(r.Node)
		if len(r.pods) > mostPods {
			b.addGroups(r)
			continue
		}
		slices.SortFunc(r.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, p := range r.pods {
			b.add(podNode(p, r, b.now))
		}
	}
}

func podNode(p *corev1.Pod, of revision, now time.Time) rollouts.Node {
	n := node(rolePod, podKind, "", p, of.ID)
	n.Revision, n.Node, n.Images = of.Revision, p.Spec.NodeName, imagesOf(p.Spec.Containers)
	n.Batch = batchOf(p)
	for _, c := range p.Status.ContainerStatuses {
		n.Restarts += c.RestartCount
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() && p.DeletionTimestamp == nil {
			n.Since = new(c.LastTransitionTime)
		}
	}
	if workload.Well(p) {
		return n
	}
	n.Health = progressing
	if cause, _ := workload.Cause(p, now); cause != "" {
		n.Health, n.Message = degraded, cause
	}
	return n
}

// batchOf is the step that has brought a pod, as its label records it.
func batchOf(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Labels[rollouts.LabelRolloutBatchID], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// addGroups adds one node for all pods that are the same.
func (b *builder) addGroups(r revision) {
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
	for _, key := range order[:min(len(order), mostPods)] {
		b.add(*groups[key])
	}
}
