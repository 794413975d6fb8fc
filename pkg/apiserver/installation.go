// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// installation is Weir as it is in a cluster.
type installation struct {
	client dynamic.Interface
	out    io.Writer
}

func newInstallation(config *restclient.Config, out io.Writer) (*installation, error) {
	config = restclient.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &installation{client: client, out: out}, nil
}

// of is a resource of our group.
func (i *installation) of(resource string) dynamic.NamespaceableResourceInterface {
	version := "v1beta1"
	if resource == "trafficroutings" {
		version = "v1alpha1"
	}
	return i.client.Resource(rollouts.Resource(resource).WithVersion(version))
}

// live are the Rollouts with a release under way that nobody has aborted.
func (i *installation) live(ctx context.Context) ([]*unstructured.Unstructured, error) {
	list, err := i.of("rollouts").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the Rollouts: %w", err)
	}
	var live []*unstructured.Unstructured
	for j := range list.Items {
		r := &list.Items[j]
		phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
		if phase == string(rollouts.PhaseProgressing) && !aborted(r) {
			live = append(live, r)
		}
	}
	return live, nil
}

func aborted(r *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(r.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == string(rollouts.ConditionProgressing) &&
			(fields["reason"] == string(rollouts.ActivityAborting) || fields["reason"] == string(rollouts.ActivityAborted))
	})
}

// abort gives the verb.
func (i *installation) abort(ctx context.Context, r *unstructured.Unstructured) error {
	options := &unstructured.Unstructured{Object: map[string]any{"reason": "Weir is being uninstalled"}}
	options.SetGroupVersionKind(schema.GroupVersionKind{Group: rollouts.GroupName, Version: "v1beta1", Kind: "AbortOptions"})
	options.SetName(r.GetName())
	_, err := i.of("rollouts").Namespace(r.GetNamespace()).Create(ctx, options, metav1.CreateOptions{}, string(rollouts.VerbAbort))
	if err != nil {
		return fmt.Errorf("aborting the release of %s: %w", nameOf(r), err)
	}
	return nil
}

// clear deletes all objects of a resource and waits until they are gone, each
// when what it holds was given back.
func (i *installation) clear(ctx context.Context, resource string) error {
	list, err := i.of(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the %s: %w", resource, err)
	}
	for j := range list.Items {
		o := &list.Items[j]
		uid := o.GetUID()
		err := i.of(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s %s: %w", resource, nameOf(o), err)
		}
	}
	if err := i.gone(ctx, resource); err != nil {
		return err
	}
	fmt.Fprintf(i.out, "deleted %d %s\n", len(list.Items), resource)
	return nil
}

// gone waits until there is no object of a resource.
func (i *installation) gone(ctx context.Context, resource string) error {
	all := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return i.of(resource).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return i.of(resource).Watch(ctx, o)
		},
	}
	var store cache.Store
	empty := func() bool { return len(store.List()) == 0 }
	_, err := watchtools.UntilWithSync(ctx, all, &unstructured.Unstructured{},
		func(s cache.Store) (bool, error) { store = s; return empty(), nil },
		func(watch.Event) (bool, error) { return empty(), nil })
	if err != nil && ctx.Err() != nil && store != nil {
		var names []string
		for _, o := range store.List() {
			if o, ok := o.(*unstructured.Unstructured); ok {
				names = append(names, nameOf(o))
			}
		}
		return left(resource, names)
	}
	return err
}

// held names the workloads that are still taken from their native controllers.
func (i *installation) held(ctx context.Context) ([]string, error) {
	var held []string
	for _, kind := range workloadKinds() {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		list, err := i.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // not every cluster has every kind
		}
		if err != nil {
			return nil, fmt.Errorf("reading the %s: %w", resource.Resource, err)
		}
		for j := range list.Items {
			marks := list.Items[j].GetAnnotations()
			if marks[rollouts.AnnotationInProgress] != "" || marks[rollouts.AnnotationControlInfo] != "" {
				held = append(held, kind.Kind+" "+nameOf(&list.Items[j]))
			}
		}
	}
	return held, nil
}

// workloadKinds are those of the table, each once.
func workloadKinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, row := range workload.Table {
		if !slices.Contains(all, row.GVK) {
			all = append(all, row.GVK)
		}
	}
	return all
}

// hooks are what kube-apiserver asks before a workload changes, in the order in
// which it goes. Policies are not served by every cluster.
var hooks = []schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
}

// unhook takes Weir out of the way of kube-apiserver. The APIServices are last:
// until then the API can still be asked what is left; and they go before the
// server does, since kube-apiserver deletes no namespace while one does not answer.
func (i *installation) unhook(ctx context.Context) error {
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=weir"}
	for _, hook := range hooks {
		list, err := i.client.Resource(hook).List(ctx, ours)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the %s: %w", hook.Resource, err)
		}
		for j := range list.Items {
			if err := i.remove(ctx, hook, list.Items[j].GetName()); err != nil {
				return err
			}
		}
	}
	if err := i.nothingNew(ctx); err != nil {
		return err
	}
	for _, version := range apiVersions {
		if err := i.remove(ctx, apiServices, version+"."+rollouts.GroupName); err != nil {
			return err
		}
	}
	return nil
}

func (i *installation) remove(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	if err := i.client.Resource(resource).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", resource.Resource, name, err)
	}
	fmt.Fprintf(i.out, "deleted %s %s\n", resource.Resource, name)
	return nil
}

// nothingNew wants no Rollout to have come meanwhile, as GitOps tools do.
func (i *installation) nothingNew(ctx context.Context) error {
	list, err := i.of("rollouts").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the Rollouts: %w", err)
	}
	if len(list.Items) > 0 {
		return errors.New("somebody makes Rollouts again, such as " + nameOf(&list.Items[0]) + "; stop that first, and run this again")
	}
	return nil
}

func nameOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func names(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, nameOf(o))
	}
	return all
}
