// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
)

const (
	// maxNodes is the maximum number of revisions, autoscalers or budgets in a tree.
	maxNodes = 20
	// maxText limits the length of a message, which other controllers may have written.
	maxText = 1024
	// maxImage limits the length of an image name.
	maxImage = 512
)

// Tree is the tree of objects that a viewer sees.
type Tree struct {
	Nodes  []rollouts.Node
	Hidden []rollouts.HiddenKind
	// RequeueAfter is the time after which a node may change although no object changes; 0 if there
	// is none.
	RequeueAfter time.Duration
}

// BuildTree builds the tree of a Rollout.
func BuildTree(s *Observed, now time.Time) Tree {
	b := &builder{observed: s, facts: s.computeFacts(), now: now, rolloutID: string(s.Rollout.UID)}
	b.addNode(rolloutNode(s.Rollout, b.rolloutID))
	b.addBatchRelease()
	b.addWorkloads()
	b.addScalers()
	b.addBudgets()
	b.addNetwork()
	b.addTrafficRouting()
	b.addHiddenKinds()
	return b.tree
}

// builder adds nodes to a tree.
type builder struct {
	observed *Observed
	facts    facts
	now      time.Time
	tree     Tree
	// rolloutID and workloadID are the IDs of the nodes of the Rollout and the workload. workloadID
	// is empty if the workload is not visible.
	rolloutID, workloadID string
	// podCount is the number of pods according to the revisions; nil if no revision is visible.
	podCount *int32
}

func (b *builder) addNode(n rollouts.Node) {
	n.Message = rollouts.Clean(strings.TrimSpace(n.Message), maxText)
	b.tree.Nodes = append(b.tree.Nodes, n)
}

// newNode returns the node of an object, which may not exist.
func newNode(role string, kind schema.GroupVersionKind, name string, o object.Object, parent string) rollouts.Node {
	apiVersion, k := kind.ToAPIVersionAndKind()
	n := rollouts.Node{Parent: parent, Role: role, APIVersion: apiVersion, Kind: k, Name: name}
	if o == nil {
		n.ID, n.Health, n.Message = strings.ToLower(k)+"/"+name, missing, "Does not exist"
		return n
	}
	n.ID, n.Name, n.Health, n.Since = string(o.GetUID()), o.GetName(), healthy, new(o.GetCreationTimestamp())
	if o.GetDeletionTimestamp() != nil {
		n.Health, n.Message, n.Since = progressing, "Being deleted", o.GetDeletionTimestamp()
	}
	return n
}

