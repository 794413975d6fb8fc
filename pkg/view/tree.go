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
	// most is how many revisions, autoscalers or budgets a tree has.
	most = 20
	// maxText bounds a message, which others may have written.
	maxText = 1024
	// maxImage bounds the name of an image.
	maxImage = 512
)

// Tree is what a viewer sees.
type Tree struct {
	Nodes  []rollouts.Node
	Hidden []rollouts.HiddenKind
	// Again is how soon a node may be another though no object has changed; 0 for never.
	Again time.Duration
}

// Of makes the tree.
func Of(s *Seen, now time.Time) Tree {
	b := &builder{seen: s, facts: s.facts(), now: now, root: string(s.Rollout.UID)}
	b.add(rolloutNode(s.Rollout, b.root))
	b.addBatch()
	b.addWorkloads()
	b.addScalers()
	b.addBudgets()
	b.addNetwork()
	b.addRouting()
	b.hide()
	return b.tree
}

// builder adds nodes to a tree.
type builder struct {
	seen  *Seen
	facts facts
	now   time.Time
	tree  Tree
	// root is the ID of the Rollout, and main that of the workload; empty if it is not seen.
	root, main string
	// pods is how many pods there are, as far as revisions tell; nil if none is seen.
	pods *int32
}

func (b *builder) add(n rollouts.Node) {
	n.Message = rollouts.Clean(strings.TrimSpace(n.Message), maxText)
	b.tree.Nodes = append(b.tree.Nodes, n)
}

// node is that of an object, which may not exist.
func node(role string, kind schema.GroupVersionKind, name string, o object.Object, parent string) rollouts.Node {
	apiVersion, k := kind.ToAPIVersionAndKind()
	n := rollouts.Node{Parent: parent, Role: role, APIVersion: apiVersion, Kind: k, Name: name}
	if o == nil {
		n.ID, n.Health, n.Message = strings.ToLower(k)+"/"+name, missing, "it does not exist"
		return n
	}
	n.ID, n.Name, n.Health, n.Since = string(o.GetUID()), o.GetName(), healthy, new(o.GetCreationTimestamp())
	if o.GetDeletionTimestamp() != nil {
		n.Health, n.Message, n.Since = progressing, "it is being deleted", o.GetDeletionTimestamp()
	}
	return n
}

