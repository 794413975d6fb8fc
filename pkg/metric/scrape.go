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

// newestQuery returns a query for the time of the newest sample of any selector.
func newestQuery(selectors ...string) string {
	texts := make([]string, 0, len(selectors))
	for _, s := range selectors {
		texts = append(texts, "timestamp("+s+")")
	}
	return withVersion("max("+strings.Join(texts, " or ")+")", versionNewest, "", "")
}

// infBucketSelector selects one bucket of a histogram, because all buckets have the same
// timestamps.
func infBucketSelector(selector string) string {
	name, matchers, _ := strings.Cut(selector, "{")
	if !strings.HasSuffix(name, bucketSuffix) {
		return selector
	}
	return name + `{` + labelBucket + `="+Inf",` + matchers
}

// Newest reads the time of the newest sample from an answer. It is zero if there is no sample.
func Newest(answer []Series) time.Time {
	seconds := highestValue(answer, versionNewest)
	if seconds <= 0 || seconds > maxTime {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000))
}

// highestValue returns the highest number of the series with this version label; 0 if there is
// none.
func highestValue(answer []Series, version string) float64 {
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

// NamespaceNewestQuery returns a query for the newest sample of all targets of a namespace. It is
// for user queries, from which no selector can be extracted.
func NamespaceNewestQuery(rel Release) (string, error) {
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	return newestQuery(targetSelector(rel)), nil
}

// NamespaceScrapeIntervalQuery is Row.ScrapeIntervalQuery for all targets of a namespace.
func NamespaceScrapeIntervalQuery(rel Release, step time.Duration) (string, error) {
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	return scrapeIntervalQuery(step, targetSelector(rel)), nil
}

// targetSelector selects the targets of a namespace.
func targetSelector(rel Release) string { return fmt.Sprintf("%s{namespace=%q}", up, rel.Namespace) }

// versionGap is the usual time between the samples of a series.
const versionGap = "gap"

// ScrapeIntervalQuery returns a query for the usual time between two samples of a series in the
// last MaxScrape, of the slowest series. The query looks at the timestamp of the last sample in
// steps, which must be shorter than the scrape interval: between two steps the timestamp does not
// change, or it increases by this interval. A low quantile ignores the gap of a source that was
// down for a while. A series that is new, stale or gone has no timestamp at one of two steps, so it
// has no interval either.
func (r Row) ScrapeIntervalQuery(rel Release, d Dialect, step time.Duration) (string, error) {
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	fresh, stable, err := r.versionLabel.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	var selectors []string
	for _, s := range r.spellings(d.Labels) {
		selectors = append(selectors, r.selectorFor(r.requests, rel, s, fresh, stable))
	}
	return scrapeIntervalQuery(step, selectors...), nil
}

// UserScrapeIntervalQuery is ScrapeIntervalQuery for a user's counter of all requests.
func UserScrapeIntervalQuery(total string, args map[string]string, rel Release, every, step time.Duration) (string, error) {
	var selectors []string
	for _, version := range []string{versionStable, versionNew} {
		text, err := userSelector(classTotal, total, version, args, rel, every)
		if err != nil {
			return "", err
		}
		selectors = append(selectors, text)
	}
	return scrapeIntervalQuery(step, selectors...), nil
}

// scrapeIntervalQuery returns a query for the usual time between two samples, and for the newest
// sample.
func scrapeIntervalQuery(step time.Duration, selectors ...string) string {
	var texts []string
	for _, s := range selectors {
		texts = append(texts, fmt.Sprintf("quantile_over_time(0.25, (timestamp(%[1]s) - timestamp(%[1]s offset %[2]s) > 0)[%[3]s:%[2]s])", s, promDuration(step), promDuration(MaxScrape)))
	}
	return withVersion("max("+strings.Join(texts, " or ")+")", versionGap, "", "") + " or " + newestQuery(selectors...)
}

// MaxScrape is the longest interval of scrapes. Prometheus shows a sample for five minutes at most.
const MaxScrape = 5 * time.Minute

// ScrapeInterval reads the answer to ScrapeIntervalQuery, in whole seconds because scrapes are late
// by some milliseconds. It returns zero if no series has two samples.
func ScrapeInterval(answer []Series) time.Duration {
	seconds := highestValue(answer, versionGap)
	if seconds <= 0 {
		return 0
	}
	interval := time.Duration(min(seconds, MaxScrape.Seconds()) * float64(time.Second))
	return max(interval.Round(time.Second), time.Second)
}

// maxPods is the maximum number of pods whose counts are read.
const maxPods = 200

// labelPod names a pod in answers: rows have different labels for pods.
const labelPod = "weir_pod"

// PodCountsQuery returns a query for the requests that each stable pod answered in a period that
// ends now, and for the failed ones. The query is empty if the metrics of the row do not name pods.
func (r Row) PodCountsQuery(rel Release, d Dialect, over time.Duration) (string, error) {
	rel.StableOnly = true
	stable, err := r.stablePods(rel)
	if err != nil || stable == "" {
		return "", err
	}
	var all, failed []string
	for _, s := range r.spellings(d.Labels) {
		selector := r.selectorFor(r.requests, rel, s, "", stable)
		all = append(all, selector)
		for _, class := range r.failureLabels {
			failed = append(failed, fmt.Sprintf("%s,%s=~%q}", strings.TrimSuffix(selector, "}"), class, failurePattern(class)))
		}
	}
	return podCountsQuery(r.versionLabel.pod, podIncreaseQuery(r.versionLabel.pod, all, over), podIncreaseQuery(r.versionLabel.pod, failed, over)), nil
}

// stablePods returns a pattern of the stable pods; empty if the metrics of the row do not name
// pods.
func (r Row) stablePods(rel Release) (string, error) {
	if r.versionLabel.pod == "" {
		return "", nil
	}
	if err := rel.checkNames(); err != nil {
		return "", err
	}
	_, stable, err := r.versionLabel.versions(rel)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	return stable, nil
}

// SlowPodCountsQuery is PodCountsQuery for the requests above a boundary of the histogram: all
// requests without those up to the boundary.
func (r Row) SlowPodCountsQuery(rel Release, d Dialect, boundary string, over time.Duration) (string, error) {
	rel.StableOnly = true
	stable, err := r.stablePods(rel)
	if err != nil || stable == "" {
		return "", err
	}
	buckets := func(le string) string {
		var all []string
		for _, s := range r.spellings(d.Labels) {
			selector := r.selectorFor(r.durations+bucketSuffix, rel, s, "", stable)
			all = append(all, fmt.Sprintf("%s,%s=%q}", strings.TrimSuffix(selector, "}"), labelBucket, le))
		}
		return podIncreaseQuery(r.versionLabel.pod, all, over)
	}
	total := buckets("+Inf")
	return podCountsQuery(r.versionLabel.pod, total, total+" - "+buckets(boundary)), nil
}

// UserPodCountsQuery is PodCountsQuery for two counters of a user, whose series may have the label
// pod.
func UserPodCountsQuery(bad, total string, args map[string]string, rel Release, every, over time.Duration) (string, error) {
	all, err := userSelector(classTotal, total, versionStable, args, rel, every)
	if err != nil {
		return "", err
	}
	failed, err := userSelector(classBad, bad, versionStable, args, rel, every)
	if err != nil {
		return "", err
	}
	return podCountsQuery("pod", podIncreaseQuery("pod", []string{all}, over), podIncreaseQuery("pod", []string{failed}, over)), nil
}

// podCountsQuery returns a query for the two counts of each pod, for the pods with the most
// requests.
func podCountsQuery(pod, total, bad string) string {
	return fmt.Sprintf(`label_replace((%s or %s) and on (%s) topk(%d, %s), %q, "$1", %q, "(.*)")`,
		withClass(total, classTotal), withClass(bad, classBad), pod, maxPods, total, labelPod, pod)
}

// podIncreaseQuery returns a query for the increase of the selected series, for each pod. A series
// that several selectors match counts once.
func podIncreaseQuery(pod string, selectors []string, over time.Duration) string {
	texts := make([]string, 0, len(selectors))
	for _, s := range selectors {
		texts = append(texts, fmt.Sprintf("increase(%s[%s])", s, promDuration(over)))
	}
	return fmt.Sprintf("sum by (%s) (%s)", pod, strings.Join(texts, " or "))
}

// ReadPodCounts reads the answer to PodCountsQuery: one count for each pod, in the order of the pod
// names.
func ReadPodCounts(answer []Series) []Counts {
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
