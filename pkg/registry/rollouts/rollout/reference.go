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

// findTimeout bounds what a warning may cost; all objects are asked for at once.
const findTimeout = time.Second

// Finder looks objects up in the cluster.
type Finder interface {
	// Exists reports whether the namespace has the object. With an error, nothing is known.
	Exists(ctx context.Context, namespace string, ref rollouts.ObjectRef) (bool, error)
}

// reference is an object that a Rollout names, and the field that names it.
type reference struct {
	path   string
	object rollouts.ObjectRef
}

// references are the workload, and the Service and what routes to it.
func references(r *rollouts.Rollout) []reference {
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

// pathInVersion is a path in the version of the request.
func pathInVersion(ctx context.Context, path string) string {
	if rest, ok := strings.CutPrefix(path, "spec.workloadRef"); ok && versionOf(ctx) == v1alpha1.SchemeGroupVersion.Version {
		return "spec.objectRef.workloadRef" + rest
	}
	return path
}

// referral is one request that may name objects which are not there yet. That is
// worth a warning, and never an error: they may be created in any order.
type referral struct {
	finder Finder
	// before is what the stored Rollout names. It was warned about already.
	before []reference
}

func (f *referral) remember(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
	f.before = references(old.(*rollouts.Rollout))
	return obj, nil
}

// warn looks up what the stored Rollout names and did not name before. It runs after
// the write, so that only the answer waits for it.
func (f *referral) warn(ctx context.Context, stored runtime.Object) {
	r, ok := stored.(*rollouts.Rollout)
	if !ok || f.finder == nil || r.DeletionTimestamp != nil {
		return
	}
	named := slices.DeleteFunc(references(r), func(ref reference) bool { return slices.Contains(f.before, ref) })
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