func rolloutNode(r *rollouts.Rollout, id string) rollouts.Node {
	n := node(roleRollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"), r.Name, r, "")
	n.ID = id
	n.Health, n.Since = rolloutHealth(r)
	n.Message = r.Status.Message
	if p := r.Status.Active(); p != nil && r.Status.UnderWay() {
		n.Batch = p.CurrentStepIndex
	}
	return n
}

func (b *builder) addBatch() {
	batch, ok := b.seen.one(b.seen.BatchRead()).(*rollouts.BatchRelease)
	if !ok || !metav1.IsControlledBy(batch, b.seen.Rollout) {
		return
	}
	n := node(roleBatch, batchKind, batch.Name, batch, b.root)
	if n.Health == healthy && batch.Status.BatchState != rollouts.BatchReady && batch.Status.Phase != rollouts.PhaseCompleted {
		n.Health = progressing
	}
	n.Message, n.Batch = cmp.Or(batch.Status.Message, n.Message), batch.Status.CurrentBatch+1
	n.Pods, n.Ready = new(batch.Status.UpdatedReplicas), new(batch.Status.UpdatedReadyReplicas)
	b.add(n)
}

// addWorkloads adds the workload, what is made beside it, and their revisions.
func (b *builder) addWorkloads() {
	f := &b.facts
	if f.row.New == nil {
		return
	}
	read := b.seen.workloadRead(f.row)
	if !b.seen.Answers[read].seen() {
		return
	}
	n := node(roleWorkload, f.row.GVK, read.Name, f.object, b.root)
	if f.object == nil {
		b.add(n)
		return
	}
	b.main = n.ID
	revisions := b.revisions()
	n.Images = images(f.row.Template(f.object))
	own := slices.DeleteFunc(slices.Clone(revisions), func(r revision) bool { return r.Parent != b.main })
	n.Desired, n.Pods, n.Ready = new(f.Replicas), sum(own, podsOf), sum(own, readyOf)
	b.judgeWorkload(&n)
	b.pods = sum(revisions, podsOf)
	b.add(n)
	for _, extra := range f.extras {
		b.add(b.extra(extra))
	}
	b.addRevisions(revisions)
}

// judgeWorkload says how the workload is.
func (b *builder) judgeWorkload(n *rollouts.Node) {
	f := &b.facts
	switch {
	case n.Health != healthy:
	case n.Ready == nil: // of its pods no more is known than the status says
		n.Health = b.tree.Nodes[0].Health
	default:
		n.Health = workloadHealth(f, *n.Ready)
	}
	n.Message = cmp.Or(f.Deleted, f.UnsupportedReason, n.Message)
	if n.Message == "" && f.Held {
		n.Message = "it is held by rollout " + b.seen.Rollout.Name
	}
}

// extra is the node of what was made beside the workload.
func (b *builder) extra(o object.Object) rollouts.Node {
	n := node(roleWorkload, b.facts.row.GVK, "", o, b.root)
	n.Revision = "update"
	if d, ok := o.(*appsv1.Deployment); ok {
		n.Desired, n.Pods, n.Ready, n.Images = d.Spec.Replicas, new(d.Status.Replicas), new(d.Status.ReadyReplicas), images(&d.Spec.Template)
		if n.Health == healthy && deref(n.Ready) < deref(n.Desired) {
			n.Health = progressing
		}
	}
	return n
}

func podsOf(n *rollouts.Node) *int32  { return n.Pods }
func readyOf(n *rollouts.Node) *int32 { return n.Ready }

// sum adds up a number of all revisions; nil if one
// of them is not known, or there is none.
func sum(all []revision, of func(*rollouts.Node) *int32) *int32 {
	if len(all) == 0 {
		return nil
	}
	total := int32(0)
	for i := range all {
		n := of(&all[i].Node)
		if n == nil {
			return nil
		}
		total += *n
	}
	return &total
}

// hide adds what the viewer may not see, or what could not be read, once for each kind.
func (b *builder) hide() {
	for _, r := range b.seen.reads() {
		a := b.seen.Answers[r]
		if a.seen() {
			continue
		}
		h := rollouts.HiddenKind{Kind: r.Kind.Kind, Permission: r.Permission()}
		if !a.Forbidden {
			h.Message = rollouts.Clean(a.Failure, maxText)
		}
		if r.Role == rolePod {
			h.Count = b.hiddenPods()
		}
		b.addHidden(h)
		if r.Role == roleRevision && !slices.Contains(b.facts.row.Owns, podKind) {
			h.Kind, h.Count = podKind.Kind, b.hiddenPods()
			b.addHidden(h)
		}
	}
	for _, r := range b.facts.network.Routers {
		if !r.HasProvider() {
			b.addHidden(rollouts.HiddenKind{Kind: r.Kind.Kind, Message: cmp.Or(r.Unavailable, "it is routed by a script, which is not run for a tree")})
		}
	}
}

func (b *builder) addHidden(h rollouts.HiddenKind) {
	if !slices.ContainsFunc(b.tree.Hidden, func(o rollouts.HiddenKind) bool { return o.Kind == h.Kind && o.Permission == h.Permission }) {
		b.tree.Hidden = append(b.tree.Hidden, h)
	}
}

// hiddenPods is how many pods there are that are not seen: as the revisions say, else those
// of the update revision, as the status does.
func (b *builder) hiddenPods() *int32 {
	if b.pods != nil {
		return b.pods
	}
	if p := b.seen.Rollout.Status.Active(); p != nil && b.seen.Rollout.Status.UnderWay() {
		return new(p.UpdateReplicas)
	}
	return nil
}
