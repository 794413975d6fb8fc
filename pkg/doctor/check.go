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
	// What is there, or is wrong.
	What string `json:"what"`
	// Fix is what to do about it; empty if nothing.
	Fix string `json:"fix,omitempty"`
}

// Result is a finding and the check that it is of.
type Result struct {
	Check   string `json:"check"`
	Finding `json:",inline"`
}

// Check is one thing that is looked at.
type Check struct {
	Name string
	// About is for the help: what is checked.
	About string
	// Needs are the parts that have to be observed.
	Needs []Part
	// judge returns what is wrong, and what to say if nothing is.
	judge func(Facts) (found findings, well string)
}

// Checks is the table, in the order in which causes come before consequences.
var Checks = []Check{
	{Name: "cluster", About: "kube-apiserver answers, and is not too old", Needs: []Part{PartCluster}, judge: cluster},
	{Name: "front-proxy", About: "kube-apiserver says how weir-apiserver recognises it", Needs: []Part{PartFrontProxy, PartCluster}, judge: frontProxy},
	{Name: "access", About: "service accounts may do all that the manifests say", Needs: []Part{PartAccess}, judge: access},
	{Name: "other-definitions", About: "no CustomResourceDefinition of the same groups is left", Needs: []Part{PartDefinitions, PartAPIServices}, judge: definitions},
	{Name: "other-manager", About: "OpenKruise Rollouts does not run beside Weir", Needs: []Part{PartOthers}, judge: others},
	{Name: "api", About: "kube-apiserver reaches weir-apiserver", Needs: []Part{PartAPIServices}, judge: apiServices},
	{Name: "certificates", About: "each caBundle is set, and verifies what is served", Needs: []Part{PartAPIServices, PartWebhooks, PartCertificates, PartCluster}, judge: certificates},
	{Name: "webhook", About: "the webhook that holds workloads is as it was installed", Needs: []Part{PartWebhooks, PartPolicies}, judge: webhooks},
	{Name: "policies", About: "the policies that hold workloads are there, where the cluster has such", Needs: []Part{PartPolicies}, judge: policies},
	{Name: "guards", About: "the weir-guard-* policies that limit what Weir's service accounts may write are installed", Needs: []Part{PartPolicies}, judge: guards},
	{Name: "unheld", About: "no Rollout is in kube-system or Weir's namespace, where workloads are never held", Needs: []Part{PartLost}, judge: unheld},
	{Name: "storage", About: "Rollouts can be read from etcd", Needs: []Part{PartRead}, judge: storage},
	{Name: "lost", About: "nothing is stored in a namespace that does not exist", Needs: []Part{PartLost}, judge: lost},
	{Name: "held", About: "each held workload has its Rollout", Needs: []Part{PartHeld}, judge: heldWorkloads},
	{Name: "etcd", About: "members answer, have room and raise no alarm; for --data-dir or --etcd-servers", Needs: []Part{PartEtcd}, judge: etcd},
	{Name: "leader", About: "a controller leads", Needs: []Part{PartLease, PartCluster}, judge: leader},
}

// Chosen are the checks of these names, or all if there are none.
func Chosen(names []string) ([]Check, error) {
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

// Parts are what the checks need to be observed.
func Parts(checks []Check) sets.Set[Part] {
	parts := sets.New[Part]()
	for _, c := range checks {
		parts.Insert(c.Needs...)
	}
	return parts
}

// Judge runs the checks.
func Judge(checks []Check, f Facts) []Result {
	var results []Result
	for _, c := range checks {
		for _, finding := range c.findings(f) {
			results = append(results, Result{Check: c.Name, Finding: finding})
		}
	}
	return results
}

func (c Check) findings(f Facts) []Finding {
	for _, part := range c.Needs {
		if err := f.Unread[part]; err != nil {
			return []Finding{{Unknown, fmt.Sprintf("%s could not be read: %v", part, err),
				"use a --kubeconfig of a cluster administrator, on a machine that reaches the cluster"}}
		}
	}
	found, well := c.judge(f)
	for i := range found {
		found[i].Fix = strings.ReplaceAll(found[i].Fix, "kubectl -n "+ours+" ", "kubectl -n "+f.Wanted.Namespace()+" ")
	}
	if len(found) == 0 {
		return []Finding{{Status: OK, What: well}}
	}
	return found
}

// findings are what one check found.
type findings []Finding

// problem adds one that has a fix.
func (f *findings) problem(fix, format string, args ...any) {
	*f = append(*f, Finding{Problem, fmt.Sprintf(format, args...), fix})
}
