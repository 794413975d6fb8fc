// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/doctor"
)

// WebhookName is the name of the MutatingWebhookConfiguration through which weir-apiserver holds workloads.
const WebhookName = "weir-workloads"

// policyKinds are the kinds of the policies. A cluster that serves the first kind serves all of them.
var policyKinds = []schema.GroupVersionKind{
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
}

// installations caches the manifests of this version by the namespace of Weir.
var installations sync.Map

// installation has the manifests of an installation of this version.
type installation struct {
	all doctor.Installation
	// policies are the policies that hold workloads. Each pass compares them with the cluster.
	policies []policy
}

// readInstallation returns the manifests of an installation of this version.
func (d AdmissionStatus) readInstallation() (*installation, error) {
	namespace := cmp.Or(d.Namespace, doctor.DefaultNamespace)
	if known, ok := installations.Load(namespace); ok {
		return known.(*installation), nil
	}
	all, err := doctor.ReadInstallation(artifacts.Files, doctor.OneProcess, namespace)
	if err != nil {
		return nil, err
	}
	s := &installation{all: all}
	for _, kind := range policyKinds {
		for _, want := range all.HoldingPolicies(kind.Kind) {
			s.policies = append(s.policies, policy{kind, want})
		}
	}
	installations.Store(namespace, s)
	return s, nil
}

// policy is an object of one of policyKinds, as this version installs it.
type policy struct {
	kind schema.GroupVersionKind
	want *unstructured.Unstructured
}

// AdmissionStatus finds out which parts of admission are installed. Its Reader is a cache of the webhook
// configuration and the policies.
type AdmissionStatus struct {
	client.Reader
	// HasPolicies reports whether the cluster serves the kinds of policies.
	HasPolicies bool
	// Comparisons has the results of earlier comparisons with the manifests; nil to compare every time.
	Comparisons *ComparisonCache
	// Namespace is the namespace of Weir.
	Namespace string
}

// ServesPolicies reports whether the cluster serves the kinds of policies.
func ServesPolicies(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(policyKinds[0].GroupKind(), policyKinds[0].Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// WatchedObjects returns empty objects of the kinds to watch.
func (d AdmissionStatus) WatchedObjects() []client.Object {
	return append([]client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}}, d.PolicyObjects()...)
}

// PolicyObjects returns empty objects of the kinds of policies that the cluster serves.
func (d AdmissionStatus) PolicyObjects() []client.Object {
	var all []client.Object
	for _, kind := range policyKinds {
		if d.HasPolicies {
			all = append(all, newUnstructured(kind))
		}
	}
	return all
}

func newUnstructured(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// WatchAdmission enqueues every Rollout when a webhook configuration or policy changes. Scenario: the
// webhook configuration gets its certificate.
func WatchAdmission(s client.Reader, c cache.Cache, o client.Object) source.Source {
	return source.Kind(c, o, EnqueueMapped(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requestsFor(listCached(ctx, s, NewRolloutList()))
	}))
}

// MissingPart returns the reason why admission does not hold a workload; empty if it does, or if the
// resource does not exist. The parameter unlisted is the reason why rollouts-index lacks the
// workload, so that no policy holds it; empty if the index has the workload.
func (d AdmissionStatus) MissingPart(ctx context.Context, namespace string, resource schema.GroupResource, unlisted string) (string, error) {
	if why := rollouts.Unheld(namespace, d.Namespace); why != "" {
		return why, nil
	}
	w, err := get(ctx, d, "", WebhookName, &admissionregistrationv1.MutatingWebhookConfiguration{}, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil:
		return "", err
	case w == nil || len(w.Webhooks) == 0:
		return "the MutatingWebhookConfiguration " + WebhookName + " does not exist; apply the manifests of Weir again", nil
	case resource.Empty():
		return "", nil
	}
	return d.missingPartFor(ctx, w, resource, unlisted)
}

// missingPartFor returns what MissingPart returns, for an existing webhook configuration.
func (d AdmissionStatus) missingPartFor(ctx context.Context, w *admissionregistrationv1.MutatingWebhookConfiguration, resource schema.GroupResource, unlisted string) (string, error) {
	i := slices.IndexFunc(w.Webhooks, isCalledFor(resource.Group, resource.Resource, admissionregistrationv1.Update))
	switch {
	case i < 0:
		return fmt.Sprintf("no webhook of the MutatingWebhookConfiguration %s is asked about updates of %s, so that a release begins before it is held; add a rule for them", WebhookName, resource), nil
	case len(w.Webhooks[i].ClientConfig.CABundle) == 0:
		return "the MutatingWebhookConfiguration " + WebhookName + " has no caBundle, so that kube-apiserver cannot ask weir-apiserver", nil
	}
	if less, err := d.Comparisons.Get(w, "weakened for "+resource.String(), func() (string, error) { return d.weakenedWebhook(w, resource) }); less != "" || err != nil {
		return less, err
	}
	if p := w.Webhooks[i].FailurePolicy; p == nil || *p == admissionregistrationv1.Fail {
		return "", nil // an update that cannot be held is refused
	}
	if resource.Group != policyGroup {
		return fmt.Sprintf("the webhook %s ignores failures, and no policy is beside it; set its failurePolicy to Fail", w.Webhooks[i].Name), nil
	}
	return d.missingFromPolicies(ctx, unlisted)
}

