// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// updatedInPlace is the readiness gate of pods that support in-place updates.
const updatedInPlace corev1.PodConditionType = "InPlaceUpdateReady"

// reconcileRevisions finds the revisions, and creates one for a new template.
func (r *cloneSets) reconcileRevisions(ctx context.Context, s *cloneSet) error {
	var list appsv1.ControllerRevisionList
	if err := r.List(ctx, &list, client.InNamespace(s.object.GetNamespace())); err != nil {
		return fmt.Errorf("listing revisions: %w", err)
	}
	all := slices.DeleteFunc(list.Items, func(c appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&c, s.object) })
	slices.SortFunc(all, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	name, data, err := revisionOf(s)
	if err != nil {
		return err
	}
	next := int64(1)
	if len(all) > 0 {
		next = all[len(all)-1].Revision + 1
	}
	current, _, _ := unstructured.NestedString(s.object.Object, "status", "currentRevision") // empty before the first status
	for i := range all {
		if all[i].Name == name {
			s.update = &all[i]
		}
		if all[i].Name == current {
			s.current = &all[i]
		}
	}
	switch {
	case s.update == nil:
		s.update = &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.object.GetNamespace(), Name: name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.object, s.object.GroupVersionKind())},
			},
			Revision: next, Data: runtime.RawExtension{Raw: data},
		}
		// As in OpenKruise and Kubernetes, a selector of the pods also selects their revisions.
		s.update.Labels = labels.Merge(s.spec.Template.Labels, labels.Set{appsv1.ControllerRevisionHashLabelKey: s.revisionLabel(s.update)})
		if err := r.Create(ctx, s.update); err != nil {
			return fmt.Errorf("creating a revision: %w", err)
		}
	case s.update.Revision != next-1:
		s.update.Revision = next
		if err := r.Update(ctx, s.update); err != nil {
			return fmt.Errorf("renewing a revision: %w", err)
		}
	}
	if s.current == nil {
		s.current = s.update
	}
	return r.truncateHistory(ctx, s, all)
}

// truncateHistory deletes the oldest unused revisions beyond the limit.
func (r *cloneSets) truncateHistory(ctx context.Context, s *cloneSet, all []appsv1.ControllerRevision) error {
	pods, err := r.podsOf(ctx, s.object)
	if err != nil {
		return err
	}
	live := map[string]bool{s.revisionLabel(s.current): true, s.revisionLabel(s.update): true}
	for i := range pods {
		live[pods[i].Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	idle := slices.DeleteFunc(slices.Clone(all), func(c appsv1.ControllerRevision) bool { return live[s.revisionLabel(&c)] })
	limit := 10
	if s.spec.RevisionHistoryLimit != nil {
		limit = int(*s.spec.RevisionHistoryLimit)
	}
	for i := range max(len(idle)-limit, 0) {
		if err := r.Delete(ctx, &idle[i]); err != nil {
			return fmt.Errorf("deleting a revision: %w", err)
		}
	}
	return nil
}

// revisionOf returns the name and the data of the live template's revision. The template is decoded
// into its Go type, so that equal templates with different JSON are equal.
func revisionOf(s *cloneSet) (name string, data []byte, err error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s.spec.Template)
	if err != nil {
		return "", nil, fmt.Errorf("reading the template: %w", err)
	}
	template["$patch"] = "replace"
	data, err = json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	h := fnv.New32a()
	_, _ = h.Write(data) // writing to a hash does not fail
	return fmt.Sprintf("%s-%x", s.object.GetName(), h.Sum32()), data, err
}

func templateOf(c *appsv1.ControllerRevision) corev1.PodTemplateSpec {
	var kept struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(c.Data.Raw, &kept); err != nil {
		panic(err) // this package has encoded it
	}
	return kept.Spec.Template
}

func (s *cloneSet) newPod(revision *appsv1.ControllerRevision) *corev1.Pod {
	template := templateOf(revision)
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	p.Namespace, p.GenerateName = s.object.GetNamespace(), s.object.GetName()+"-"
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.object, s.object.GroupVersionKind())}
	p.Labels = s.podLabels(p.Labels, revision)
	p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: updatedInPlace})
	return p
}

// podLabels adds the revision labels: the short hash for Services, and the full name where
// OpenKruise uses it.
func (s *cloneSet) podLabels(labels map[string]string, revision *appsv1.ControllerRevision) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.ControllerRevisionHashLabelKey] = s.revisionLabel(revision)
	if s.object.GetKind() != DaemonSetKind.Kind {
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = shortRevision(revision.Name)
	}
	return labels
}

// revisionLabel is the revision label of pods: in a DaemonSet only the hash of the revision.
func (s *cloneSet) revisionLabel(revision *appsv1.ControllerRevision) string {
	if s.object.GetKind() == DaemonSetKind.Kind {
		return shortRevision(revision.Name)
	}
	return revision.Name
}

