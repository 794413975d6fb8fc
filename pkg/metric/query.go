// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spelling says how a source names a label that both a metric and its scrape target have.
// Prometheus renames the label of the metric unless the scrape job honors labels.
type Spelling string

// The spellings. Auto adds up both, because each series has only one of them.
const (
	Plain    Spelling = "Plain"
	Exported Spelling = "Exported"
	Auto     Spelling = "Auto"
)

// Newborn says how to count a series that did not exist one window ago.
type Newborn string

// The ways to count a new series. Known counts from zero if the target was already scraped one
// window ago. Otherwise the age of the counter is unknown, and its value is only the base of later
// increments.
const (
	Known Newborn = "Known"
	Zero  Newborn = "Zero"
	Skip  Newborn = "Skip"
)

// Dialect has the differences between sources. Its zero value means Auto and Known.
type Dialect struct {
	Labels  Spelling
	Newborn Newborn
}

// The labels of answers, in addition to the labels of the row. No exporter uses the first two.
const (
	labelVersion = "weir_version"
	labelClass   = "weir_class"
	labelBucket  = "le"

	versionNew    = "new"
	versionStable = "stable"
	// An answer has one additional series with the times of the newest samples.
	versionNewest = "newest"
	classTotal    = "total"
	classBad      = "bad"
)

// RequestsQuery returns the query for the requests of both versions by status, in windows of this
// length.
func (r Row) RequestsQuery(rel Release, d Dialect, every time.Duration) (string, error) {
	return r.buildQuery(r.requests, r.failureLabels, rel, d, every)
}

// DurationsQuery returns the query for the requests of both versions by histogram bucket.
func (r Row) DurationsQuery(rel Release, d Dialect, every time.Duration) (string, error) {
	return r.buildQuery(r.durations+bucketSuffix, []string{labelBucket}, rel, d, every)
}

const bucketSuffix = "_bucket"

// RequestSeries returns the selector of the requests of a release, for messages.
func (r Row) RequestSeries(rel Release) string { return r.seriesSelector(r.requests, rel) }

// DurationSeries returns the selector of the histogram of a release, for messages.
func (r Row) DurationSeries(rel Release) string {
	return r.seriesSelector(r.durations+bucketSuffix, rel)
}

func (r Row) seriesSelector(name string, rel Release) string {
	fresh, stable, err := r.versionLabel.versions(rel)
	if err != nil {
		return name
	}
	return r.selectorFor(name, rel, labelSpelling{}, fresh, stable)
}

func (r Row) selectorFor(name string, rel Release, s labelSpelling, fresh, stable string) string {
	return name + "{" + strings.Join(r.matchers(rel, s, fresh, stable), ",") + "}"
}

// buildQuery returns the same text for equal questions, so that the source is queried once.
func (r Row) buildQuery(name string, classes []string, rel Release, d Dialect, every time.Duration) (string, error) {
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	fresh, stable, err := r.versionLabel.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	if fresh == stable && !rel.StableOnly {
		return "", fmt.Errorf("%s: label %s cannot tell the versions apart, both are %q", r.Name, r.versionLabel.label, fresh)
	}
	var parts, selectors []string
	for _, s := range r.spellings(d.Labels) {
		selector := r.selectorFor(name, rel, s, fresh, stable)
		selectors = append(selectors, infBucketSelector(selector))
		increments := withoutResets(incrementQuery(selector, d.Newborn, r.targetKnown, every), targetLabels(r.versionLabel.pod), every, selector)
		part := withVersion(increments, versionStable, s.labelName(r.versionLabel.label), stable)
		if !rel.StableOnly {
			part = withVersion(part, versionNew, s.labelName(r.versionLabel.label), fresh)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("sum by (%s, %s) (%s) or %s", labelVersion, strings.Join(classes, ", "), strings.Join(parts, " or "), newestQuery(selectors...)), nil
}

// withVersion labels the series that match a pattern with a version. The new version is set last,
// so that it wins if a series matches both patterns.
func withVersion(text, version, label, pattern string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, %q, %q)`, text, labelVersion, version, label, pattern)
}

// labelSpelling has the labels of a row that are renamed, and the labels that must not be renamed.
type labelSpelling struct{ renamed, plain []string }

const exported = "exported_"

func (s labelSpelling) labelName(label string) string {
	if slices.Contains(s.renamed, label) {
		return exported + label
	}
	return label
}

// spellings returns the spellings to add up. A target may have a label with the requested value
// while its metric has another value; the series of such a metric must not be counted as plain.
func (r Row) spellings(labels Spelling) []labelSpelling {
	switch {
	case labels == Plain || r.targetLabels == nil:
		return []labelSpelling{{}}
	case labels == Exported:
		return []labelSpelling{{renamed: r.targetLabels}}
	}
	return []labelSpelling{{plain: r.targetLabels}, {renamed: r.targetLabels}}
}

func (r Row) matchers(rel Release, s labelSpelling, fresh, stable string) []string {
	var matchers []string
	if r.namespace != "" {
		matchers = append(matchers, fmt.Sprintf("%s=%q", s.labelName(r.namespace), rel.Namespace))
	}
	matchers = append(matchers, r.extraMatchers...)
	if r.versionLabel.usesPattern {
		pattern := fresh + "|" + stable
		if rel.StableOnly {
			pattern = stable
		}
		matchers = append(matchers, fmt.Sprintf("%s=~%q", s.labelName(r.versionLabel.label), pattern))
	} else {
		matchers = append(matchers, fmt.Sprintf("ingress=~%q", quoteName(strings.Join(rel.Ingresses, "|"))))
		if rel.StableOnly {
			matchers = append(matchers, fmt.Sprintf("%s=%q", s.labelName(r.versionLabel.label), stable))
		}
	}
	for _, label := range s.plain {
		matchers = append(matchers, exported+label+`=""`)
	}
	return matchers
}

// incrementQuery returns a query for the increase of the selected series within one window.
func incrementQuery(selector string, newborn Newborn, known string, every time.Duration) string {
	offset := " offset " + promDuration(every)
	base := selector + offset
	switch newborn {
	case Skip:
	case Zero:
		base += " or " + selector + " * 0"
	default:
		base += " or " + selector + " * 0 and on (job, instance) " + known + offset + " == 1"
	}
	return fmt.Sprintf("clamp_min(%s - (%s), 0)", selector, base)
}

// targetLabels returns the labels of a scrape target. A target that forwards the metrics of pods
// also has their label.
func targetLabels(pod string) string {
	if pod == "" {
		return "job, instance"
	}
	return "job, instance, " + pod
}

// withoutResets excludes the increments of targets in which a selected counter restarted within the
// window. A restarted container loses its count of good requests, while failures after the restart
// begin a new series: alone they would look like all requests of the window. A counter restarted if
// it fell between two scrapes, if it is below its value at the start of the window, or if it is
// gone.
func withoutResets(increments, target string, every time.Duration, selectors ...string) string {
	window := promDuration(every)
	var resets []string
	for _, m := range selectors {
		resets = append(resets, fmt.Sprintf("resets(%[1]s[%[2]s]) > 0 or min_over_time(%[1]s[%[2]s]) < %[1]s offset %[2]s or %[1]s offset %[2]s unless %[1]s", m, window))
	}
	return fmt.Sprintf("(%s unless on (%s) (%s))", increments, target, strings.Join(resets, " or "))
}

func promDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
