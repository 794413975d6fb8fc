// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
)

// owned are the roles of Weir's processes, as docs/permissions.md calls them.
var owned = []struct{ file, role, heading string }{
	{"base/rbac-apiserver.yaml", "ClusterRole weir-apiserver", "### weir-apiserver, everywhere"},
	{"base/rbac-apiserver.yaml", "Role weir-apiserver", "### weir-apiserver, in weir-system"},
	{"base/rbac-views.yaml", "ClusterRole weir-apiserver-views", "### weir-apiserver, for answers about Rollouts"},
	{"etcd/rbac.yaml", "Role weir-apiserver-etcd", "### weir-apiserver, in weir-system with artifacts/ha"},
	{"base/rbac-controller.yaml", "ClusterRole weir-controller", "### weir-controller, everywhere"},
	{"base/rbac-controller.yaml", "Role weir-controller", "### weir-controller, in weir-system"},
	{"base/rbac-controller.yaml", "Role weir-controller-sources", "### weir-controller, in weir-sources"},
}

// Each rule of a process is explained in a line of docs/permissions.md, and there
// is no other. That each is needed, a complete end-to-end run shows.
func TestPermissions(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		if diff := gocmp.Diff(rules(t, o.file, o.role), table(t, string(doc), o.heading)); diff != "" {
			t.Errorf("%s (-manifest +docs/permissions.md, %s):\n%s", o.role, o.heading, diff)
		}
	}
}

// rules are those of a role, as rows of a table.
func rules(t *testing.T, file, role string) []string {
	t.Helper()
	data, err := artifacts.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var r rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		if r.Kind+" "+r.Name != role {
			continue
		}
		for _, rule := range r.Rules {
			if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), rbacv1.ResourceAll) {
				t.Errorf("%s has a rule for everything: %v", role, rule)
			}
			group := cmp.Or(strings.Join(rule.APIGroups, ", "), "core")
			for _, cell := range [][]string{rule.Resources, rule.ResourceNames} {
				for i := range cell {
					cell[i] = "`" + cell[i] + "`"
				}
			}
			rows = append(rows, strings.Join([]string{
				strings.Join(rule.Resources, ", "), group, strings.Join(rule.ResourceNames, ", "), strings.Join(rule.Verbs, ", "),
			}, " | "))
		}
	}
	return rows
}

// table has the rows below a heading, but for the last cell, which says why.
func table(t *testing.T, doc, heading string) []string {
	t.Helper()
	_, section, found := strings.Cut(doc, heading+"\n")
	if !found {
		t.Fatalf("docs/permissions.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	var rows []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(strings.TrimSpace(cells[0]), "resource") || strings.Contains(cells[0], "---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[4] == "" {
			t.Errorf("docs/permissions.md does not say why %s is allowed", cells[0])
		}
		rows = append(rows, strings.Join(cells[:4], " | "))
	}
	return rows
}
