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

// PinStableService makes the stable Service select one revision.
func PinStableService(objs Objects, revision string) ([]object.Change, error) {
	if objs.Shared {
		return nil, nil
	}
	if err := checkSelectable(objs, revision); err != nil {
		return nil, fmt.Errorf("pinning service: %w", err)
	}
	want := objs.Service.DeepCopy()
	want.Spec.Selector[objs.RevisionKey] = revision
	return diffObjects(objs.Service, want), nil
}

// UnpinStableService makes the stable Service select every revision again. The rest of its selector
// is kept.
func UnpinStableService(objs Objects) []object.Change {
	if objs.pinnedRevision() == "" {
		return nil
	}
	want := objs.Service.DeepCopy()
	delete(want.Spec.Selector, objs.RevisionKey)
	return diffObjects(objs.Service, want)
}

// EnsureCanaryService creates a copy of the stable Service that selects a revision. If the copy
// exists, it updates only its selector and its owner reference.
func EnsureCanaryService(objs Objects, revision string) ([]object.Change, error) {
	if objs.Shared {
		return nil, nil
	}
	if err := checkSelectable(objs, revision); err != nil {
		return nil, fmt.Errorf("making canary service: %w", err)
	}
	if objs.CanaryService == nil {
		return []object.Change{{Want: newCanaryService(objs, revision)}}, nil
	}
	if !objs.createdForOwner(objs.CanaryService) {
		return nil, fmt.Errorf("making canary service: %s", rollouts.Taken("service", objs.CanaryService))
	}
	if isTerminating(objs.CanaryService) {
		return nil, fmt.Errorf("making canary service: %s", rollouts.Lingers("service", objs.CanaryService))
	}
	want := objs.CanaryService.DeepCopy()
	want.Spec.Selector = revisionSelector(objs, revision)
	want.OwnerReferences = objs.withOwner(want.OwnerReferences)
	return diffObjects(objs.CanaryService, want), nil
}

// RemoveCanaryService deletes the canary Service.
func RemoveCanaryService(objs Objects) []object.Change {
	if objs.CanaryService == nil || !objs.createdForOwner(objs.CanaryService) || isTerminating(objs.CanaryService) {
		return nil
	}
	return []object.Change{{Base: objs.CanaryService}}
}

// checkSelectable returns why no Service can select a revision with the selector of the stable
// Service.
func checkSelectable(objs Objects, revision string) error {
	switch {
	case objs.Service == nil:
		return fmt.Errorf("service %s does not exist; create it, or correct the name of the Service in trafficRoutings", objs.ServiceName.Name)
	case len(objs.Service.Spec.Selector) == 0:
		return fmt.Errorf("service %s has no selector; it must select the pods of the workload", objs.Service.Name)
	case revision == "":
		return fmt.Errorf("service %s: the revision is not known yet", objs.Service.Name)
	}
	if why := objs.blockedReason(); why != "" {
		return errors.New(why)
	}
	return nil
}

func revisionSelector(objs Objects, revision string) map[string]string {
	selector := maps.Clone(objs.Service.Spec.Selector)
	for key := range selector {
		if value, ok := objs.CanaryPodLabels[key]; ok {
			selector[key] = value
		}
	}
	selector[objs.RevisionKey] = revision
	return selector
}

// newCanaryService copies the stable Service without the fields that must be unique, such as
// addresses and node ports.
func newCanaryService(objs Objects, revision string) *corev1.Service {
	spec := *objs.Service.Spec.DeepCopy()
	spec.Selector = revisionSelector(objs, revision)
	spec.ClusterIP, spec.ClusterIPs, spec.ExternalIPs = "", nil, nil
	spec.IPFamilies, spec.IPFamilyPolicy = nil, nil
	spec.LoadBalancerIP, spec.HealthCheckNodePort = "", 0
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		// Routers use the cluster IP. A second load balancer would only add cost.
		spec.Type = corev1.ServiceTypeClusterIP
	}
	spec.AllocateLoadBalancerNodePorts, spec.LoadBalancerClass, spec.LoadBalancerSourceRanges = nil, nil, nil
	if spec.Type != corev1.ServiceTypeNodePort {
		// kube-apiserver rejects this field for a Service without external addresses.
		spec.ExternalTrafficPolicy = ""
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objs.canaryObjectMeta(objs.Service),
		Spec:       spec,
	}
}

// copyableMetadata returns labels or annotations without those that must not be copied to another
// object: Weir's records describe a release, and the owner of the object may have written them.
func copyableMetadata(m map[string]string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(key, _ string) bool { return key == corev1.LastAppliedConfigAnnotation || rollouts.IsRecord(key) })
	return m
}