// missingFromPolicies returns the reason why the policies do not hold a workload; empty if they do. The
// parameter unlisted is the reason why the workload is not in the index.
func (d AdmissionStatus) missingFromPolicies(ctx context.Context, unlisted string) (string, error) {
	missing, err := d.missingPolicy(ctx)
	if missing == "" && err == nil && unlisted != "" {
		missing = "the policies do not know the workload, and the webhook ignores failures: " + unlisted
	}
	return missing, err
}

// policyGroup is the API group of the kinds that the policies hold.
const policyGroup = "apps"

// isCalledFor returns a function that reports whether kube-apiserver calls a webhook for an operation on a
// resource, in any version of the resource.
func isCalledFor(group, resource string, operation admissionregistrationv1.OperationType) func(admissionregistrationv1.MutatingWebhook) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return func(w admissionregistrationv1.MutatingWebhook) bool {
		return slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			operations := slices.Contains(r.Operations, operation) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
			return operations && has(r.APIGroups, group) && has(r.Resources, resource)
		})
	}
}

// weakenedWebhook returns the first part of the webhooks for a resource that is not as this version installs
// it; empty if there is none. Scenario: somebody has upgraded the programs without the manifests. It does
// not compare the rules and selectors that administrators may change; the doctor command does.
func (d AdmissionStatus) weakenedWebhook(w *admissionregistrationv1.MutatingWebhookConfiguration, resource schema.GroupResource) (string, error) {
	shipped, err := d.readInstallation()
	if err != nil {
		return "", err
	}
	configurations, err := shipped.all.Webhooks()
	if err != nil {
		return "", err
	}
	const again = "; apply the manifests of Weir again"
	for _, want := range configurations[0].Webhooks {
		i := slices.IndexFunc(w.Webhooks, func(have admissionregistrationv1.MutatingWebhook) bool { return have.Name == want.Name })
		for _, name := range []string{resource.Resource, resource.Resource + "/status"} {
			for _, operation := range []admissionregistrationv1.OperationType{admissionregistrationv1.Update, admissionregistrationv1.Create} {
				is := isCalledFor(resource.Group, name, operation)
				if !is(want) {
					continue
				}
				if i < 0 || !is(w.Webhooks[i]) {
					return fmt.Sprintf("the webhook %s of the MutatingWebhookConfiguration %s is not asked about %s of %s.%s, so that records on workloads can be forged%s",
						want.Name, WebhookName, operation, name, resource.Group, again), nil
				}
				if !slices.Equal(doctor.NormalizedConditions(want), doctor.NormalizedConditions(w.Webhooks[i])) {
					return fmt.Sprintf("the matchConditions of the webhook %s of the MutatingWebhookConfiguration %s are not as installed%s", want.Name, WebhookName, again), nil
				}
			}
		}
	}
	return "", nil
}

// missingPolicy returns the first policy that is missing or changed; empty if there is none. The policies
// matter when the webhook ignores failures.
func (d AdmissionStatus) missingPolicy(ctx context.Context) (string, error) {
	if !d.HasPolicies {
		return "the cluster serves no policies of " + policyKinds[0].GroupVersion().String() +
			", and the webhook ignores failures; leave the component policies out, so that its failurePolicy is Fail", nil
	}
	shipped, err := d.readInstallation()
	if err != nil {
		return "", err
	}
	for _, p := range shipped.policies {
		if less, err := d.policyDrift(ctx, p); less != "" || err != nil {
			return less, err
		}
	}
	return "", nil
}

// policyDrift returns how a policy differs from the one that this version installs; empty if it does not.
func (d AdmissionStatus) policyDrift(ctx context.Context, p policy) (string, error) {
	name := p.want.GetName()
	found, err := get(ctx, d, "", name, newUnstructured(p.kind), client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", err
	}
	if found == nil {
		return fmt.Sprintf("the %s %s does not exist, and the webhook ignores failures; apply the manifests of Weir again", p.kind.Kind, name), nil
	}
	field, err := d.Comparisons.Get(found, p.kind.Kind, func() (string, error) { return doctor.Drift(p.want, found), nil })
	if field == "" || err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of the %s %s is not as installed, and the webhook ignores failures; apply the manifests of Weir again", field, p.kind.Kind, name), nil
}
