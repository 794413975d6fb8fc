// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/internal/golden"
)

// TestScrapeQueries compares one query for each row, and one for counters of users, with files.
// hack/prometheus runs them.
func TestScrapeQueries(t *testing.T) {
	args, bad, total := map[string]string{"tier": "a/b"}, `checkout_failures_total{pod=~"$pods"}`, `checkouts_total{pod=~"$pods",tier="$tier"}`
	var scrapes, pods strings.Builder
	for _, row := range Rows {
		text, err := row.ScrapeIntervalQuery(web(t), Dialect{}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&scrapes, "# %s\n%s\n", row.Name, text)
		if text, err = row.PodCountsQuery(web(t), Dialect{}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if names := row.versionLabel.pod != ""; names != (text != "") {
			t.Errorf("%s: its metrics name pods: %v, and the query is %q", row.Name, names, text)
		} else if names {
			fmt.Fprintf(&pods, "# %s\n%s\n", row.Name, text)
		}
		if text, err = row.SlowPodCountsQuery(web(t), Dialect{}, "0.5", time.Hour); err != nil {
			t.Fatal(err)
		}
		if row.versionLabel.pod != "" {
			fmt.Fprintf(&pods, "# %s slow\n%s\n", row.Name, text)
		}
	}
	text, err := UserScrapeIntervalQuery(total, args, web(t), 30*time.Second, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&scrapes, "# user\n%s\n", text)
	if text, err = NamespaceNewestQuery(web(t)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&scrapes, "# namespace\n%s\n", text)
	if text, err = NamespaceScrapeIntervalQuery(web(t), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&scrapes, "# namespace, interval\n%s\n", text)
	if text, err = UserPodCountsQuery(bad, total, args, web(t), 30*time.Second, time.Hour); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&pods, "# user\n%s\n", text)
	golden.File(t, "scrapes.promql", scrapes.String())
	golden.File(t, "pods.promql", pods.String())
}

// TestFailuresOfPods checks that the pattern in queries agrees with the rule that reads answers.
func TestFailuresOfPods(t *testing.T) {
	for _, class := range []string{"code", "classification", grpc} {
		for _, value := range []string{"200", "500", "503", "5xx", "50", "5000", "failure", "success", "0", "2", "4", "5", "12", "13", "14", "15", "16", ""} {
			matches := regexp.MustCompile("^(?:" + failurePattern(class) + ")$").MatchString(value)
			if bad := (Row{failureLabels: []string{class}}).isFailure(map[string]string{class: value}); bad != matches {
				t.Errorf("%s=%q is bad: %v, and the source finds it: %v", class, value, bad, matches)
			}
		}
	}
}

func special(version string, values ...float64) Series {
	return line(map[string]string{labelVersion: version}, values...)
}

// TestScrape reads the scrape interval. Scrapes are late by milliseconds. Pods that are new or gone
// have no interval.
func TestScrape(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer []Series
		want   time.Duration
	}{
		{"nothing is scraped yet", nil, 0},
		{"one sample of a new pod", []Series{special(versionNewest, 1e9, 1e9)}, 0},
		{"the pods were not scraped twice yet", []Series{special(versionGap, 0, 0, gap)}, 0},
		{"15 seconds", []Series{special(versionGap, 0, 15.004, 0, 0, 14.998, gap)}, 15 * time.Second},
		{"the slower of two jobs", []Series{special(versionGap, 15, 0, 30, 15, 0, 30)}, 30 * time.Second},
		{"a minute", []Series{special(versionGap, 0, 60, 0, 59.998)}, time.Minute},
		{"many scrapes per second", []Series{special(versionGap, 0.2, 0.2)}, time.Second},
		{"a pod that is pushed again after an hour", []Series{special(versionGap, 0, 3600)}, MaxScrape},
		{"no number", []Series{{Labels: map[string]string{labelVersion: versionGap}, Values: []Value{{Number: math.NaN()}}}}, 0},
	} {
		if got := ScrapeInterval(test.answer); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestNewest reads the newest sample at any instant, because the last instants may have none.
func TestNewest(t *testing.T) {
	noon := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		name   string
		values []float64
		want   time.Time
	}{
		{"none", nil, time.Time{}},
		{"a source that is behind", []float64{1_800_000_000 - 60, 1_800_000_000 - 40, gap}, noon.Add(-40 * time.Second)},
		{"parts of seconds", []float64{1_800_000_000.25}, noon.Add(250 * time.Millisecond)},
		{"no time", []float64{-5}, time.Time{}},
		{"no time of a sample", []float64{1e300}, time.Time{}},
	} {
		if got := Newest([]Series{special(versionNew, 9e9), special(versionNewest, test.values...)}); !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestCountsOfPods checks that pods without requests, and series without a pod name, are left out.
func TestCountsOfPods(t *testing.T) {
	of := func(pod, class string, value float64) Series {
		return line(map[string]string{labelPod: pod, labelClass: class}, value)
	}
	got := ReadPodCounts([]Series{
		of("web-b", classTotal, 100), of("web-b", classBad, 3), of("web-a", classTotal, 50), of("web-c", classTotal, 0), of("web-d", classBad, 1),
		of("web-e", classTotal, 2), of("web-e", classBad, 2.1), of("", classTotal, 1000), of("web-f", classTotal, math.NaN()),
	})
	if diff := cmp.Diff([]Counts{{50, 0}, {100, 3}, {2, 2}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestScrapesRefused checks that impossible queries are refused before anything is sent.
func TestScrapesRefused(t *testing.T) {
	unnamed, other := web(t), web(t)
	unnamed.Namespace, other.Stable.Pods = "", ""
	for _, rel := range []Release{unnamed, other} {
		for name, ask := range map[string]func() (string, error){
			"Scrapes":       func() (string, error) { return row(t, "Linkerd").ScrapeIntervalQuery(rel, Dialect{}, time.Second) },
			"PodCounts":     func() (string, error) { return row(t, "Linkerd").PodCountsQuery(rel, Dialect{}, time.Hour) },
			"SlowPodCounts": func() (string, error) { return row(t, "Linkerd").SlowPodCountsQuery(rel, Dialect{}, "0.5", time.Hour) },
			"UserScrapes": func() (string, error) {
				return UserScrapeIntervalQuery(`m{pod=~"$pods"}`, nil, rel, time.Minute, time.Second)
			},
			"UserPodCounts": func() (string, error) {
				return UserPodCountsQuery(`m{pod=~"$pods"}`, `m{pod=~"$pods"}`, nil, rel, time.Minute, time.Hour)
			},
		} {
			if text, err := ask(); err == nil {
				t.Errorf("%s: asked %s", name, text)
			}
		}
	}
	if _, err := UserScrapeIntervalQuery("sum(m)", nil, web(t), time.Minute, time.Second); err == nil {
		t.Error("a query that is no selector was asked")
	}
	if _, err := NamespaceNewestQuery(unnamed); err == nil {
		t.Error("no namespace was asked about")
	}
	if _, err := NamespaceScrapeIntervalQuery(unnamed, time.Second); err == nil {
		t.Error("no namespace was asked about")
	}
}
