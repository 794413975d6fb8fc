// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
)

// Status is what a check came to.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Problem Status = "problem"
	// Unknown means that something could not be looked at.
	Unknown Status = "unknown"
)

// Finding is what a check has to say.
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
	// Judge says what is wrong, or one finding that all is well.
	Judge func(Facts) []Finding
}

// Checks is the table, in the order in which causes come before consequences.
var Checks = []Check{
	{Name: "cluster", About: "kube-apiserver answers, and is not too old", Needs: []Part{PartCluster}, Judge: cluster},
	{Name: "front-proxy", About: "kube-apiserver says how weir-apiserver recognises it", Needs: []Part{PartFrontProxy, PartCluster}, Judge: frontProxy},
	{Name: "access", About: "both service accounts may do all that the manifests say", Needs: []Part{PartAccess}, Judge: access},
	{Name: "other-definitions", About: "no CustomResourceDefinition of the same group is left", Needs: []Part{PartDefinitions, PartAPIServices}, Judge: definitions},
	{Name: "other-manager", About: "OpenKruise Rollouts does not run beside Weir", Needs: []Part{PartOthers}, Judge: others},
	{Name: "api", About: "kube-apiserver reaches weir-apiserver", Needs: []Part{PartAPIServices}, Judge: apiServices},
	{Name: "certificates", About: "each caBundle is set, and verifies what is served", Needs: []Part{PartAPIServices, PartWebhooks, PartCertificates, PartCluster}, Judge: certificates},
	{Name: "webhook", About: "the webhook that holds workloads is as it was installed", Needs: []Part{PartWebhooks, PartPolicies}, Judge: webhooks},
	{Name: "policies", About: "the policies that hold workloads are there, where the cluster has such", Needs: []Part{PartPolicies}, Judge: policies},
	{Name: "storage", About: "Rollouts can be read from etcd", Needs: []Part{PartRead}, Judge: storage},
	{Name: "lost", About: "nothing is stored in a namespace that does not exist", Needs: []Part{PartLost}, Judge: lost},
	{Name: "etcd", About: "members answer, have room and raise no alarm; for --data-dir or --etcd-servers", Needs: []Part{PartEtcd}, Judge: etcd},
	{Name: "leader", About: "a weir-controller leads", Needs: []Part{PartLease, PartCluster}, Judge: leader},
}

// Chosen are the checks of these names, or all if there are none.
func Chosen(names []string) ([]Check, error) {
	if len(names) == 0 {
		return Checks, nil
	}
	var chosen []Check
	for _, c := range Checks {
		if slices.Contains(names, c.Name) {
			chosen = append(chosen, c)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(Checks, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("there is no check %q", name)
		}
	}
	return chosen, nil
}

// Parts are what the checks need to be observed.
func Parts(checks []Check) []Part {
	var parts []Part
	for _, c := range checks {
		for _, p := range c.Needs {
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// Judge runs the checks.
func Judge(checks []Check, f Facts) []Result {
	var results []Result
	for _, c := range checks {
		for _, finding := range c.judge(f) {
			results = append(results, Result{Check: c.Name, Finding: finding})
		}
	}
	return results
}

func (c Check) judge(f Facts) []Finding {
	for _, part := range c.Needs {
		if err := f.Unread[part]; err != nil {
			return []Finding{{Unknown, fmt.Sprintf("%s could not be read: %v", part, err),
				"use a --kubeconfig of a cluster administrator, on a machine that reaches the cluster"}}
		}
	}
	return c.Judge(f)
}

// fine is the only finding of a check that found nothing wrong.
func fine(format string, args ...any) []Finding {
	return []Finding{{Status: OK, What: fmt.Sprintf(format, args...)}}
}

// wrong is a finding to be mended.
func wrong(fix, format string, args ...any) Finding {
	return Finding{Problem, fmt.Sprintf(format, args...), fix}
}

// or is what was found, or that all is well.
func or(found, well []Finding) []Finding {
	if len(found) > 0 {
		return found
	}
	return well
}
