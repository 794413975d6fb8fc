// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/expression"
)

// Each answer is good, bad, or one that the expression says nothing about.
func TestCondition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pass, body string
		code       int
		want       string
	}{
		{expression.Default, "", 200, "good"},
		{expression.Default, "", 302, "bad"},
		{"code >= 200 && code < 300", "", 204, "good"},
		{"body.state == 'open'", `{"state": "open"}`, 200, "good"},
		{"body.state == 'open'", `{"state": "closed"}`, 200, "bad"},
		{"body.state == 'open'", `{"sate": "open"}`, 200, "no such key: state"},
		{"has(body.state) && body.state == 'open'", `{"sate": "open"}`, 200, "bad"},
		{"body.state == 'open'", `{"state": "op`, 200, "no such key"},
		{"body.state == 'open'", ``, 200, "no such key"},
		{"body.state == 'open'", `null`, 200, "no such key"},
		{"body == null", `null`, 200, "good"},
		{"body == 'ok'", `ok`, 200, "good"},
		{"body == 'ok'", `"ok"`, 200, "good"},
		{"body.rate < 5", `{"rate": 4}`, 200, "good"},
		{"body.rate < 5.0", `{"rate": 4}`, 200, "good"},
		{"body.rate < 5", `{"rate": 5.5}`, 200, "bad"},
		{"body.rate < 5", `{"rate": NaN}`, 200, "no such key"},
		{"body.rate < 5", `{"rate": "NaN"}`, 200, "no such overload"},
		{"double(body.rate) < 5.0", `{"rate": "NaN"}`, 200, "NaN values cannot be ordered"},
		{"body < 5", `NaN`, 200, "no such overload"},
		{"body < 5", `1e999`, 200, "no such overload"},
		{"body[0].ok", `[{"ok": true}]`, 200, "good"},
		{"body[1].ok", `[{"ok": true}]`, 200, "index out of bounds"},
		{"body.ok", `{"ok": "yes"}`, 200, "it gives string, neither true nor false"},
		{"body.ok", `{"ok": 1}`, 200, "it gives double, neither true nor false"},
		{"body.all(x, body.all(y, body.all(z, x + y + z >= 0)))", "[" + strings.Repeat("0,", 500) + "0]", 200, "cost limit"},
		{"body == ''", strings.Repeat("[", 60_000), 200, "bad"},
	} {
		pass, err := expression.Compile(c.pass)
		if err != nil {
			t.Errorf("%s: %v", c.pass, err)
			continue
		}
		good, err := pass.Evaluate(c.code, []byte(c.body))
		got := map[bool]string{true: "good", false: "bad"}[good]
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s of %.40q: got %q, want %q", c.pass, c.body, got, c.want)
		}
	}
}

// What can never say true or false is refused when it is written.
func TestCompile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "Syntax error",
		"code":                            "it gives int; give true or false",
		"'yes'":                           "it gives string",
		"code ==":                         "Syntax error",
		"header.a == 'b'":                 "undeclared reference",
		"code == 'x'":                     "no matching overload",
		strings.Repeat("(", 300) + "true": "recursion",
		strings.Repeat(" ", 2000):         "use at most 1024 characters",
	} {
		if _, err := expression.Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

// Whatever a server answers is good, bad, or an error.
func FuzzCondition(f *testing.F) {
	for _, body := range []string{"", "{}", `{"a": 1}`, `[1e999]`, `{"a": {"b": [true]}}`, "\xff"} {
		f.Add(200, []byte(body), "body.a.b[0]")
		f.Add(-1, []byte(body), "string(body).size() > code")
	}
	f.Fuzz(func(t *testing.T, code int, body []byte, text string) {
		pass, err := expression.Compile(text)
		if err != nil {
			return
		}
		if good, err := pass.Evaluate(code, body); good && err != nil {
			t.Errorf("both: %v", err)
		}
	})
}
