// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The objects by which kube-apiserver holds workloads.
const (
	WebhookName = "weir-workloads"
	HoldName    = "weir-hold"
	KeepName    = "weir-keep"
)

// policyNames are those of all kinds.
var policyNames = []string{
	HoldName, KeepName,
	HoldName + "-statefulsets", KeepName + "-statefulsets",
	HoldName + "-daemonsets", KeepName + "-daemonsets",
}

// policyKinds are the kinds of the policies; both are there, or neither is.
var policyKinds = []schema.GroupVersionKind{
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"),
}

// Doors reads what of admission is installed, from a cache of those objects.
type Doors struct {
	client.Reader
	// Policies tells that the cluster serves them.
	Policies bool
}

// ServesPolicies asks the cluster.
func ServesPolicies(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(policyKinds[0].GroupKind(), policyKinds[0].Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Objects are empty objects of the kinds to watch.
func (d Doors) Objects() []client.Object {
	all := []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}}
	if d.Policies {
		for _, kind := range policyKinds {
			all = append(all, metadataOf(kind))
		}
	}
	return all
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// WatchDoor wakes every Rollout when one of those objects comes, goes or gets its
// certificate.
func (s Server) WatchDoor(c cache.Cache, o client.Object) source.Source {
	return source.Kind(c, o, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var all v1beta1.RolloutList
		if err := s.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache answers; it fails only when it is shut down
		}
		var out []reconcile.Request
		for i := range all.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
		return out
	}))
}

// Missing says which part of admission is not there for workloads of a resource;
// empty if all is, or if there is no such resource.
func (d Doors) Missing(ctx context.Context, resource schema.GroupResource) (string, error) {
	w, err := get(ctx, d, "", WebhookName, &admissionregistrationv1.MutatingWebhookConfiguration{}, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil:
		return "", err
	case w == nil || len(w.Webhooks) == 0:
		return "the MutatingWebhookConfiguration " + WebhookName + " does not exist; apply the manifests of Weir again", nil
	case resource.Empty():
		return "", nil
	}
	i := slices.IndexFunc(w.Webhooks, asked(resource))
	switch {
	case i < 0:
		return fmt.Sprintf("no webhook of the MutatingWebhookConfiguration %s is asked about updates of %s, so that a release begins before it is held; add a rule for them", WebhookName, resource), nil
	case len(w.Webhooks[i].ClientConfig.CABundle) == 0:
		return "the MutatingWebhookConfiguration " + WebhookName + " has no caBundle, so that kube-apiserver cannot ask weir-apiserver", nil
	}
	if p := w.Webhooks[i].FailurePolicy; p == nil || *p == admissionregistrationv1.Fail {
		return "", nil // an update that cannot be held is refused
	}
	if resource.Group != native {
		return fmt.Sprintf("the webhook %s ignores failures, and no policy is beside it; set its failurePolicy to Fail", w.Webhooks[i].Name), nil
	}
	return d.missingPolicy(ctx)
}

// native is the group of the kinds that the policies hold.
const native = "apps"

// asked tells that kube-apiserver asks a webhook about updates of a resource, in
// whatever version they are written.
func asked(resource schema.GroupResource) func(admissionregistrationv1.MutatingWebhook) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return func(w admissionregistrationv1.MutatingWebhook) bool {
		return slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			operations := slices.Contains(r.Operations, admissionregistrationv1.Update) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
			return operations && has(r.APIGroups, resource.Group) && has(r.Resources, resource.Resource)
		})
	}
}

// missingPolicy is asked where the webhook alone does not do.
func (d Doors) missingPolicy(ctx context.Context) (string, error) {
	if !d.Policies {
		return "the cluster serves no policies of " + policyKinds[0].GroupVersion().String() +
			", and the webhook ignores failures; leave the component policies out, so that its failurePolicy is Fail", nil
	}
	for _, kind := range policyKinds {
		for _, name := range policyNames {
			p, err := get(ctx, d, "", name, metadataOf(kind), client.UnsafeDisableDeepCopy)
			if err != nil {
				return "", err
			}
			if p == nil {
				return fmt.Sprintf("the %s %s does not exist, and the webhook ignores failures; apply the manifests of Weir again", kind.Kind, name), nil
			}
		}
	}
	return "", nil
}
