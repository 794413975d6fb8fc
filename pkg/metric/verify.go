// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// releasePlaceholders are the placeholders for names of the release, with a sample value of each.
var releasePlaceholders = map[string]string{"namespace": "x", "pods": "x", "service": "x", "window": "30s", "workload": "x"}

// VerifyNumber returns an error for an invalid query for one number. It does not parse PromQL,
// because sources have dialects of it, such as MetricsQL. So it rejects only what is an error in
// all dialects.
func VerifyNumber(text string) error {
	filled, err := fillSample(text)
	if err != nil {
		return err
	}
	return verifySyntax(filled)
}

// VerifyCounter returns an error for an invalid selector of a counter.
func VerifyCounter(text string) error {
	filled, err := fillSample(text)
	if err != nil {
		return err
	}
	if err := verifySyntax(filled); err != nil {
		return err
	}
	if !selectorRegexp.MatchString(filled) {
		return errors.New(`name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`)
	}
	return nil
}

// fillSample replaces the placeholders of a text by sample values.
func fillSample(text string) (string, error) {
	var unknown string
	filled := placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := releasePlaceholders[name[1:]]
		if !ok && unknown == "" {
			unknown = name
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("%s has no value; known are $%s", unknown, strings.Join(slices.Sorted(maps.Keys(releasePlaceholders)), ", $"))
	}
	return filled, nil
}

// tokens are the parts of a query that verifySyntax examines: comments, strings, operators that
// match a regular expression, and brackets.
var tokens = regexp.MustCompile("(?s)#[^\n]*|" + quotedPattern + "|=~|!~|[][(){}\"'`]|\\S")

var brackets = map[string]string{"(": ")", "[": "]", "{": "}"}

// verifySyntax returns an error for a query that is empty, has an unterminated string or bracket,
// or has an invalid regular expression.
func verifySyntax(text string) error {
	var open []string
	empty, matches := true, false
	for _, token := range tokens.FindAllString(text, -1) {
		if strings.HasPrefix(token, "#") {
			continue
		}
		empty = false
		switch last := len(open) - 1; {
		case token == `"` || token == "'" || token == "`":
			return fmt.Errorf("a string that begins with %s has no end", token)
		case brackets[token] != "":
			open = append(open, token)
		case last >= 0 && token == brackets[open[last]]:
			open = open[:last]
		case (token == ")" || token == "]" || token == "}") && last >= 0:
			return fmt.Errorf("%q stands where %q must close %q", token, brackets[open[last]], open[last])
		case token == ")" || token == "]" || token == "}":
			return fmt.Errorf("%q has no opening bracket", token)
		case matches && len(token) > 1:
			if err := verifyPattern(token); err != nil {
				return err
			}
		}
		matches = token == "=~" || token == "!~"
	}
	switch {
	case empty:
		return errors.New("the query is empty")
	case len(open) > 0:
		return fmt.Errorf("%s is not closed", open[len(open)-1])
	}
	return nil
}

// verifyPattern returns an error for an invalid string or regular expression of a matcher.
func verifyPattern(text string) error {
	inner := text[1 : len(text)-1]
	if text[0] == '\'' {
		text = `"` + strings.ReplaceAll(strings.ReplaceAll(inner, `\'`, "'"), `"`, `\"`) + `"`
	}
	pattern, err := strconv.Unquote(text)
	if err != nil {
		return fmt.Errorf("the string %s has an escape that is none", text)
	}
	if _, err := regexp.Compile("^(?:" + pattern + ")$"); err != nil {
		return fmt.Errorf("%q is no regular expression: %w", pattern, err)
	}
	return nil
}
