// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// healthColours maps healths to colours. The name of the health is drawn as well.
var healthColours = map[string]string{
	"Healthy": green, "Progressing": cyan, "Waiting": yellow, "Suspended": yellow, "Degraded": Red, "Missing": Red,
}

// nodeColumns are the columns of the tree. On a narrow screen, the last column is drawn on lines of its
// own.
var nodeColumns = []column{
	{title: "NAME", keep: alwaysShown}, {title: "VERSION", keep: 3}, {title: "READY", keep: 7, right: true}, {title: "TRAFFIC", keep: 6, right: true},
	{title: "SINCE", keep: 2, right: true}, {title: "HEALTH", keep: 8}, {title: "NODE", keep: 1}, {title: "RESTARTS", keep: 1, right: true},
	{title: "WHY", keep: alwaysShown},
}

// versionNames are the words for the revisions of the API. An unknown revision has no word.
var versionNames = map[string]string{"update": "new", "stable": "stable", "other": "other"}

// drawNodes draws the objects of a release as a tree, without the Rollout itself.
func (p *Picture) drawNodes(s Screen) string {
	nodes := p.Tree.Nodes
	if len(nodes) == 0 {
		return ""
	}
	if !p.Wide {
		nodes = mergeEqualPods(nodes)
	}
	var rows [][]string
	var messages strings.Builder
	for _, b := range orderNodes(nodes) {
		n, name := b.node, s.nodeName(b.node)
		row := []string{b.lines + name, versionNames[n.Revision], formatReady(n), Percent(n.Traffic), s.formatAge(n.Since), s.Paint(healthColours[n.Health], n.Health), "", "", n.Message}
		if p.Wide {
			row[6], row[7] = n.Node, numberOrEmpty(n.Restarts)
		}
		if s.isNarrow() {
			row[8] = ""
		}
		if s.isNarrow() && n.Message != "" && n.Health != "Healthy" {
			messages.WriteString(s.Wrap(name+": "+n.Health+": "+n.Message, "  ") + "\n")
		}
		rows = append(rows, row)
	}
	return s.drawTable(nodeColumns, rows) + messages.String()
}

// branch is a node of the tree, and the lines that connect it with its parent.
type branch struct {
	node  *v1beta1.Node
	lines string
}

// orderNodes returns the nodes in the order of the drawing. The first node is the root and is not drawn.
func orderNodes(nodes []v1beta1.Node) []branch {
	below := map[string][]*v1beta1.Node{}
	for i := range nodes {
		below[nodes[i].Parent] = append(below[nodes[i].Parent], &nodes[i])
	}
	var out []branch
	seen := map[string]bool{nodes[0].ID: true}
	var down func(parent, indent string)
	down = func(parent, indent string) {
		for at, n := range below[parent] {
			if seen[n.ID] {
				continue // a circle
			}
			seen[n.ID] = true
			line, deeper := "├─ ", "│  "
			if at == len(below[parent])-1 {
				line, deeper = "└─ ", "   "
			}
			out = append(out, branch{n, indent + line})
			down(n.ID, indent+deeper)
		}
	}
	down(nodes[0].ID, "")
	return out
}

// shortNames are the short names of kubectl, for narrow screens.
var shortNames = map[string]string{
	"deployment": "deploy", "replicaset": "rs", "statefulset": "sts", "daemonset": "ds", "pod": "po", "service": "svc",
	"ingress": "ing", "horizontalpodautoscaler": "hpa", "poddisruptionbudget": "pdb",
}

// minWidthFullKinds is the minimum width of a screen with full names of kinds.
const minWidthFullKinds = 120

func (s Screen) nodeName(n *v1beta1.Node) string {
	kind := strings.ToLower(n.Kind)
	if n.Name == "" && n.Pods != nil {
		return Count(*n.Pods, kind)
	}
	if s.Width > 0 && s.Width < minWidthFullKinds {
		kind = cmp.Or(shortNames[kind], kind)
	}
	return kind + "/" + n.Name
}

// mergeEqualPods merges equal pods of a parent into one node.
func mergeEqualPods(nodes []v1beta1.Node) []v1beta1.Node {
	var out []v1beta1.Node
	at := map[[3]string]int{}
	for _, n := range nodes {
		same := [3]string{n.Parent, n.Health, n.Message}
		first, found := at[same]
		if n.Role != "pod" || !found {
			if n.Role == "pod" {
				at[same] = len(out)
			}
			out = append(out, n)
			continue
		}
		group := &out[first]
		if group.Name != "" {
			*group = v1beta1.Node{
				ID: group.ID, Parent: group.Parent, Kind: group.Kind, Role: group.Role, Revision: group.Revision, Health: group.Health,
				Message: group.Message, Since: group.Since, Pods: new(int32(1)), Ready: new(countReady(group)),
			}
		}
		*group.Pods++
		*group.Ready += countReady(&n)
		if group.Since.Before(n.Since) {
			group.Since = n.Since
		}
	}
	return out
}

// countReady returns 1 for a ready pod and 0 otherwise. The server reports readiness as the health of a pod.
func countReady(n *v1beta1.Node) int32 {
	if n.Ready != nil {
		return *n.Ready
	}
	if n.Health == "Healthy" {
		return 1
	}
	return 0
}

// formatReady formats the number of ready pods of a node.
func formatReady(n *v1beta1.Node) string {
	all := cmp.Or(n.Desired, n.Pods)
	switch {
	case n.Ready == nil && all == nil:
		return ""
	case n.Ready == nil:
		return "?/" + Number(*all)
	case all == nil:
		return Number(*n.Ready)
	}
	return Number(*n.Ready) + "/" + Number(*all)
}
