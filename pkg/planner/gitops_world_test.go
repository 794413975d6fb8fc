// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/object"
)

// A GitOps tool applies manifests at short intervals, and removes fields that are not in the
// manifests.

// gitops applies an object, lets all controllers run until nothing is written, and repeats this
// after an interval. Only the interval advances the clock.
func (s *story) gitops(c command) {
	every := s.duration(c.get("every", "1s"))
	for range s.number(c.get("times", "20")) {
		s.w.now = s.w.now.Add(every)
		s.w.runAs("gitops", func() error { return s.w.store.update(s.inGit(c.words[1], c.has("kept"))) })
		for before := -1; before != s.w.store.newest(); {
			before = s.w.store.newest()
			s.w.round()
		}
	}
}

// inGit returns an object with the spec of its owner's manifest. It may keep the annotations of
// other actors.
func (s *story) inGit(path string, kept bool) object.Object {
	k, name, _ := strings.Cut(path, "/")
	o := clone(s.w.store.objects[key{kind(k), name}])
	switch is := o.(type) {
	case *corev1.Service:
		delete(is.Spec.Selector, hashKey)
		is.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "argocd-controller", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:selector":{}}}`),
		}}
	case *unstructured.Unstructured:
		if !kept {
			is.SetAnnotations(nil)
		}
		is.Object["spec"] = inPlaceRouters[kind(k)].spec(name)
	}
	return o
}

// strip removes the owner references of an object, or replaces them.
func (s *story) strip(c command) {
	k, name, _ := strings.Cut(c.words[1], "/")
	next := clone(s.w.store.objects[key{kind(k), name}])
	next.SetOwnerReferences(nil)
	if to := c.get("to", ""); to != "" {
		next.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "rollouts.kruise.io/v1beta1", Kind: "Rollout", Name: to, UID: "uid-of-other", Controller: new(true),
		}})
	}
	s.w.runAs("user", func() error { return s.w.store.update(next) })
}
