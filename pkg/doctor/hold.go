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

func access(f Facts) (found findings, well string) {
	missing := map[string][]string{}
	for _, a := range f.Access {
		if !a.Allowed {
			key := a.Account + "\x00" + a.Grant
			missing[key] = append(missing[key], a.Action)
		}
	}
	for _, key := range sorted(missing) {
		account, grant, _ := strings.Cut(key, "\x00")
		found.problem(again+", which restores "+grant, "%s may not: %s", account, strings.Join(missing[key], ", "))
	}
	return found, fmt.Sprintf("service accounts may do all %d things that they need", len(f.Access))
}

// fields of a webhook must be as installed: with others, workloads are not held, or
// workloads are held that no Rollout names.
var fields = []struct {
	name string
	of   func(admissionv1.MutatingWebhook) any
}{
	{"rules", func(w admissionv1.MutatingWebhook) any { return w.Rules }},
	{"matchConditions", func(w admissionv1.MutatingWebhook) any { return Conditions(w) }},
	{"matchPolicy", func(w admissionv1.MutatingWebhook) any { return w.MatchPolicy }},
	{"objectSelector", func(w admissionv1.MutatingWebhook) any { return selecting(w.ObjectSelector) }},
	{"namespaceSelector", func(w admissionv1.MutatingWebhook) any { return selecting(w.NamespaceSelector) }},
	{"reinvocationPolicy", func(w admissionv1.MutatingWebhook) any { return w.ReinvocationPolicy }},
	{"timeoutSeconds", func(w admissionv1.MutatingWebhook) any { return w.TimeoutSeconds }},
}

// selecting is a selector as kube-apiserver stores it: none selects everything.
func selecting(s *metav1.LabelSelector) metav1.LabelSelector {
	if s == nil {
		return metav1.LabelSelector{}
	}
	return *s
}

// Conditions are the match conditions by their words: kustomize breaks lines of
// its own.
func Conditions(w admissionv1.MutatingWebhook) []string {
	var all []string
	for _, c := range w.MatchConditions {
		all = append(all, c.Name+": "+words(c.Expression))
	}
	return all
}

func webhooks(f Facts) (found findings, well string) {
	wanted, err := f.Wanted.Webhooks()
	if err != nil {
		found.problem("use a program that was built well", "%v", err)
	}
	for _, want := range wanted {
		have, ok := f.Webhooks[want.Name]
		if !ok {
			found.problem(again, "the MutatingWebhookConfiguration %s does not exist: template changes are released at once", want.Name)
			continue
		}
		for _, w := range want.Webhooks {
			found = append(found, webhookProblems(f, want.Name, w, have.Webhooks)...)
		}
	}
	return found, "workloads are held by the webhook" + map[bool]string{true: " and by policies"}[holding(f)]
}

func webhookProblems(f Facts, configuration string, want admissionv1.MutatingWebhook, all []admissionv1.MutatingWebhook) (found findings) {
	i := slices.IndexFunc(all, func(have admissionv1.MutatingWebhook) bool { return have.Name == want.Name })
	if i < 0 {
		found.problem(again, "the MutatingWebhookConfiguration %s has no webhook %s", configuration, want.Name)
		return found
	}
	have := all[i]
	if differ := differing(want, have); len(differ) > 0 {
		found.problem(again, "of the MutatingWebhookConfiguration %s these are not as installed: %s", configuration, strings.Join(differ, ", "))
	}
	if ignores(have) && !ignores(want) && !holding(f) {
		found.problem(again+", or install the policies", "while weir-apiserver is down, template changes are released at once: failurePolicy is Ignore, and no policies hold")
	}
	return found
}

// differing names the fields of a webhook that are not as installed.
func differing(want, have admissionv1.MutatingWebhook) []string {
	var names []string
	for _, field := range fields {
		if !equality.Semantic.DeepEqual(field.of(want), field.of(have)) {
			names = append(names, field.name)
		}
	}
	return names
}

func ignores(w admissionv1.MutatingWebhook) bool {
	return w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore
}

// policyKinds are the kinds of policies and their bindings.
var policyKinds = []string{
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// policyFiles are the manifests of all of them.
const policyFiles = "-f artifacts/policies/policies.yaml -f artifacts/policies/statefulsets.yaml -f artifacts/policies/daemonsets.yaml " +
	"-f artifacts/policies/records.yaml -f artifacts/policies/fit.yaml"

// holding reports whether policies hold without the webhook.
func holding(f Facts) bool {
	wanted := f.Wanted.HoldingPolicies(policyKinds...)
	return f.PoliciesServed && len(wanted) > 0 && len(policiesWrong(f, wanted, notHeld)) == 0
}

// notHeld is the consequence of a missing policy that holds workloads, as a part of a message.
const notHeld = "updates are not held while weir-apiserver is down"

// policiesWrong describes each wanted policy that is missing or differs from the installed
// manifests. The text without is the consequence of a missing policy.
func policiesWrong(f Facts, wanted Installation, without string) []string {
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

func policies(f Facts) (found findings, well string) {
	wanted := f.Wanted.HoldingPolicies(policyKinds...)
	switch {
	case len(wanted) == 0:
		return nil, "this version has none; the webhook holds"
	case !f.PoliciesServed:
		return nil, "the cluster does not serve them in v1, which Kubernetes does from 1.36; the webhook holds"
	}
	for _, what := range policiesWrong(f, wanted, notHeld) {
		found.problem("kubectl apply "+policyFiles, "%s", what)
	}
	return found, fmt.Sprintf("%d policies and bindings hold without Weir", len(wanted))
}

// guards checks that the policies that limit Weir's accounts are installed. Every Kubernetes
// version that Weir supports serves ValidatingAdmissionPolicies.
func guards(f Facts) (found findings, well string) {
	wanted := f.Wanted.Guards()
	for _, what := range policiesWrong(f, wanted, "a stolen token of a Weir service account can write more than Weir ever writes") {
		found.problem("kubectl apply -f artifacts/base/guards.yaml", "%s", what)
	}
	return found, fmt.Sprintf("%d policies and bindings limit what Weir's accounts may write", len(wanted))
}

// unheld finds Rollouts in namespaces where no workload is held. An import or an older version
// of Weir can have stored them.
func unheld(f Facts) (found findings, well string) {
	for _, namespace := range sorted(f.Unheld) {
		found.problem("kubectl -n "+namespace+" delete rollouts.rollouts.kruise.io --all",
			"%d Rollouts do not protect their workloads: %s", f.Unheld[namespace], rollouts.Unheld(namespace, f.Wanted.Namespace()))
	}
	return found, "no Rollout is in a namespace where workloads are never held"
}