func rolloutNode(r *rollouts.Rollout, id string) rollouts.Node {
	n := newNode(roleRollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"), r.Name, r, "")
	n.ID = id
	n.Health, n.Since = rolloutHealth(r)
	n.Message = r.Status.Message
	if p := r.Status.Active(); p != nil && r.Status.UnderWay() {
		n.Batch = p.CurrentStepIndex
	}
	return n
}

func (b *builder) addBatchRelease() {
	batch, ok := b.observed.objectOf(b.observed.BatchRead()).(*rollouts.BatchRelease)
	if !ok || !metav1.IsControlledBy(batch, b.observed.Rollout) {
		return
	}
	n := newNode(roleBatch, batchKind, batch.Name, batch, b.rolloutID)
	if n.Health == healthy && batch.Status.BatchState != rollouts.BatchReady && batch.Status.Phase != rollouts.PhaseCompleted {
		n.Health = progressing
	}
	n.Message, n.Batch = cmp.Or(batch.Status.Message, n.Message), batch.Status.CurrentBatch+1
	n.Pods, n.Ready = new(batch.Status.UpdatedReplicas), new(batch.Status.UpdatedReadyReplicas)
	b.addNode(n)
}

// addWorkloads adds the workload, the canary Deployment, and their revisions.
func (b *builder) addWorkloads() {
	f := &b.facts
	if f.row.New == nil {
		return
	}
	read := b.observed.workloadRead(f.row)
	if !b.observed.Answers[read].isVisible() {
		return
	}
	n := newNode(roleWorkload, f.row.GVK, read.Name, f.object, b.rolloutID)
	if f.object == nil {
		b.addNode(n)
		return
	}
	b.workloadID = n.ID
	revisions := b.revisionNodes()
	n.Images = templateImages(f.row.Template(f.object))
	own := slices.DeleteFunc(slices.Clone(revisions), func(r revision) bool { return r.Parent != b.workloadID })
	n.Desired, n.Pods, n.Ready = new(f.Replicas), sumRevisions(own, podsOf), sumRevisions(own, readyOf)
	b.setWorkloadHealth(&n)
	b.podCount = sumRevisions(revisions, podsOf)
	b.addNode(n)
	for _, extra := range f.canaryWorkloads {
		b.addNode(b.extraNode(extra))
	}
	b.addRevisions(revisions)
}

// setWorkloadHealth sets the health and the message of the workload's node.
func (b *builder) setWorkloadHealth(n *rollouts.Node) {
	f := &b.facts
	switch {
	case n.Health != healthy:
	case n.Ready == nil: // only the status of the Rollout describes its pods
		n.Health = b.tree.Nodes[0].Health
	default:
		n.Health = workloadHealth(f, *n.Ready)
	}
	n.Message = cmp.Or(f.Deleted, f.UnsupportedReason, n.Message)
	if n.Message == "" && f.Held {
		n.Message = "Managed by Rollout " + b.observed.Rollout.Name
	}
}

// extraNode returns the node of a workload that Weir created for the canary revision.
func (b *builder) extraNode(o object.Object) rollouts.Node {
	n := newNode(roleWorkload, b.facts.row.GVK, "", o, b.rolloutID)
	n.Revision = "update"
	if d, ok := o.(*appsv1.Deployment); ok {
		n.Desired, n.Pods, n.Ready, n.Images = d.Spec.Replicas, new(d.Status.Replicas), new(d.Status.ReadyReplicas), templateImages(&d.Spec.Template)
		if n.Health == healthy && deref(n.Ready) < deref(n.Desired) {
			n.Health = progressing
		}
	}
	return n
}

func podsOf(n *rollouts.Node) *int32  { return n.Pods }
func readyOf(n *rollouts.Node) *int32 { return n.Ready }

// sumRevisions adds up a number of all revisions. It returns nil if the number of one revision is
// unknown, or if there is no revision.
func sumRevisions(all []revision, number func(*rollouts.Node) *int32) *int32 {
	if len(all) == 0 {
		return nil
	}
	total := int32(0)
	for i := range all {
		n := number(&all[i].Node)
		if n == nil {
			return nil
		}
		total += *n
	}
	return &total
}

// addHiddenKinds adds the kinds that the viewer may not see or that could not be read, each kind
// once.
func (b *builder) addHiddenKinds() {
	for _, r := range b.observed.allReads() {
		a := b.observed.Answers[r]
		if a.isVisible() {
			continue
		}
		h := rollouts.HiddenKind{Kind: r.Kind.Kind, Permission: r.Permission()}
		if !a.Forbidden {
			h.Message = rollouts.Clean(a.Failure, maxText)
		}
		if r.Role == rolePod {
			h.Count = b.hiddenPodCount()
		}
		b.addHidden(h)
		if r.Role == roleRevision && !slices.Contains(b.facts.row.Owns, podKind) {
			h.Kind, h.Count = podKind.Kind, b.hiddenPodCount()
			b.addHidden(h)
		}
	}
	for _, r := range b.facts.network.Routers {
		if !r.HasProvider() {
			b.addHidden(rollouts.HiddenKind{Kind: r.Kind.Kind, Message: cmp.Or(r.Unavailable, "Routed by a script, which is not run for a tree")})
		}
	}
}

func (b *builder) addHidden(h rollouts.HiddenKind) {
	if !slices.ContainsFunc(b.tree.Hidden, func(o rollouts.HiddenKind) bool { return o.Kind == h.Kind && o.Permission == h.Permission }) {
		b.tree.Hidden = append(b.tree.Hidden, h)
	}
}

// hiddenPodCount returns the number of pods that are not visible: according to the revisions or, if
// these are not visible either, the number of updated pods in the status.
func (b *builder) hiddenPodCount() *int32 {
	if b.podCount != nil {
		return b.podCount
	}
	if p := b.observed.Rollout.Status.Active(); p != nil && b.observed.Rollout.Status.UnderWay() {
		return new(p.UpdateReplicas)
	}
	return nil
}
