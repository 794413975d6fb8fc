// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spelling is the name of a label of a metric that its target has, too. Prometheus
// renames the label of the metric unless its scrape job honors labels.
type Spelling string

// The spellings. Auto adds up both; a series has only one of them.
const (
	Plain    Spelling = "Plain"
	Exported Spelling = "Exported"
	Auto     Spelling = "Auto"
)

// Newborn is how a series counts that did not exist one window ago.
type Newborn string

// The ways. Known counts from zero where the target was scraped one window ago. A metric
// of a target that was not is a number of unknown age: it is the base of what comes.
const (
	Known Newborn = "Known"
	Zero  Newborn = "Zero"
	Skip  Newborn = "Skip"
)

// Dialect is what differs between sources. Its zero value is Auto and Known.
type Dialect struct {
	Labels  Spelling
	Newborn Newborn
}

// The labels of answers, beside those of the row. No exporter has the first two.
const (
	labelVersion = "weir_version"
	labelClass   = "weir_class"
	labelBucket  = "le"

	versionNew    = "new"
	versionStable = "stable"
	// An answer has one series more, whose values are the times of the newest samples.
	versionNewest = "newest"
	classTotal    = "total"
	classBad      = "bad"
)

// Requests asks for the requests of both versions by status, in windows of that length.
func (r Row) Requests(rel Release, d Dialect, every time.Duration) (string, error) {
	return r.query(r.requests, r.classes, rel, d, every)
}

// Durations asks for the requests of both versions by bucket of a histogram.
func (r Row) Durations(rel Release, d Dialect, every time.Duration) (string, error) {
	return r.query(r.durations+bucketSuffix, []string{labelBucket}, rel, d, every)
}

const bucketSuffix = "_bucket"

// RequestSeries is the selector of the requests of a release, for messages.
func (r Row) RequestSeries(rel Release) string { return r.series(r.requests, rel) }

// DurationSeries is the selector of the histogram of a release, for messages.
func (r Row) DurationSeries(rel Release) string { return r.series(r.durations+bucketSuffix, rel) }

func (r Row) series(name string, rel Release) string {
	fresh, stable, err := r.by.versions(rel)
	if err != nil {
		return name
	}
	return r.selector(name, rel, spelled{}, fresh, stable)
}

func (r Row) selector(name string, rel Release, s spelled, fresh, stable string) string {
	return name + "{" + strings.Join(r.matchers(rel, s, fresh, stable), ",") + "}"
}

// query has equal texts for equal questions, which a source asks once.
func (r Row) query(name string, classes []string, rel Release, d Dialect, every time.Duration) (string, error) {
	if err := rel.names(); err != nil {
		return "", err
	}
	fresh, stable, err := r.by.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	if fresh == stable && !rel.Single {
		return "", fmt.Errorf("%s: label %s cannot tell the versions apart, both are %q", r.Name, r.by.label, fresh)
	}
	var parts, selectors []string
	for _, s := range r.spellings(d.Labels) {
		selector := r.selector(name, rel, s, fresh, stable)
		selectors = append(selectors, oneBucket(selector))
		increments := withoutResets(increment(selector, d.Newborn, r.known, every), target(r.by.pod), every, selector)
		part := versionOf(increments, versionStable, s.of(r.by.label), stable)
		if !rel.Single {
			part = versionOf(part, versionNew, s.of(r.by.label), fresh)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("sum by (%s, %s) (%s) or %s", labelVersion, strings.Join(classes, ", "), strings.Join(parts, " or "), newest(selectors...)), nil
}

// versionOf names the version of the series with that label. The new one comes last:
// it wins where a series matches both.
func versionOf(text, version, label, pattern string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, %q, %q)`, text, labelVersion, version, label, pattern)
}

// spelled has the labels of a row that are renamed, and those that must not be.
type spelled struct{ renamed, plain []string }

const exported = "exported_"

func (s spelled) of(label string) string {
	if slices.Contains(s.renamed, label) {
		return exported + label
	}
	return label
}

// spellings are those to add up. A target may have a label with the very value that is
// asked for while its metric has another one; that series is not plain.
func (r Row) spellings(labels Spelling) []spelled {
	switch {
	case labels == Plain || r.collide == nil:
		return []spelled{{}}
	case labels == Exported:
		return []spelled{{renamed: r.collide}}
	}
	return []spelled{{plain: r.collide}, {renamed: r.collide}}
}

func (r Row) matchers(rel Release, s spelled, fresh, stable string) []string {
	var matchers []string
	if r.namespace != "" {
		matchers = append(matchers, fmt.Sprintf("%s=%q", s.of(r.namespace), rel.Namespace))
	}
	matchers = append(matchers, r.where...)
	if r.by.matched {
		pattern := fresh + "|" + stable
		if rel.Single {
			pattern = stable
		}
		matchers = append(matchers, fmt.Sprintf("%s=~%q", s.of(r.by.label), pattern))
	} else {
		matchers = append(matchers, fmt.Sprintf("ingress=~%q", literal(strings.Join(rel.Ingresses, "|"))))
		if rel.Single {
			matchers = append(matchers, fmt.Sprintf("%s=%q", s.of(r.by.label), stable))
		}
	}
	for _, label := range s.plain {
		matchers = append(matchers, exported+label+`=""`)
	}
	return matchers
}

// increment counts what was added to the series of a selector within one window.
func increment(selector string, newborn Newborn, known string, every time.Duration) string {
	offset := " offset " + duration(every)
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

// target has the labels of a scraped target; one that forwards the metrics of pods has their
// label, too.
func target(pod string) string {
	if pod == "" {
		return "job, instance"
	}
	return "job, instance, " + pod
}

// withoutResets leaves out all increments of the targets in which a counter of the selectors
// restarted within the window. A restarted container loses its count of good requests, while the
// failures that come after the restart begin a series of their own: alone they would be all
// requests of the window. A counter restarted if it fell between two scrapes, if it fell below its
// value at the start of the window, or if it is gone.
func withoutResets(increments, target string, every time.Duration, selectors ...string) string {
	window := duration(every)
	var resets []string
	for _, m := range selectors {
		resets = append(resets, fmt.Sprintf("resets(%[1]s[%[2]s]) > 0 or min_over_time(%[1]s[%[2]s]) < %[1]s offset %[2]s or %[1]s offset %[2]s unless %[1]s", m, window))
	}
	return fmt.Sprintf("(%s unless on (%s) (%s))", increments, target, strings.Join(resets, " or "))
}

func duration(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
