// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// newest asks for the time of the newest sample that any of the selectors has.
func newest(selectors ...string) string {
	texts := make([]string, 0, len(selectors))
	for _, s := range selectors {
		texts = append(texts, "timestamp("+s+")")
	}
	return versionOf("max("+strings.Join(texts, " or ")+")", versionNewest, "", "")
}

// oneBucket selects one bucket of a histogram: all of its buckets have the same timestamps.
func oneBucket(selector string) string {
	name, matchers, _ := strings.Cut(selector, "{")
	if !strings.HasSuffix(name, bucketSuffix) {
		return selector
	}
	return name + `{` + labelBucket + `="+Inf",` + matchers
}

// Newest reads the time of the newest sample from an answer. It is zero if there is no sample.
func Newest(answer []Series) time.Time {
	seconds := highest(answer, versionNewest)
	if seconds <= 0 || seconds > maxTime {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000))
}

// highest is the highest number of a series that an answer has besides counts; 0 if there is none.
func highest(answer []Series, version string) float64 {
	var most float64
	for _, s := range answer {
		for _, v := range s.Values {
			if v.Known && s.Labels[labelVersion] == version {
				most = max(most, v.Number)
			}
		}
	}
	return most
}

// maxTime is the year 9999 in seconds. Later times are not timestamps of samples.
const maxTime = 253402300799

// NamespaceNewest asks for the newest sample of the targets of a namespace. It is for a query of a
// user from which no selector can be taken.
func NamespaceNewest(rel Release) (string, error) {
	if err := rel.names(); err != nil {
		return "", err
	}
	return newest(fmt.Sprintf("%s{namespace=%q}", up, rel.Namespace)), nil
}

// versionGap is the usual time between the samples of a series.
const versionGap = "gap"

// Scrapes asks how much time is usually between two samples of a series in the MaxScrape before, of the
// slowest series. The query looks at the timestamp of the last sample in steps, which must be shorter
// than the interval of the scrapes: between two steps the timestamp does not change, or it grows by this
// interval. A lower quantile leaves out the gap of a source that was down for a while. A series that is
// new, stale or gone has no timestamp at one of two steps, so it has no interval either.
func (r Row) Scrapes(rel Release, d Dialect, step time.Duration) (string, error) {
	if err := rel.names(); err != nil {
		return "", err
	}
	fresh, stable, err := r.by.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	var selectors []string
	for _, s := range r.spellings(d.Labels) {
		selectors = append(selectors, r.selector(r.requests, rel, s, fresh, stable))
	}
	return usualGap(step, selectors...), nil
}

// UserScrapes is Scrapes for the counter of all requests of a user.
func UserScrapes(total string, args map[string]string, rel Release, every, step time.Duration) (string, error) {
	var selectors []string
	for _, version := range []string{versionStable, versionNew} {
		text, err := userSelector(classTotal, total, version, args, rel, every)
		if err != nil {
			return "", err
		}
		selectors = append(selectors, text)
	}
	return usualGap(step, selectors...), nil
}

// usualGap asks for the usual time from one sample to the next, and for the newest sample.
func usualGap(step time.Duration, selectors ...string) string {
	var texts []string
	for _, s := range selectors {
		texts = append(texts, fmt.Sprintf("quantile_over_time(0.25, (timestamp(%[1]s) - timestamp(%[1]s offset %[2]s) > 0)[%[3]s:%[2]s])", s, duration(step), duration(MaxScrape)))
	}
	return versionOf("max("+strings.Join(texts, " or ")+")", versionGap, "", "") + " or " + newest(selectors...)
}

// MaxScrape is the longest interval of scrapes. Prometheus shows a sample for five minutes at most.
const MaxScrape = 5 * time.Minute

// Scrape reads the interval between two scrapes from the answer to Scrapes, in whole seconds: scrapes
// are late by some milliseconds. It is zero if no series has two samples.
func Scrape(answer []Series) time.Duration {
	seconds := highest(answer, versionGap)
	if seconds <= 0 {
		return 0
	}
	interval := time.Duration(min(seconds, MaxScrape.Seconds()) * float64(time.Second))
	return max(interval.Round(time.Second), time.Second)
}

// mostPods is the number of pods whose counts are read.
const mostPods = 200

// labelPod names a pod in answers: rows have different labels for pods.
const labelPod = "weir_pod"

