// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package metric has the metrics that count the requests of the two versions of a release. Each row of
// its table describes the metrics of a router, a mesh or an instrumentation library: it builds the PromQL
// query and reads the answer. The package sends no queries.
package metric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Release has the names of a release that queries contain.
type Release struct {
	Namespace string
	Workload  string
	// Ingresses are the names of the owner's Ingresses.
	Ingresses   []string
	New, Stable Version
	// StableOnly reports whether there is only one version, as before a release. Then New is equal
	// to Stable, and only requests of Stable are counted.
	StableOnly bool
}

// Version is one of the two versions of a release.
type Version struct {
	Pods    Pods
	Service Service
}

// Service is the Service that gets the requests of one version.
type Service struct {
	Name string
	// Ports are numbers and names, because routers use either.
	Ports []string
}

// Pods is a regular expression that matches pod names. It has no backslashes and no quotes.
type Pods string

// The limits of names in a query.
const (
	maxNames = 200
	// kube-apiserver truncates the prefix of a generated name to this length, and adds five
	// characters.
	maxPrefix = 58
)

// PodsOfOwners matches the pods of owners that generate pod names, such as ReplicaSets.
func PodsOfOwners(owners ...string) (Pods, error) {
	patterns := make([]string, 0, len(owners))
	for _, owner := range owners {
		prefix := owner + "-"
		patterns = append(patterns, quoteName(prefix[:min(len(prefix), maxPrefix)])+".*")
	}
	return joinPatterns("owners of pods", patterns)
}

// PodsByName matches pods with these names.
func PodsByName(names ...string) (Pods, error) {
	patterns := make([]string, 0, len(names))
	for _, name := range names {
		patterns = append(patterns, quoteName(name))
	}
	return joinPatterns("pods", patterns)
}

func joinPatterns(what string, patterns []string) (Pods, error) {
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	if len(patterns) > maxNames {
		return "", fmt.Errorf("%d %s are too many for one query, which can name %d", len(patterns), what, maxNames)
	}
	for _, pattern := range patterns {
		if strings.Trim(pattern, nameCharacters+"[]*") != "" {
			return "", fmt.Errorf("%q is not a name of %s", pattern, what)
		}
	}
	return Pods(strings.Join(patterns, "|")), nil
}

// nameCharacters are the characters of names of the Kubernetes API that occur in queries.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-."

// quoteName returns a regular expression that matches a name. The dot is its only special
// character. Brackets need no escape, whichever quotes the query uses.
func quoteName(name string) string { return strings.ReplaceAll(name, ".", "[.]") }

// checkNames returns an error for a name that is not valid in the Kubernetes API. No other text may
// enter a query.
func (r Release) checkNames() error {
	names := slices.Concat([]string{r.Namespace, r.Workload, r.New.Service.Name, r.Stable.Service.Name},
		r.Ingresses, r.New.Service.Ports, r.Stable.Service.Ports)
	for _, name := range names {
		if strings.Trim(name, nameCharacters) != "" {
			return fmt.Errorf("%q is not a name of the Kubernetes API", name)
		}
	}
	for _, pods := range []Pods{r.New.Pods, r.Stable.Pods} {
		if strings.Trim(string(pods), nameCharacters+"[]*|") != "" {
			return fmt.Errorf("%q is not a pattern of names", pods)
		}
	}
	if r.Namespace == "" {
		return errors.New("the release has no namespace")
	}
	return nil
}
