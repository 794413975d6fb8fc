// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

// findTimeout limits how long the warnings may delay a response. All objects are looked up in parallel.
const findTimeout = time.Second

// Finder looks up objects in the cluster.
type Finder interface {
	// Exists reports whether the object exists. If it returns an error, the existence is unknown.
	Exists(ctx context.Context, namespace string, ref rollouts.ObjectRef) (bool, error)
}

// reference is an object that a Rollout references, and the path of the field with the reference.
type reference struct {
	path   string
	object rollouts.ObjectRef
}

// findReferences returns the workload, the Services, and the Ingresses and HTTPRoutes of a Rollout.
func findReferences(r *rollouts.Rollout) []reference {
	spec := field.NewPath("spec")
	var found []reference
	add := func(path *field.Path, apiVersion, kind, name string) {
		if name != "" {
			found = append(found, reference{path.String(), rollouts.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: name}})
		}
	}
	if ref := r.Spec.WorkloadRef; ref != nil {
		add(spec.Child("workloadRef", "name"), ref.APIVersion, ref.Kind, ref.Name)
	}
	style, release := r.Spec.Strategy.Active()
	if release == nil {
		return found
	}
	for i := range release.TrafficRoutings {
		routing, path := &release.TrafficRoutings[i], spec.Child("strategy", style.Key(), "trafficRoutings").Index(i)
		add(path.Child("service"), "v1", "Service", routing.Service)
		if routing.Ingress != nil {
			add(path.Child("ingress", "name"), "networking.k8s.io/v1", "Ingress", routing.Ingress.Name)
		}
		if routing.Gateway != nil && routing.Gateway.HTTPRouteName != nil {
			add(path.Child("gateway", "httpRouteName"), "gateway.networking.k8s.io/v1", "HTTPRoute", *routing.Gateway.HTTPRouteName)
		}
	}
	return found
}

// pathInVersion converts a path to the API version of the request.
func pathInVersion(ctx context.Context, path string) string {
	if rest, ok := strings.CutPrefix(path, "spec.workloadRef"); ok && requestVersion(ctx) == v1alpha1.SchemeGroupVersion.Version {
		return "spec.objectRef.workloadRef" + rest
	}
	return path
}

// referenceWarner warns about references to objects that do not exist. They are never an error, because the
// objects may be created in any order.
type referenceWarner struct {
	finder Finder
	// known are the references of the stored Rollout. The user was warned about them earlier.
	known []reference
}

func (f *referenceWarner) rememberStored(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
	f.known = findReferences(old.(*rollouts.Rollout))
	return obj, nil
}

// warnMissing looks up the references that the stored Rollout did not have before. It runs after the write, so
// that only the response waits for it.
func (f *referenceWarner) warnMissing(ctx context.Context, stored runtime.Object) {
	r, ok := stored.(*rollouts.Rollout)
	if !ok || f.finder == nil || r.DeletionTimestamp != nil {
		return
	}
	named := slices.DeleteFunc(findReferences(r), func(ref reference) bool { return slices.Contains(f.known, ref) })
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	missing := make([]bool, len(named))
	var wg sync.WaitGroup
	for i, ref := range named {
		wg.Go(func() {
			exists, err := f.finder.Exists(ctx, r.Namespace, ref.object)
			missing[i] = err == nil && !exists
		})
	}
	wg.Wait()
	for i, ref := range named {
		if missing[i] {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: there is no %s %q in namespace %q yet", pathInVersion(ctx, ref.path), ref.object.Kind, ref.object.Name, r.Namespace))
		}
	}
}
