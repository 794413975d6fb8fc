// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// daemonSetView is a DaemonSet with its pods and revisions by role.
// Revisions are named by the label value of their pods.
type daemonSetView struct {
	set     *appsv1.DaemonSet
	history history
	pods    []*corev1.Pod
	// live is the revision of the live template, and update the one to release;
	// they differ while that is set aside. Empty until the native controller
	// has seen the template.
	live, update string
	// aside is the update revision while its template is set aside, else empty.
	aside string
	// stable served before.
	stable string
}

// place is given what its controller names as the live revision, if that is not
// Kubernetes' own.
func place(d *appsv1.DaemonSet, owned []object.Object, named string) daemonSetView {
	p := daemonSetView{set: d, history: historyOf(d, owned, labelled)}
	for _, obj := range owned {
		if pod, ok := obj.(*corev1.Pod); ok && metav1.IsControlledBy(pod, d) {
			p.pods = append(p.pods, pod)
		}
	}
	p.live = p.history.live(&d.Spec.Template, named)
	_, driven := readOwner(d)
	if p.stable = d.Labels[rollouts.LabelStableRevision]; p.stable == "" || !driven && !held(d) {
		p.stable = p.served()
	}
	p.update = p.live
	if v, _ := readDriving(d); v.SetAsideRevision != "" && p.live == p.stable {
		p.update, p.aside = v.SetAsideRevision, v.SetAsideRevision
	}
	return p
}

// labelled names a revision by the label value of its pods.
func labelled(cr *appsv1.ControllerRevision) string {
	return cr.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
}

// served is the revision of most pods that do not run the live template: of the
// nodes that have joined since that was set, all do. Without any it is the live one.
func (p daemonSetView) served() string {
	pods, _ := census(p.pods)
	return p.history.served(p.live, p.live, pods)
}

func (p daemonSetView) settled() bool { return p.set.Status.ObservedGeneration >= p.set.Generation }

// size is the number of nodes that are to have a pod. A status that counts fewer than
// have one is not believed.
func (p daemonSetView) size() int32 {
	var pods int32
	nodes := map[string]bool{}
	for _, pod := range p.pods {
		if counts(pod) && (pod.Spec.NodeName == "" || !nodes[pod.Spec.NodeName]) {
			nodes[pod.Spec.NodeName] = true
			pods++
		}
	}
	return max(p.set.Status.DesiredNumberScheduled, pods)
}

// allStable reports whether nothing is left to bring back.
func (p daemonSetView) allStable() bool { return p.live == p.stable && len(p.others()) == 0 }

// underway reports whether pods are still to get the template that is asked for.
func (p daemonSetView) underway() bool {
	return p.update != p.stable && slices.ContainsFunc(p.pods, func(pod *corev1.Pod) bool { return counts(pod) && revisionOf(pod) != p.update })
}

// others are the pods that do not run the live template.
func (p daemonSetView) others() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(p.pods), func(pod *corev1.Pod) bool { return !counts(pod) || revisionOf(pod) == p.live })
}

// due are the pods to be deleted now, so that as many as is told get the live
// template. Never are more pods not ready than the owner allows to be missing; the
// next ones are due when those that came are ready. One that is not ready costs
// nothing.
func (p daemonSetView) due(to planner.Target) []*corev1.Pod {
	if !p.settled() || p.live == "" || to.Abort && p.live != p.stable {
		return nil
	}
	share := to.Limit(p.size())
	if to.Abort {
		share = p.size() - share
	}
	others := p.others()
	slices.SortFunc(others, p.sooner)
	need, may := share-p.coming(), unavailable(p.set)-max(p.size()-p.available(), 0)
	var due []*corev1.Pod
	for _, pod := range others {
		switch {
		case int32(len(due)) >= need: //nolint:gosec // of the number of nodes
			return due
		case !isReady(pod):
			due = append(due, pod)
		case may > 0:
			may--
			due = append(due, pod)
		}
	}
	return due
}

// coming is how many nodes have a pod of the live template, or none and will get
// one. Where the node of the old pod is lost nothing comes.
func (p daemonSetView) coming() int32 {
	var live, others, stuck int32
	for _, pod := range p.pods {
		switch {
		case counts(pod) && revisionOf(pod) == p.live:
			live++
		case counts(pod):
			others++
		case unreachable(pod):
			stuck++
		}
	}
	return live + max(p.size()-live-others-stuck, 0)
}

// available is how many pods serve. For how long they have is known to the native
// controller.
func (p daemonSetView) available() int32 {
	var n int32
	for _, pod := range p.pods {
		if isReady(pod) {
			n++
		}
	}
	if p.set.Spec.MinReadySeconds > 0 {
		n = min(n, p.set.Status.NumberAvailable)
	}
	return n
}

// sooner says which pod goes first: one that is not ready, then one of a release
// that was superseded, then the one that its user, or else its age, makes cheaper.
func (p daemonSetView) sooner(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(order(a), order(b)),
		cmp.Compare(superseded(b, p.stable), superseded(a, p.stable)),
		cmp.Compare(cost(a), cost(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// order has those last that would only be on their way out for as long as their
// node is lost.
func order(pod *corev1.Pod) int {
	switch {
	case isReady(pod):
		return 1
	case unreachable(pod):
		return 2
	default:
		return 0
	}
}

func superseded(pod *corev1.Pod, stable string) int {
	if revisionOf(pod) != stable {
		return 1
	}
	return 0
}

func cost(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[corev1.PodDeletionCost])
	if err != nil {
		return 0
	}
	return n
}

// unreachable reports whether a pod was declared not ready though its containers are, as far
// as its kubelet has said: that does not answer.
func unreachable(pod *corev1.Pod) bool {
	ready, containers := condition(pod, corev1.PodReady), condition(pod, corev1.ContainersReady)
	return ready != nil && ready.Status != corev1.ConditionTrue && containers != nil && containers.Status == corev1.ConditionTrue
}