func shortRevision(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// updatePod updates a pod in place if only images differ, and otherwise marks it for replacement.
func (r *cloneSets) updatePod(ctx context.Context, s *cloneSet, p *corev1.Pod) error {
	base := p.DeepCopy()
	kind := s.spec.UpdateStrategy.Type
	if strings.HasPrefix(kind, "InPlace") {
		if images, ok := r.onlyImages(ctx, s, p); ok {
			return r.updateInPlace(ctx, s, p, images)
		}
		if kind == "InPlaceOnly" {
			return errors.New("the pod cannot be updated in place")
		}
	}
	p.Labels = maps.Clone(p.Labels)
	p.Labels[replaceKey] = "true"
	return r.Patch(ctx, p, client.MergeFrom(base))
}

// onlyImages returns the images of the live template, and whether nothing else has changed.
func (r *cloneSets) onlyImages(ctx context.Context, s *cloneSet, p *corev1.Pod) (map[string]string, bool) {
	var had appsv1.ControllerRevision
	key := client.ObjectKey{Namespace: p.Namespace, Name: s.object.GetName() + "-" + shortRevision(p.Labels[appsv1.ControllerRevisionHashLabelKey])}
	if err := r.Get(ctx, key, &had); err != nil {
		return nil, false
	}
	was, is := templateOf(&had), templateOf(s.update)
	images := map[string]string{}
	for i := range is.Spec.Containers {
		images[is.Spec.Containers[i].Name] = is.Spec.Containers[i].Image
		if i < len(was.Spec.Containers) {
			was.Spec.Containers[i].Image = is.Spec.Containers[i].Image
		}
	}
	return images, equality.Semantic.DeepEqual(was, is)
}

// updateInPlace makes the pod unready and sets its images.
func (r *cloneSets) updateInPlace(ctx context.Context, s *cloneSet, p *corev1.Pod, images map[string]string) error {
	base := p.DeepCopy()
	setConditions(p, corev1.ConditionFalse, metav1.Time{Time: s.now}, corev1.PodReady, updatedInPlace)
	if err := r.Status().Patch(ctx, p, client.MergeFrom(base)); err != nil {
		return err
	}
	base = p.DeepCopy()
	p.Labels = s.podLabels(p.Labels, s.update)
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = images[p.Spec.Containers[i].Name]
	}
	return r.Patch(ctx, p, client.MergeFrom(base))
}

// refresh does what the kubelet does when images change, and reports whether it did. Images with
// tags that kwok treats as missing never start.
func (r *cloneSets) refresh(ctx context.Context, s *cloneSet) (bool, error) {
	for i := range s.pods {
		p := &s.pods[i]
		base, changed, runs := p.DeepCopy(), false, p.Status.Phase == corev1.PodRunning
		for j := range p.Status.ContainerStatuses {
			c := &p.Status.ContainerStatuses[j]
			want := imageOf(p, c.Name)
			missing := strings.HasSuffix(want, ":failed") || strings.HasSuffix(want, ":not-exists")
			switch {
			case !runs || c.Image == want && c.Ready:
			case missing && c.Ready:
				c.Ready, c.Image, changed = false, want, true
				setConditions(p, corev1.ConditionFalse, metav1.Time{Time: s.now}, corev1.PodReady, corev1.ContainersReady)
				c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}
			case !missing:
				c.Ready, c.Image, c.ImageID, changed = true, want, want, true
				c.RestartCount++
				c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: s.now}}}
				setConditions(p, corev1.ConditionTrue, metav1.Time{Time: s.now}, corev1.PodReady, corev1.ContainersReady, updatedInPlace)
			}
		}
		if changed {
			return true, r.Status().Patch(ctx, p, client.MergeFrom(base))
		}
	}
	return false, nil
}

func imageOf(p *corev1.Pod, container string) string {
	for _, c := range p.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// setConditions sets existing conditions of a pod.
func setConditions(p *corev1.Pod, status corev1.ConditionStatus, at metav1.Time, which ...corev1.PodConditionType) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; slices.Contains(which, c.Type) && c.Status != status {
			c.Status, c.LastTransitionTime = status, at
		}
	}
}

// updateStatus writes the status if it has changed.
func (r *cloneSets) updateStatus(ctx context.Context, s *cloneSet) error {
	var total, readies, available, updated, updatedReady int64
	for i := range s.pods {
		p := &s.pods[i]
		total++
		if ready(p) != nil {
			readies++
		}
		if s.available(p) {
			available++
		}
		if s.updated(p) {
			updated++
		}
		if s.updated(p) && ready(p) != nil {
			updatedReady++
		}
	}
	complete := updated == total && (s.object.GetKind() != StatefulSetKind.Kind || readies == total && total == int64(s.replicas()))
	if complete {
		s.current = s.update
	}
	status := map[string]any{
		"observedGeneration": s.object.GetGeneration(), "replicas": total, "readyReplicas": readies, "availableReplicas": available,
		"updatedReplicas": updated, "updatedReadyReplicas": updatedReady, "expectedUpdatedReplicas": int64(s.replicas() - s.partition()),
		"currentRevision": s.current.Name, "updateRevision": s.update.Name,
	}
	if stored, _, _ := unstructured.NestedMap(s.object.Object, "status"); equality.Semantic.DeepEqual(stored, status) { // empty before the first revision
		return nil
	}
	s.object.Object["status"] = status
	return r.Status().Update(ctx, s.object)
}
