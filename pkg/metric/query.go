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

// Kind is what a query counts.
type Kind string

// The kinds: requests by status, and requests by bucket of duration.
const (
	Requests  Kind = "Requests"
	Durations Kind = "Durations"
)

// Measure is what a check asks.
type Measure string

// The measures.
const (
	SuccessRate Measure = "successRate"
	Latency     Measure = "latency"
	AsGoodAs    Measure = "asGoodAs"
)

var kindsOf = map[Measure][]Kind{
	SuccessRate: {Requests},
	Latency:     {Durations},
	AsGoodAs:    {Requests, Durations},
}

// Query is asked once per window, by range. Its answer has both versions and all classes.
type Query struct {
	Kind Kind
	Text string
}

// The labels of answers, beside those of the row. No exporter has them.
const (
	labelVersion = "weir_version"
	labelClass   = "weir_class"
	labelBucket  = "le"

	versionNew    = "new"
	versionStable = "stable"
	classTotal    = "total"
	classBad      = "bad"
)

// Queries are what a check asks of a source with windows of that length. Equal
// questions of two checks have equal texts.
func (r Row) Queries(m Measure, rel Release, d Dialect, every time.Duration) ([]Query, error) {
	if err := rel.names(); err != nil {
		return nil, err
	}
	fresh, stable, err := r.by.versions(rel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	if fresh == stable {
		return nil, fmt.Errorf("%s: label %s cannot tell the versions apart, both are %q", r.Name, r.by.label, fresh)
	}
	var queries []Query
	for _, kind := range kindsOf[m] {
		name, classes := r.requests, r.classes
		if kind == Durations {
			name, classes = r.durations+"_bucket", []string{labelBucket}
		}
		var parts []string
		for _, s := range r.spellings(d.Labels) {
			selector := name + "{" + strings.Join(r.matchers(rel, s, fresh, stable), ",") + "}"
			part := increment(selector, d.Newborn, r.known, every)
			part = versionOf(part, versionStable, s.of(r.by.label), stable)
			parts = append(parts, versionOf(part, versionNew, s.of(r.by.label), fresh))
		}
		queries = append(queries, Query{kind, fmt.Sprintf("sum by (%s, %s) (%s)", labelVersion, strings.Join(classes, ", "), strings.Join(parts, " or "))})
	}
	return queries, nil
}

// versionOf names the version of the series with that label. The new one comes last:
// it wins where a series matches both.
func versionOf(text, version, label, pattern string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, %q, %q)`, text, labelVersion, version, label, pattern)
}

// spelled is one spelling of the labels of a row.
type spelled struct {
	prefix string
	// only are the labels with a prefix, for what a plain series must not have.
	only    []string
	changed []string
}

func (s spelled) of(label string) string {
	if slices.Contains(s.changed, label) {
		return s.prefix + label
	}
	return label
}

const exported = "exported_"

// spellings are those to add up: a target may have a label with the very value that
// is asked for while its metric has another one, as exported_service.
func (r Row) spellings(labels Spelling) []spelled {
	plain, renamed := spelled{}, spelled{prefix: exported, changed: r.collide}
	switch {
	case labels == Plain || r.collide == nil:
		return []spelled{plain}
	case labels == Exported:
		return []spelled{renamed}
	}
	return []spelled{{only: r.collide}, renamed}
}

func (r Row) matchers(rel Release, s spelled, fresh, stable string) []string {
	var matchers []string
	if r.namespace != "" {
		matchers = append(matchers, fmt.Sprintf("%s=%q", s.of(r.namespace), rel.Namespace))
	}
	if r.where != nil {
		matchers = append(matchers, r.where(rel)...)
	}
	if r.by.matched {
		matchers = append(matchers, fmt.Sprintf("%s=~%q", s.of(r.by.label), fresh+"|"+stable))
	}
	for _, label := range s.only {
		matchers = append(matchers, exported+label+`=""`)
	}
	return matchers
}

// increment counts what was added to the series of a selector within one window. A counter
// that restarts adds nothing in that window.
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

func duration(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}
