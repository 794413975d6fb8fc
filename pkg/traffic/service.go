// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// Pin makes the stable Service select one revision.
func Pin(objs Objects, revision string) ([]object.Change, error) {
	if objs.Shared {
		return nil, nil
	}
	if err := selectable(objs, revision); err != nil {
		return nil, fmt.Errorf("pinning service: %w", err)
	}
	want := objs.Service.DeepCopy()
	want.Spec.Selector[objs.RevisionKey] = revision
	return change(objs.Service, want), nil
}

// Unpin makes the stable Service select every revision again. The rest of its
// selector stays.
func Unpin(objs Objects) []object.Change {
	if objs.pinned() == "" {
		return nil
	}
	want := objs.Service.DeepCopy()
	delete(want.Spec.Selector, objs.RevisionKey)
	return change(objs.Service, want)
}

// CanaryService makes a Service like the stable one that selects a revision. Where
// it exists, only its selector, its owner and one label change.
func CanaryService(objs Objects, revision string) ([]object.Change, error) {
	if objs.Shared {
		return nil, nil
	}
	if err := selectable(objs, revision); err != nil {
		return nil, fmt.Errorf("making canary service: %w", err)
	}
	if objs.CanaryService == nil {
		return []object.Change{{Want: newCanaryService(objs, revision)}}, nil
	}
	if !objs.made(objs.CanaryService) {
		return nil, fmt.Errorf("making canary service: %s", rollouts.Taken("service", objs.CanaryService))
	}
	if terminating(objs.CanaryService) {
		return nil, fmt.Errorf("making canary service: %s", rollouts.Lingers("service", objs.CanaryService))
	}
	want := objs.CanaryService.DeepCopy()
	want.Spec.Selector = selecting(objs, revision)
	want.OwnerReferences = objs.owned(want.OwnerReferences)
	return change(objs.CanaryService, want), nil
}

// RemoveCanaryService deletes the canary Service.
func RemoveCanaryService(objs Objects) []object.Change {
	if objs.CanaryService == nil || !objs.made(objs.CanaryService) || terminating(objs.CanaryService) {
		return nil
	}
	return []object.Change{{Base: objs.CanaryService}}
}

// selectable returns why no Service can select a revision by the stable selector.
func selectable(objs Objects, revision string) error {
	switch {
	case objs.Service == nil:
		return fmt.Errorf("service %s does not exist; create it, or correct the name of the Service in trafficRoutings", objs.Stable.Name)
	case len(objs.Service.Spec.Selector) == 0:
		return fmt.Errorf("service %s has no selector; it must select the pods of the workload", objs.Service.Name)
	case revision == "":
		return fmt.Errorf("service %s: the revision is not known yet", objs.Service.Name)
	}
	if why := objs.barred(); why != "" {
		return errors.New(why)
	}
	return nil
}

func selecting(objs Objects, revision string) map[string]string {
	selector := maps.Clone(objs.Service.Spec.Selector)
	for key := range selector {
		if value, ok := objs.PodLabels[key]; ok {
			selector[key] = value
		}
	}
	selector[objs.RevisionKey] = revision
	return selector
}

// newCanaryService copies the stable Service without what only one Service can
// have: addresses and ports of nodes.
func newCanaryService(objs Objects, revision string) *corev1.Service {
	spec := *objs.Service.Spec.DeepCopy()
	spec.Selector = selecting(objs, revision)
	spec.ClusterIP, spec.ClusterIPs, spec.ExternalIPs = "", nil, nil
	spec.IPFamilies, spec.IPFamilyPolicy = nil, nil
	spec.LoadBalancerIP, spec.HealthCheckNodePort = "", 0
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		// Routers reach it inside; a second load balancer would only cost.
		spec.Type = corev1.ServiceTypeClusterIP
	}
	spec.AllocateLoadBalancerNodePorts, spec.LoadBalancerClass, spec.LoadBalancerSourceRanges = nil, nil, nil
	if spec.Type != corev1.ServiceTypeNodePort {
		// Without addresses outside it would be refused.
		spec.ExternalTrafficPolicy = ""
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objs.canaryMeta(objs.Service),
		Spec:       spec,
	}
}

// copied returns labels or annotations without those that belong to their object alone:
// the records are about a release, and whoever owns the object may have written them.
func copied(m map[string]string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(key, _ string) bool { return key == corev1.LastAppliedConfigAnnotation || rollouts.IsRecord(key) })
	return m
}
