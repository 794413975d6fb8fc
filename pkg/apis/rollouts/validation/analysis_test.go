// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// TestValidateAnalysis checks that each error has the path of the field and the correction.
func TestValidateAnalysis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		analysis string
		want     []string
	}{
		"http":                    {"checks: [{http: {service: health}}]", nil},
		"a gate":                  {"checks: [{name: ticket, gate: true, at: BeforeTraffic, steps: [1, 2], http: {service: tickets, port: 8080, path: '/approved?by=weir', pass: body.state == 'open'}}]", nil},
		"job":                     {"checks: [{name: smoke, at: BeforeTraffic, onFail: Wait, onInconclusive: Pass, job: {cronJob: web-smoke}}]", nil},
		"a gate of PromQL":        {"checks: [{gate: true, failAfter: 2, query: {promql: up, min: '1'}}]", nil},
		"no Service":              {"checks: [{http: {service: ''}}]", []string{"checks[0].http.service: "}},
		"an address":              {"checks: [{http: {service: 'http://metadata'}}]", []string{"checks[0].http.service: Invalid value"}},
		"another namespace":       {"checks: [{http: {service: web.other.svc/x}}]", []string{"checks[0].http.service: Invalid value"}},
		"a large port":            {"checks: [{http: {service: a, port: 65536}}]", []string{"checks[0].http.port: Invalid value: 65536: use a port from 1 to 65535"}},
		"no path":                 {"checks: [{http: {service: a, path: x}}]", []string{`checks[0].http.path: Invalid value: "x": start the path with /`}},
		"a header in it":          {`checks: [{http: {service: a, path: "/x HTTP/1.1\r\nA: b"}}]`, []string{"checks[0].http.path: Invalid value"}},
		"a fragment":              {"checks: [{http: {service: a, path: '/x#y'}}]", []string{`checks[0].http.path: Invalid value: "/x#y": use the path of a URL`}},
		"a long path":             {"checks: [{http: {service: a, path: '/" + strings.Repeat("x", 1024) + "'}}]", []string{"checks[0].http.path: Too long"}},
		"no CEL":                  {"checks: [{http: {service: a, pass: 'code =='}}]", []string{`checks[0].http.pass: Invalid value: "code ==": use an expression in CEL over code and body, such as body.state == 'open': ERROR`}},
		"a number":                {"checks: [{http: {service: a, pass: code}}]", []string{"checks[0].http.pass: Invalid value"}},
		"long CEL":                {"checks: [{http: {service: a, pass: \"body == '" + strings.Repeat("x", 1024) + "'\"}}]", []string{"checks[0].http.pass: Invalid value"}},
		"a warm-up":               {"{afterSeconds: 60, checks: [{afterSeconds: 30, successRate: 99%}, {afterSeconds: 0, use: {kind: Check, name: a}}]}", nil},
		"a warm-up below zero":    {"afterSeconds: -1", []string{"afterSeconds: Invalid value: -1: use seconds from 0 to 3600"}},
		"a long warm-up":          {"{withinSeconds: 86400, checks: [{afterSeconds: 3601, successRate: 99%}]}", []string{"checks[0].afterSeconds: Invalid value: 3601: use seconds from 0 to 3600"}},
		"a warm-up to the end":    {"{afterSeconds: 60, withinSeconds: 60}", []string{"afterSeconds: Invalid value: 60: use less than withinSeconds, which is 60"}},
		"a check's, to the end":   {"{withinSeconds: 60, checks: [{afterSeconds: 90, successRate: 99%}]}", []string{"checks[0].afterSeconds: Invalid value: 90: use less than withinSeconds, which is 60"}},
		"an hour of an hour":      {"afterSeconds: 3600", []string{"afterSeconds: Invalid value: 3600: use less than withinSeconds, which is 3600"}},
		"a warm-up of a job":      {"checks: [{afterSeconds: 30, job: {cronJob: a}}]", []string{"checks[0].afterSeconds: Forbidden: job does not have this field: remove it, or use one of successRate, latency, asGoodAs, query, use"}},
		"a warm-up of a gate":     {"checks: [{afterSeconds: 30, gate: true, query: {promql: up, min: '1'}}]", []string{"checks[0].afterSeconds: Forbidden: a gate"}},
		"counters":                {`checks: [{query: {bad: 'm_bad{pod=~"$pods"}', total: 'm{pod=~"$pods"}'}}]`, nil},
		"no counter":              {`checks: [{query: {bad: 'sum(m_bad)', total: 'm{pod=~"$pods"}'}}]`, []string{`checks[0].query.bad: Invalid value: "sum(m_bad)": name one counter, as checkouts_total{pod=~"$pods"}`}},
		"an unknown variable":     {`checks: [{query: {bad: m_bad, total: 'm{pod=~"$pod"}'}}]`, []string{"checks[0].query.total: Invalid value: \"m{pod=~\\\"$pod\\\"}\": $pod has no value; known are $namespace, $pods"}},
		"no PromQL":               {`checks: [{query: {promql: 'max(rate(m[5m])', max: '1'}}]`, []string{`checks[0].query.promql: Invalid value: "max(rate(m[5m])": ( is not closed`}},
		"no CronJob":              {"checks: [{job: {cronJob: ''}}]", []string{"checks[0].job.cronJob: "}},
		"a gate of a job":         {"checks: [{gate: true, job: {cronJob: a}}]", []string{"checks[0].gate: Forbidden: job does not have this field: remove it, or use one of http, query"}},
		"a job three times":       {"checks: [{failAfter: 3, job: {cronJob: a}}]", []string{"checks[0].failAfter: Forbidden"}},
		"requests before traffic": {"checks: [{at: BeforeTraffic, successRate: 99%}]", []string{"checks[0].at: Forbidden: successRate does not have this field: remove it, or use one of http, job, query, use"}},
		"counters before traffic": {"checks: [{at: BeforeTraffic, query: {bad: m_bad, total: m}}]", []string{"checks[0].at: Forbidden: query.bad and query.total count requests, and the new version gets no requests before the traffic of the step; remove at, or use query.promql with one number"}},
		"a number before traffic": {"checks: [{at: BeforeTraffic, query: {promql: up, min: '1'}}]", nil},
		"another time":            {"checks: [{at: Later, job: {cronJob: a}}]", []string{"checks[0].at: Unsupported value"}},
		"another step":            {"checks: [{steps: [3], job: {cronJob: a}}]", []string{"checks[0].steps[0]: Invalid value: 3: use steps from 1 to 2"}},
		"two of a name":           {"checks: [{job: {cronJob: a}}, {job: {cronJob: b}}]", []string{"checks[1].name: Duplicate value"}},
		"two at once":             {"checks: [{job: {cronJob: a}, http: {service: a}}]", []string{`checks[0]: Invalid value: "http and job": set only one of them`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hub rollouts.Analysis
			if err := v1beta1.Convert_v1beta1_Analysis_To_rollouts_Analysis(decode[v1beta1.Analysis](t, c.analysis), &hub, nil); err != nil {
				t.Fatal(err)
			}
			var path *field.Path
			expect(t, validation.ValidateAnalysis(&hub, 2, path), c.want)
		})
	}
}
