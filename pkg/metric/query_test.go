// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/internal/golden"
)

func pods(t *testing.T, make func(...string) (Pods, error), names ...string) Pods {
	t.Helper()
	pods, err := make(names...)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func web(t *testing.T) Release {
	t.Helper()
	return Release{
		Namespace: "shop",
		Workload:  "web",
		Ingresses: []string{"web"},
		New:       Version{Pods: pods(t, PodsOfOwners, "web-5d8f"), Service: Service{Name: "web-canary", Ports: []string{"80", "http"}}},
		Stable:    Version{Pods: pods(t, PodsOfOwners, "web-77c4", "web-old"), Service: Service{Name: "web", Ports: []string{"80", "http"}}},
	}
}

// TestQueries compares the queries of each row with a file. hack/prometheus runs these files.
func TestQueries(t *testing.T) {
	for _, row := range Rows {
		t.Run(row.Name, func(t *testing.T) {
			var text strings.Builder
			for _, labels := range []Spelling{Plain, Exported, Auto} {
				for _, query := range []struct {
					kind string
					ask  func(Release, Dialect, time.Duration) (string, error)
				}{{"Requests", row.RequestsQuery}, {"Durations", row.DurationsQuery}} {
					asked, err := query.ask(web(t), Dialect{Labels: labels}, 30*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&text, "# %s %s\n%s\n", labels, query.kind, asked)
				}
			}
			for _, labels := range []Spelling{Plain, Exported, Auto} {
				asked, err := row.RequestsQuery(one(t), Dialect{Labels: labels}, 30*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&text, "# %s Single\n%s\n", labels, asked)
			}
			golden.File(t, row.Name+".promql", text.String())
		})
	}
}

// one returns a Rollout without a release: only the stable version exists.
func one(t *testing.T) Release {
	t.Helper()
	rel := web(t)
	rel.New, rel.StableOnly = rel.Stable, true
	return rel
}

// TestSingle queries the only version before a release with each row. The answer counts as the
// stable version.
func TestSingle(t *testing.T) {
	for _, row := range Rows {
		for _, ask := range []func(Release, Dialect, time.Duration) (string, error){row.RequestsQuery, row.DurationsQuery} {
			asked, err := ask(one(t), Dialect{}, 30*time.Second)
			if err != nil || strings.Contains(asked, `"new"`) || !strings.Contains(asked, `"stable"`) {
				t.Errorf("%s: got %s, %v", row.Name, asked, err)
			}
		}
	}
	counts, err := UserCountsQuery(`checkout_failures_total{pod=~"$pods"}`, `checkouts_total{pod=~"$pods"}`, nil, one(t), Dialect{}, 30*time.Second)
	if err != nil || strings.Contains(counts, `"new"`) || strings.Count(counts, `"stable"`) != 2 {
		t.Errorf("counters of a user: got %s, %v", counts, err)
	}
}

func TestUserQueries(t *testing.T) {
	counts, err := UserCountsQuery(`checkout_failures_total{pod=~"$pods"}`, "checkouts_total{ pod =~ '$pods', tier='$tier' }", map[string]string{"tier": "a/b"}, web(t), Dialect{}, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	number, err := UserNumberQuery("max(rate(jvm_heap_bytes{pod=~`$pods`,namespace=\"$namespace\"}[$window])) > bool $heap", map[string]string{"heap": "0.9"}, web(t), 90*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "user.promql", "# Auto counts\n"+counts+"\n# Auto number\n"+number+"\n")
}

// TestNewborn compares the increment query with a file. hack/prometheus runs the query for restarts
// of counters and targets.
func TestNewborn(t *testing.T) {
	var text strings.Builder
	for _, newborn := range []Newborn{Known, Zero, Skip} {
		fmt.Fprintf(&text, "# %s\nsum(%s)\n", newborn, withoutResets(incrementQuery("m", newborn, up, 30*time.Second), targetLabels("pod"), 30*time.Second, "m"))
	}
	golden.File(t, "increments.promql", text.String())
	if got := incrementQuery("m", "", up, 500*time.Millisecond); !strings.Contains(got, "up offset 500ms == 1") {
		t.Error(got)
	}
}

func TestFor(t *testing.T) {
	for _, test := range []struct {
		routers []string
		want    string
	}{
		{nil, "Istio sidecar, Linkerd, OpenTelemetry, OpenTelemetry (pushed), http_requests_total"},
		{[]string{"Ingress/nginx"}, "ingress-nginx, Istio sidecar, Linkerd, OpenTelemetry, OpenTelemetry (pushed), http_requests_total"},
		{[]string{"Ingress/mse"}, "Istio sidecar, Linkerd, OpenTelemetry, OpenTelemetry (pushed), http_requests_total"},
		{[]string{"Ingress/aws-alb", "HTTPRoute"}, "Traefik, Istio sidecar, Istio waypoint, Linkerd, OpenTelemetry, OpenTelemetry (pushed), http_requests_total"},
	} {
		var names []string
		for _, row := range RowsFor(test.routers...) {
			names = append(names, row.Name)
		}
		if got := strings.Join(names, ", "); got != test.want {
			t.Errorf("%v: got %s, want %s", test.routers, got, test.want)
		}
	}
}

func TestPods(t *testing.T) {
	long := strings.Repeat("a", 60)
	many := make([]string, 201)
	for i := range many {
		many[i] = fmt.Sprintf("web-%d", i)
	}
	for _, test := range []struct {
		name  string
		make  func(...string) (Pods, error)
		names []string
		want  string
		err   string
	}{
		{"names", PodsByName, []string{"web-1", "web.x-0", "web-1"}, "web-1|web[.]x-0", ""},
		{"no names", PodsByName, nil, "", ""},
		{"generated", PodsOfOwners, []string{"web-5d8f"}, "web-5d8f-.*", ""},
		{"a long name is cut", PodsOfOwners, []string{long}, long[:58] + ".*", ""},
		{"not a name", PodsByName, []string{`x"} or vector(0)`}, "", `"x\"} or vector(0)" is not a name of pods`},
		{"a pattern", PodsByName, []string{"web|.*"}, "", `"web|[.]*" is not a name of pods`},
		{"many", PodsByName, many, "", "201 pods are too many for one query, which can name 200"},
	} {
		got, err := test.make(test.names...)
		if string(got) != test.want || message(err) != test.err {
			t.Errorf("%s: got %q, %q; want %q, %q", test.name, got, message(err), test.want, test.err)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func row(t *testing.T, name string) Row {
	t.Helper()
	for _, row := range Rows {
		if row.Name == name {
			return row
		}
	}
	t.Fatalf("no row %s", name)
	return Row{}
}

// TestRefused checks that impossible queries are refused before anything is sent.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		row  string
		edit func(*Release)
		want string
	}{
		{"ingress-nginx", func(r *Release) { r.Ingresses = nil }, "ingress-nginx: the release has no Ingress"},
		{"ingress-nginx", func(r *Release) { r.Ingresses = []string{`web"} or vector(1) #`} }, `"web\"} or vector(1) #" is not a name of the Kubernetes API`},
		{"ingress-nginx", func(r *Release) { r.Namespace = "" }, "the release has no namespace"},
		{"Istio waypoint", func(r *Release) { r.New.Service.Name = "" }, "Istio waypoint: a version has no Service of its own"},
		{"Traefik", func(r *Release) { r.New.Service.Ports = nil }, "Traefik: a version has no Service of its own with ports"},
		{"Istio waypoint", func(r *Release) { r.New.Service = r.Stable.Service }, `Istio waypoint: label destination_service_name cannot tell the versions apart, both are "web"`},
		{"Linkerd", func(r *Release) { r.New.Pods = `web"} or m{a="` }, `"web\"} or m{a=\"" is not a pattern of names`},
		{"Linkerd", func(r *Release) { r.Stable.Pods = "" }, "Linkerd: a version has no pods"},
	} {
		rel := web(t)
		test.edit(&rel)
		if _, err := row(t, test.row).RequestsQuery(rel, Dialect{}, time.Second); message(err) != test.want {
			t.Errorf("%s: got %q, want %q", test.row, message(err), test.want)
		}
	}
}

func TestUserRefused(t *testing.T) {
	for _, test := range []struct {
		text string
		args map[string]string
		want string
	}{
		{`m{pod=~"$pod"}`, nil, "total: $pod has no value; known are $namespace, $pods, $service, $window, $workload"},
		{`m{a="$a"}`, map[string]string{"a": `"} or vector(0)`}, `total: args.a: "\"} or vector(0)" has a character that is none of A-Z a-z 0-9 _ . : / -`},
		{`m`, map[string]string{"pods": ".."}, "total: args.pods: $pods is a variable of the release; choose another name"},
		{`sum(m)`, nil, `total: name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`},
		{`m{a="b"} or x`, nil, `total: name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`},
		{`m{a="b\"} or x"}, 0)`, nil, `total: name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`},
		{`m{a=~"b|$"}`, nil, ""},
		{"m{a='b\\'', c!~`x`, d!=\"\", }", nil, ""},
		{`m{a="$a"}`, map[string]string{"a": ""}, ""},
	} {
		if _, err := UserCountsQuery("bad_total", test.text, test.args, web(t), Dialect{}, time.Second); message(err) != test.want {
			t.Errorf("%s: got %q, want %q", test.text, message(err), test.want)
		}
	}
}
