// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
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

// findReferences returns the workload, the Services, the Ingresses and HTTPRoutes, and what the checks of a Rollout
// need.
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
	if release.Analysis == nil {
		return found
	}
	for i := range release.Analysis.Checks {
		check, path := &release.Analysis.Checks[i], spec.Child("strategy", style.Key(), "analysis", "checks").Index(i)
		switch {
		case check.Use != nil:
			add(path.Child("use", "name"), weir.SchemeGroupVersion.String(), check.Use.Kind, check.Use.Name)
		case check.Query != nil:
			add(path.Child("query", "source"), weir.SchemeGroupVersion.String(), kindMetricSource, cmp.Or(check.Query.Source, defaultSource))
		case check.SuccessRate != nil, check.Latency != nil, check.AsGoodAs != "":
			add(path, weir.SchemeGroupVersion.String(), kindMetricSource, defaultSource)
		}
	}
	return found
}

const (
	kindMetricSource = "MetricSource"
	// defaultSource is the MetricSource of checks that name none.
	defaultSource = "default"
)

// storedFinder also looks up the kinds that this server stores.
type storedFinder struct {
	// Finder looks up objects in the cluster; nil if there is no cluster.
	Finder
	// stores are the storages of this server, by kind.
	stores map[string]rest.Getter
}

// Exists implements Finder.
func (f storedFinder) Exists(ctx context.Context, namespace string, ref rollouts.ObjectRef) (bool, error) {
	store, ok := f.stores[ref.Kind]
	switch {
	case ok && strings.HasPrefix(ref.APIVersion, weir.GroupName+"/"):
		_, err := store.Get(ctx, ref.Name, &metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	case f.Finder == nil:
		return false, errNoCluster
	default:
		return f.Finder.Exists(ctx, namespace, ref)
	}
}

var errNoCluster = errors.New("the server has no cluster")

// missingText describes a reference to an object that does not exist, and what to do.
func missingText(ref rollouts.ObjectRef, namespace string) string {
	const waits = "; the check cannot run, so each step waits for it: "
	switch ref.Kind {
	case kindMetricSource:
		return fmt.Sprintf("there is no MetricSource %q yet%sask a cluster administrator to create it", ref.Name, waits)
	case "ClusterCheck":
		return fmt.Sprintf("there is no ClusterCheck %q yet%sask a cluster administrator to create it", ref.Name, waits)
	case "Check":
		return fmt.Sprintf("there is no Check %q in namespace %q yet%screate it", ref.Name, namespace, waits)
	default:
		return fmt.Sprintf("there is no %s %q in namespace %q yet", ref.Kind, ref.Name, namespace)
	}
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
			warning.AddWarning(ctx, "", pathInVersion(ctx, ref.path)+": "+missingText(ref.object, r.Namespace))
		}
	}
}
