// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package metric knows which metrics tell how the two versions of a release answer
// their requests. A row of its table is a router, a mesh or a convention of applications.
// A row writes the PromQL that counts, and reads the answer. The package asks nobody.
package metric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Release is what a row has to know of one.
type Release struct {
	Namespace string
	Workload  string
	// Ingresses are the names of the stable ones.
	Ingresses   []string
	New, Stable Version
	// Single reports whether there is one version, as before a release: Stable. New is equal to
	// it, and only requests of Stable are counted.
	Single bool
}

// Version is one of the two of a release.
type Version struct {
	Pods    Pods
	Service Service
}

// Service has the requests of one version.
type Service struct {
	Name string
	// Ports are numbers and names; a router may use either.
	Ports []string
}

// Pods is a regular expression of names, without backslashes and quotes.
type Pods string

// The bounds of what a query spells.
const (
	maxNames = 200
	// The server cuts the prefix of a generated name here, and adds five characters.
	maxPrefix = 58
)

// Generated are the pods of owners that generate names, as ReplicaSets do.
func Generated(owners ...string) (Pods, error) {
	patterns := make([]string, 0, len(owners))
	for _, owner := range owners {
		prefix := owner + "-"
		patterns = append(patterns, literal(prefix[:min(len(prefix), maxPrefix)])+".*")
	}
	return oneOf("owners of pods", patterns)
}

// Named are pods that are known by their names.
func Named(names ...string) (Pods, error) {
	patterns := make([]string, 0, len(names))
	for _, name := range names {
		patterns = append(patterns, literal(name))
	}
	return oneOf("pods", patterns)
}

func oneOf(what string, patterns []string) (Pods, error) {
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

// nameCharacters are those of names of the Kubernetes API that are in queries.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-."

// literal makes a regular expression of a name. Its only special character is the dot.
// Brackets need no escape, whichever quotes a query has.
func literal(name string) string { return strings.ReplaceAll(name, ".", "[.]") }

// names reports what is no name of the Kubernetes API: nothing else may enter a query.
func (r Release) names() error {
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
