// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Status is the outcome of a check.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Problem Status = "problem"
	// Unknown means that something could not be read.
	Unknown Status = "unknown"
)

// Finding is one statement of a check.
type Finding struct {
	Status Status `json:"status"`
	// What describes the state or the problem.
	What string `json:"what"`
	// Fix tells the user what to do; empty if nothing needs to be done.
	Fix string `json:"fix,omitempty"`
}

// Result is a finding together with the name of its check.
type Result struct {
	Check   string `json:"check"`
	Finding `json:",inline"`
}

// Check is one check of an installation.
type Check struct {
	Name string
	// About describes the check in the help.
	About string
	// Needs are the parts of the facts that the check uses.
	Needs []Part
	// judge returns the problems, and a text for the case that there are none.
	judge func(Facts) (found findings, well string)
}

// Checks lists all checks, in an order in which causes come before consequences.
var Checks = []Check{
	{Name: "cluster", About: "kube-apiserver answers, and is not too old", Needs: []Part{PartCluster}, judge: checkVersion},
	{Name: "front-proxy", About: "kube-apiserver says how weir-apiserver recognises it", Needs: []Part{PartFrontProxy, PartCluster}, judge: checkFrontProxy},
	{Name: "access", About: "service accounts may do all that the manifests say", Needs: []Part{PartAccess}, judge: checkAccess},
	{Name: "other-definitions", About: "no CustomResourceDefinition of the same groups is left", Needs: []Part{PartDefinitions, PartAPIServices}, judge: checkDefinitions},
	{Name: "other-manager", About: "OpenKruise Rollouts does not run beside Weir", Needs: []Part{PartOthers}, judge: checkOtherManagers},
	{Name: "volumes", About: "each PersistentVolumeClaim of Weir has a volume", Needs: []Part{PartVolumes}, judge: checkVolumes},
	{Name: "api", About: "kube-apiserver reaches weir-apiserver", Needs: []Part{PartAPIServices, PartServer, PartCluster}, judge: checkAPIServices},
	{Name: "certificates", About: "each caBundle is set, and verifies what is served", Needs: []Part{PartAPIServices, PartWebhooks, PartCertificates, PartCluster}, judge: checkCertificates},
	{Name: "webhook", About: "the webhook that holds workloads is as it was installed, and kube-apiserver reaches it", Needs: []Part{PartWebhooks, PartPolicies, PartServer, PartCluster}, judge: checkWebhooks},
	{Name: "policies", About: "the policies that hold workloads are there, where the cluster has such", Needs: []Part{PartPolicies}, judge: checkPolicies},
	{Name: "guards", About: "the weir-guard-* policies that limit what Weir's service accounts may write are installed", Needs: []Part{PartPolicies}, judge: checkGuards},
	{Name: "unheld", About: "no Rollout is in kube-system or Weir's namespace, where workloads are never held", Needs: []Part{PartLost}, judge: checkUnheldNamespaces},
	{Name: "storage", About: "Rollouts can be read from etcd", Needs: []Part{PartRead}, judge: checkStorage},
	{Name: "lost", About: "nothing is stored in a namespace that does not exist", Needs: []Part{PartLost}, judge: checkLostNamespaces},
	{Name: "held", About: "each held workload has its Rollout", Needs: []Part{PartHeld}, judge: checkHeldWorkloads},
	{Name: "etcd", About: "members answer, have room and raise no alarm; for --data-dir or --etcd-servers", Needs: []Part{PartEtcd}, judge: checkEtcd},
	{Name: "leader", About: "a controller leads", Needs: []Part{PartLease, PartCluster}, judge: checkLeader},
}

// SelectChecks returns the checks with these names, or all checks if there are no names.
func SelectChecks(names []string) ([]Check, error) {
	if len(names) == 0 {
		return Checks, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(Checks, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("there is no check %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(Checks), func(c Check) bool { return !slices.Contains(names, c.Name) }), nil
}

// NeededParts returns the parts of the facts that the checks need.
func NeededParts(checks []Check) sets.Set[Part] {
	parts := sets.New[Part]()
	for _, c := range checks {
		parts.Insert(c.Needs...)
	}
	return parts
}

// RunChecks runs the checks.
func RunChecks(checks []Check, f Facts) []Result {
	var results []Result
	for _, c := range checks {
		for _, finding := range c.run(f) {
			results = append(results, Result{Check: c.Name, Finding: finding})
		}
	}
	return results
}

func (c Check) run(f Facts) []Finding {
	for _, part := range c.Needs {
		if err := f.Unread[part]; err != nil {
			return []Finding{{Unknown, fmt.Sprintf("%s could not be read: %v", part, err),
				"use a --kubeconfig of a cluster administrator, on a machine that reaches the cluster"}}
		}
	}
	found, well := c.judge(f)
	for i := range found {
		found[i].Fix = strings.ReplaceAll(found[i].Fix, "kubectl -n "+namespacePlaceholder+" ", "kubectl -n "+f.Wanted.Namespace()+" ")
	}
	if len(found) == 0 {
		return []Finding{{Status: OK, What: well}}
	}
	return found
}

// findings are the findings of one check.
type findings []Finding

// addProblem adds a problem and its fix.
func (f *findings) addProblem(fix, format string, args ...any) {
	*f = append(*f, Finding{Problem, fmt.Sprintf(format, args...), fix})
}
