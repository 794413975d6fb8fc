// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

func checkAccess(f Facts) (found findings, well string) {
	missing := map[string][]string{}
	for _, a := range f.Access {
		if !a.Allowed {
			key := a.Account + "\x00" + a.Grant
			missing[key] = append(missing[key], a.Action)
		}
	}
	for _, key := range sortedKeys(missing) {
		account, grant, _ := strings.Cut(key, "\x00")
		found.addProblem(applyAgain+", which restores "+grant, "%s may not: %s", account, strings.Join(missing[key], ", "))
	}
	return found, fmt.Sprintf("service accounts may do all %d things that they need", len(f.Access))
}

// webhookFields are the fields of a webhook that must equal the manifest. With other values, the webhook holds too
// few or too many workloads.
var webhookFields = []struct {
	name string
	of   func(admissionv1.MutatingWebhook) any
}{
	{"rules", func(w admissionv1.MutatingWebhook) any { return w.Rules }},
	{"matchConditions", func(w admissionv1.MutatingWebhook) any { return NormalizedConditions(w) }},
	{"matchPolicy", func(w admissionv1.MutatingWebhook) any { return w.MatchPolicy }},
	{"objectSelector", func(w admissionv1.MutatingWebhook) any { return selectorOrEmpty(w.ObjectSelector) }},
	{"namespaceSelector", func(w admissionv1.MutatingWebhook) any { return selectorOrEmpty(w.NamespaceSelector) }},
	{"reinvocationPolicy", func(w admissionv1.MutatingWebhook) any { return w.ReinvocationPolicy }},
	{"timeoutSeconds", func(w admissionv1.MutatingWebhook) any { return w.TimeoutSeconds }},
}

// selectorOrEmpty converts a selector to the form that kube-apiserver stores: nil becomes the empty selector.
func selectorOrEmpty(s *metav1.LabelSelector) metav1.LabelSelector {
	if s == nil {
		return metav1.LabelSelector{}
	}
	return *s
}

// NormalizedConditions returns the match conditions with normalized white space, because kustomize wraps lines.
func NormalizedConditions(w admissionv1.MutatingWebhook) []string {
	var all []string
	for _, c := range w.MatchConditions {
		all = append(all, c.Name+": "+normalizeSpace(c.Expression))
	}
	return all
}

func checkWebhooks(f Facts) (found findings, well string) {
	wanted, err := f.Wanted.Webhooks()
	if err != nil {
		found.addProblem("reinstall weir; this build is damaged", "%v", err)
	}
	for _, want := range wanted {
		have, ok := f.Webhooks[want.Name]
		if !ok {
			found.addProblem(applyAgain, "the MutatingWebhookConfiguration %s does not exist: template changes are released at once", want.Name)
			continue
		}
		for _, w := range want.Webhooks {
			found = append(found, findWebhookProblems(f, want.Name, w, have.Webhooks)...)
		}
	}
	found = append(found, findWebhookReach(f)...)
	return found, "workloads are held by the webhook" + map[bool]string{true: " and by policies"}[policiesHold(f)]
}

func findWebhookProblems(f Facts, configuration string, want admissionv1.MutatingWebhook, all []admissionv1.MutatingWebhook) (found findings) {
	i := slices.IndexFunc(all, func(have admissionv1.MutatingWebhook) bool { return have.Name == want.Name })
	if i < 0 {
		found.addProblem(applyAgain, "the MutatingWebhookConfiguration %s has no webhook %s", configuration, want.Name)
		return found
	}
	have := all[i]
	if differ := differingFields(want, have); len(differ) > 0 {
		found.addProblem(applyAgain, "of the MutatingWebhookConfiguration %s these are not as installed: %s", configuration, strings.Join(differ, ", "))
	}
	if ignoresFailures(have) && !ignoresFailures(want) && !policiesHold(f) {
		found.addProblem(applyAgain+", or install the policies", "while weir-apiserver is down, template changes are released at once: failurePolicy is Ignore, and no policies hold")
	}
	return found
}

// differingFields returns the names of the fields of a webhook that differ from the manifest.
func differingFields(want, have admissionv1.MutatingWebhook) []string {
	var names []string
	for _, field := range webhookFields {
		if !equality.Semantic.DeepEqual(field.of(want), field.of(have)) {
			names = append(names, field.name)
		}
	}
	return names
}

func ignoresFailures(w admissionv1.MutatingWebhook) bool {
	return w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore
}

// policyKinds are the kinds of admission policies and of their bindings.
var policyKinds = []string{
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// policyFiles are the manifests of all policies.
const policyFiles = "-f artifacts/policies/policies.yaml -f artifacts/policies/statefulsets.yaml -f artifacts/policies/daemonsets.yaml " +
	"-f artifacts/policies/records.yaml -f artifacts/policies/fit.yaml"

// policiesHold reports whether the policies hold workloads while the webhook is unavailable.
func policiesHold(f Facts) bool {
	wanted := f.Wanted.HoldingPolicies(policyKinds...)
	return f.PoliciesServed && len(wanted) > 0 && len(findPolicyProblems(f, wanted, consequenceNotHeld)) == 0
}

// consequenceNotHeld is the consequence of a missing policy that holds workloads, as a part of a message.
const consequenceNotHeld = "updates are not held while weir-apiserver is down"

// findPolicyProblems describes each wanted policy that is missing or differs from the installed
// manifests. The text without is the consequence of a missing policy.
func findPolicyProblems(f Facts, wanted Installation, without string) []string {
	var found []string
	for _, want := range wanted {
		name := want.GetKind() + " " + want.GetName()
		have := f.Policies[name]
		if have == nil {
			found = append(found, "there is no "+name+": without it "+without)
		} else if field := Drift(want, have); field != "" {
			found = append(found, name+" is not as installed: "+field)
		}
	}
	return found
}

func checkPolicies(f Facts) (found findings, well string) {
	wanted := f.Wanted.HoldingPolicies(policyKinds...)
	switch {
	case len(wanted) == 0:
		return nil, "this version has none; the webhook holds"
	case !f.PoliciesServed:
		return nil, "the cluster does not serve them in v1, which Kubernetes does from 1.36; the webhook holds"
	}
	for _, what := range findPolicyProblems(f, wanted, consequenceNotHeld) {
		found.addProblem("kubectl apply "+policyFiles, "%s", what)
	}
	return found, fmt.Sprintf("%d policies and bindings hold without Weir", len(wanted))
}

// checkGuards checks that the policies that limit Weir's accounts are installed. Every Kubernetes
// version that Weir supports serves ValidatingAdmissionPolicies.
func checkGuards(f Facts) (found findings, well string) {
	wanted := f.Wanted.Guards()
	for _, what := range findPolicyProblems(f, wanted, "a stolen token of a Weir service account can write more than Weir ever writes") {
		found.addProblem("kubectl apply -f artifacts/base/guards.yaml", "%s", what)
	}
	return found, fmt.Sprintf("%d policies and bindings limit what Weir's accounts may write", len(wanted))
}

// checkUnheldNamespaces finds Rollouts in namespaces where no workload is held. An import or an older version
// of Weir can have stored them.
func checkUnheldNamespaces(f Facts) (found findings, well string) {
	for _, namespace := range sortedKeys(f.Unheld) {
		found.addProblem("kubectl -n "+namespace+" delete rollouts.rollouts.kruise.io --all",
			"%d Rollouts do not protect their workloads: %s", f.Unheld[namespace], rollouts.Unheld(namespace, f.Wanted.Namespace()))
	}
	return found, "no Rollout is in a namespace where workloads are never held"
}