// PodCounts asks how many requests each pod of the stable version answered in a time that ends now,
// and how many of them failed. The text is empty if the metrics of the row do not name pods.
func (r Row) PodCounts(rel Release, d Dialect, over time.Duration) (string, error) {
	rel.Single = true
	stable, err := r.stablePods(rel)
	if err != nil || stable == "" {
		return "", err
	}
	var all, failed []string
	for _, s := range r.spellings(d.Labels) {
		selector := r.selector(r.requests, rel, s, "", stable)
		all = append(all, selector)
		for _, class := range r.classes {
			failed = append(failed, fmt.Sprintf("%s,%s=~%q}", strings.TrimSuffix(selector, "}"), class, failures(class)))
		}
	}
	return countPods(r.by.pod, sumPods(r.by.pod, all, over), sumPods(r.by.pod, failed, over)), nil
}

// stablePods selects the pods of the stable version. It is empty if the metrics of the row do not name pods.
func (r Row) stablePods(rel Release) (string, error) {
	if r.by.pod == "" {
		return "", nil
	}
	if err := rel.names(); err != nil {
		return "", err
	}
	_, stable, err := r.by.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	return stable, nil
}

// SlowPodCounts is PodCounts for the requests above a boundary of the histogram: all of them without those
// up to it.
func (r Row) SlowPodCounts(rel Release, d Dialect, boundary string, over time.Duration) (string, error) {
	rel.Single = true
	stable, err := r.stablePods(rel)
	if err != nil || stable == "" {
		return "", err
	}
	buckets := func(le string) string {
		var all []string
		for _, s := range r.spellings(d.Labels) {
			selector := r.selector(r.durations+bucketSuffix, rel, s, "", stable)
			all = append(all, fmt.Sprintf("%s,%s=%q}", strings.TrimSuffix(selector, "}"), labelBucket, le))
		}
		return sumPods(r.by.pod, all, over)
	}
	total := buckets("+Inf")
	return countPods(r.by.pod, total, total+" - "+buckets(boundary)), nil
}

// UserPodCounts is PodCounts for two counters of a user, whose series may have the label pod.
func UserPodCounts(bad, total string, args map[string]string, rel Release, every, over time.Duration) (string, error) {
	all, err := userSelector(classTotal, total, versionStable, args, rel, every)
	if err != nil {
		return "", err
	}
	failed, err := userSelector(classBad, bad, versionStable, args, rel, every)
	if err != nil {
		return "", err
	}
	return countPods("pod", sumPods("pod", []string{all}, over), sumPods("pod", []string{failed}, over)), nil
}

// countPods asks for the two counts of each pod, of the pods with the most requests.
func countPods(pod, total, bad string) string {
	return fmt.Sprintf(`label_replace((%s or %s) and on (%s) topk(%d, %s), %q, "$1", %q, "(.*)")`,
		classOf(total, classTotal), classOf(bad, classBad), pod, mostPods, total, labelPod, pod)
}

// sumPods asks by how much the series of some selectors grew, for each pod. A series that several of them
// select counts once.
func sumPods(pod string, selectors []string, over time.Duration) string {
	texts := make([]string, 0, len(selectors))
	for _, s := range selectors {
		texts = append(texts, fmt.Sprintf("increase(%s[%s])", s, duration(over)))
	}
	return fmt.Sprintf("sum by (%s) (%s)", pod, strings.Join(texts, " or "))
}

// CountsOfPods reads the answer to PodCounts: one count for each pod, in the order of their names.
func CountsOfPods(answer []Series) []Counts {
	counts := map[string]*Counts{}
	for _, s := range answer {
		pod := s.Labels[labelPod]
		if pod == "" || len(s.Values) == 0 || math.IsNaN(s.Values[0].Number) {
			continue // the series names no pod, or has no number
		}
		if counts[pod] == nil {
			counts[pod] = &Counts{}
		}
		switch s.Labels[labelClass] {
		case classTotal:
			counts[pod].Total = s.Values[0].Number
		case classBad:
			counts[pod].Bad = s.Values[0].Number
		}
	}
	var all []Counts
	for _, pod := range slices.Sorted(maps.Keys(counts)) {
		if c := counts[pod]; c.Total > 0 {
			// Each counter is extrapolated to the whole time, so bad requests can exceed all requests.
			all = append(all, Counts{Total: c.Total, Bad: min(max(c.Bad, 0), c.Total)})
		}
	}
	return all
}
