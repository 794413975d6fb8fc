// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"strings"
	"testing"
)

// TestVerify checks that queries are refused only if no source can answer them.
func TestVerify(t *testing.T) {
	const known = " has no value; known are $namespace, $pods, $service, $window, $workload"
	for _, test := range []struct{ text, want string }{
		{"up", ""},
		{`max(container_memory_working_set_bytes{pod=~"$pods"})`, ""},
		{`sum(rate(m{pod=~"$pods",namespace="$namespace"}[$window])) or vector(0)`, ""},
		{"m{a='it\\'s',b=~\"x\\\\.y\",c=`)`} > bool 1 # ) is a comment", ""},
		{`label_replace(m, "a", "$1", "b", "(.*)")`, ""},
		{`m{a=~"web$"}`, ""},
		{`m{a=~'a"b'}`, ""},
		{`{"metric.with.dots", pod=~"$pods"}`, ""},
		{`WITH (f = {pod=~"$pods"}) rate(m{f}) default 0`, ""}, // MetricsQL
		{"", "the query is empty"},
		{" \n# nothing", "the query is empty"},
		{"max(up", "( is not closed"},
		{`rate(m{a="b"}[5m)`, `")" stands where "]" must close "["`},
		{`m{a="b"`, "{ is not closed"},
		{"up)", `")" has no opening bracket`},
		{`m{a="b}`, `a string that begins with " has no end`},
		{"m{a=`b}", "a string that begins with ` has no end"},
		{`m{a=~"("}`, `"(" is no regular expression: error parsing regexp: missing closing ): ` + "`^(?:()$`"},
		{`m{a!~'[z-a]'}`, `"[z-a]" is no regular expression: error parsing regexp: invalid character class range: ` + "`z-a`"},
		{`m{a=~"\q"}`, `the string "\q" has an escape that is none`},
		{`m{pod=~"$pod"}`, "$pod" + known},
		{`rate(m[$__rate_interval])`, "$__rate_interval" + known},
	} {
		if got := message(VerifyNumber(test.text)); got != test.want {
			t.Errorf("%s\ngot  %q\nwant %q", test.text, got, test.want)
		}
	}
	for _, test := range []struct{ text, want string }{
		{`checkouts_total{pod=~"$pods"}`, ""},
		{"checkouts_total", ""},
		{`sum(checkouts_total)`, "name one counter"},
		{`rate(m{pod=~"$pods"}[$window])`, "name one counter"},
		{`m{pod=~"$pods"`, "{ is not closed"},
		{`m{pod=~"$podz"}`, "$podz" + known},
	} {
		if got := message(VerifyCounter(test.text)); !strings.HasPrefix(got, test.want) || got != "" && test.want == "" {
			t.Errorf("%s\ngot  %q\nwant %q", test.text, got, test.want)
		}
	}
}

// FuzzVerify checks that a query that passed verification is not refused for its placeholders at a
// release.
func FuzzVerify(f *testing.F) {
	f.Add(`checkouts_total{pod=~"$pods"}`)
	f.Add("m{a='it\\'s'}")
	rel := Release{
		Namespace: "shop", Workload: "web",
		New:    Version{Pods: "web-5d8f-.*", Service: Service{Name: "web-canary"}},
		Stable: Version{Pods: "web-77c4-.*", Service: Service{Name: "web"}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, atWrite := fillSample(text)
		_, atRelease := fillPlaceholders(text, versionNew, nil, rel, 0)
		if (atWrite == nil) != (atRelease == nil) {
			t.Errorf("%q: %v when it is written, %v at a release", text, atWrite, atRelease)
		}
	})
}
