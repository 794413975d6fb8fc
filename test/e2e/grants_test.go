// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/test/cluster"
)

var printGrants = flag.Bool("e2e.grants", false, "print the permissions of Weir that no request of this run has used")

// grantedWithoutRequest are permissions that no request in the audit log uses, and why they are
// granted. The admission plugin OwnerReferencesPermissionEnforcement, which these clusters enable,
// checks them inside of kube-apiserver. Without them, it refuses to create objects that block the
// deletion of their owner.
var grantedWithoutRequest = map[string]string{
	"weir-controller: update rollouts/finalizers.rollouts.kruise.io":        "a canary Service or Ingress of a Rollout",
	"weir-controller: update trafficroutings/finalizers.rollouts.kruise.io": "a canary Ingress of a TrafficRouting",
	"weir-controller: update batchreleases/finalizers.rollouts.kruise.io":   "the extra Deployment of a canary release",
	"weir-controller: update deployments/finalizers.apps":                   "a ReplicaSet",
}

// requestedWithoutGrant are requests that are denied on purpose, and why.
var requestedWithoutGrant = map[string]string{
	"weir-controller: list splits.e2e.example.com":        "TestScriptForCustomKind grants it after the Rollout has reported it as missing",
	"weir-controller: list statefulsets.apps.example.com": "TestKruise grants it after the Rollout has reported it as missing",
}

// grantAudit collects the permissions that Weir's processes have, and those that they used, in all
// clusters of this run.
type grantAudit struct {
	dirs     []string
	granted  map[grant]bool
	bindings map[string]bool
	asked    cluster.Audit
}

// grant is a permission that a role gives. The single process has two roles, whose permissions may
// overlap.
type grant struct {
	role string
	cluster.Permission
}

var permissionAudit = grantAudit{
	granted: map[grant]bool{}, bindings: map[string]bool{},
	asked: cluster.Audit{Granted: map[cluster.Permission]bool{}, Denied: map[cluster.Permission]bool{}, Bindings: map[string]bool{}},
}

// addCluster adds the audit log of a cluster that is about to be stopped.
func (g *grantAudit) addCluster(ctx context.Context, c *cluster.Cluster) error {
	dir := c.Directory()
	objects, err := c.Render(ctx, dir)
	if err != nil {
		return err
	}
	all, err := doctor.Installation(objects).Grants()
	if err != nil {
		return err
	}
	for _, each := range all {
		g.bindings[each.Binding] = true
		for p := range rulesOf(each) {
			g.granted[grant{each.Role.Kind + " " + each.Role.Name, p}] = true
		}
	}
	asked, err := c.Audit()
	if err != nil {
		return err
	}
	maps.Copy(g.asked.Granted, asked.Granted)
	maps.Copy(g.asked.Denied, asked.Denied)
	maps.Copy(g.asked.Bindings, asked.Bindings)
	g.dirs = append(g.dirs, dir)
	return nil
}

// rulesOf returns the single permissions of a grant.
func rulesOf(g doctor.Grant) map[cluster.Permission]bool {
	all := map[cluster.Permission]bool{}
	for _, rule := range g.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all[cluster.Permission{
							Account: g.Account, Verb: verb, Group: group, Resource: resource, Namespace: g.Namespace, Name: name,
						}] = true
					}
				}
			}
		}
	}
	return all
}

// complete reports whether this run included all tests.
func (g *grantAudit) complete() bool {
	chosen := func(name string) bool { return flag.Lookup(name).Value.String() != "" }
	return !testing.Short() && !chosen("test.run") && !chosen("test.skip") && slices.ContainsFunc(g.dirs, func(dir string) bool { return strings.HasPrefix(dir, "ha") })
}

// check reports permissions that are granted and never used, and permissions that are used and not
// granted. The former can only be reported after a complete run.
func (g *grantAudit) check() error {
	unused := g.unused()
	if *printGrants {
		fmt.Printf("permissions of Weir that were not used:\n\t%s\n", strings.Join(unused, "\n\t"))
	}
	if !g.complete() {
		unused = nil
	}
	var wrong []error
	for _, p := range unused {
		wrong = append(wrong, errors.New("granted and never used: "+p))
	}
	denied := map[string]bool{}
	for p := range g.asked.Denied {
		// A kube-apiserver that has just started has not loaded the roles yet: neither Weir's nor
		// its own, for example the one for the ConfigMap that each aggregated server reads.
		known := len(g.covering(p)) > 0 || g.asked.Granted[p]
		p.Namespace, p.Name = "", ""
		denied[p.String()] = denied[p.String()] || !known && requestedWithoutGrant[p.String()] == ""
	}
	for _, p := range slices.Sorted(maps.Keys(denied)) {
		if denied[p] {
			wrong = append(wrong, errors.New("used and not granted: "+p))
		}
	}
	return errors.Join(wrong...)
}

// covering returns the grants that allow a request, by role.
func (g *grantAudit) covering(asked cluster.Permission) map[string][]grant {
	by := map[string][]grant{}
	for p := range g.granted {
		if p.Covers(asked) {
			by[p.role] = append(by[p.role], p)
		}
	}
	return by
}

// unused returns the permissions without which every request would still have been granted, except
// for those that no request can show.
func (g *grantAudit) unused() []string {
	needed := map[grant]bool{}
	for asked := range g.asked.Granted {
		for _, by := range g.covering(asked) {
			if len(by) == 1 { // of two equal permissions of a role, either one is unused
				needed[by[0]] = true
			}
		}
	}
	var all []string
	for p := range g.granted {
		watch := p
		watch.Verb = "watch"
		// A watch starts with a list if kube-apiserver cannot stream the initial objects.
		seen := needed[p] || p.Verb == "list" && needed[watch]
		if seen == (grantedWithoutRequest[p.String()] != "") {
			all = append(all, p.String())
		}
	}
	for b := range g.bindings {
		if !g.asked.Bindings[b] {
			all = append(all, b)
		}
	}
	slices.Sort(all)
	return all
}
