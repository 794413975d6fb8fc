// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	placeholder = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	argument    = regexp.MustCompile(`^[A-Za-z0-9_.:/-]*$`)
	// selectorRegexp matches exactly one PromQL selector.
	quotedPattern  = "(?:\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`[^`]*`)"
	namePattern    = `[a-zA-Z_:][a-zA-Z0-9_:]*`
	matcherPattern = `\s*` + namePattern + `\s*(?:=~|!~|!=|=)\s*` + quotedPattern + `\s*`
	selectorRegexp = regexp.MustCompile(`^\s*` + namePattern + `\s*(?:\{(?:` + matcherPattern + `(?:,` + matcherPattern + `)*)?,?\s*\})?\s*$`)
)

// UserCountsQuery returns the query for a check that names two counters: bad requests, and all
// requests.
func UserCountsQuery(bad, total string, args map[string]string, rel Release, d Dialect, every time.Duration) (string, error) {
	versions := []string{versionNew, versionStable}
	if rel.StableOnly {
		versions = []string{versionStable}
	}
	counters := []struct{ class, text string }{{classTotal, total}, {classBad, bad}}
	var parts, totals []string
	for _, version := range versions {
		var selectors []string
		for _, counter := range counters {
			text, err := userSelector(counter.class, counter.text, version, args, rel, every)
			if err != nil {
				return "", err
			}
			selectors = append(selectors, text)
		}
		totals = append(totals, selectors[0])
		for i, counter := range counters {
			text := "sum(" + withoutResets(incrementQuery(selectors[i], d.Newborn, up, every), targetLabels("pod"), every, selectors...) + ")"
			parts = append(parts, withClass(withVersion(text, version, "", ""), counter.class))
		}
	}
	return strings.Join(parts, " or ") + " or " + newestQuery(totals...), nil
}

// withClass adds a label that says what the series count.
func withClass(text, class string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, text, labelClass, class)
}

// userSelector fills the placeholders in the selector of a user's counter.
func userSelector(class, text, version string, args map[string]string, rel Release, every time.Duration) (string, error) {
	text, err := fillPlaceholders(text, version, args, rel, every)
	if err != nil {
		return "", fmt.Errorf("%s: %w", class, err)
	}
	if !selectorRegexp.MatchString(text) {
		return "", fmt.Errorf(`%s: name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`, class)
	}
	return strings.TrimSpace(text), nil
}

// UserNumberQuery returns the query for a check that limits a number of the new version.
func UserNumberQuery(text string, args map[string]string, rel Release, every time.Duration) (string, error) {
	return fillPlaceholders(text, versionNew, args, rel, every)
}

// fillPlaceholders replaces placeholders in a text by the names of a release and the arguments of a
// check. No value has a character that could end a string, whichever quotes enclose the
// placeholder.
func fillPlaceholders(text, version string, args map[string]string, rel Release, every time.Duration) (string, error) {
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	of := rel.New
	if version == versionStable {
		of = rel.Stable
	}
	values := map[string]string{
		"namespace": rel.Namespace, "workload": rel.Workload, "service": of.Service.Name, "pods": string(of.Pods), "window": promDuration(every),
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	for name, value := range args {
		if !argument.MatchString(value) {
			return "", fmt.Errorf("args.%s: %q has a character that is none of A-Z a-z 0-9 _ . : / -", name, value)
		}
		if _, ok := values[name]; ok {
			return "", fmt.Errorf("args.%s: $%s is a variable of the release; choose another name", name, name)
		}
		values[name] = value
	}
	var missing []string
	text = placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := values[name[1:]]
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("%s has no value; known are $%s", missing[0], strings.Join(slices.Sorted(maps.Keys(values)), ", $"))
	}
	return text, nil
}
