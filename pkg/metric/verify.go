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

// ofRelease are the names that a text gets from the release, with a value of each.
var ofRelease = map[string]string{"namespace": "x", "pods": "x", "service": "x", "window": "30s", "workload": "x"}

// VerifyNumber returns what is wrong with a query for one number, as far as that is known without a
// source. It does not parse PromQL: sources have dialects of it, such as MetricsQL. So it refuses only
// what is an error in all of them.
func VerifyNumber(text string) error {
	filled, err := fillSample(text)
	if err != nil {
		return err
	}
	return verify(filled)
}

// VerifyCounter returns what is wrong with the selector of a counter.
func VerifyCounter(text string) error {
	filled, err := fillSample(text)
	if err != nil {
		return err
	}
	if err := verify(filled); err != nil {
		return err
	}
	if !selector.MatchString(filled) {
		return errors.New(`name one counter, as checkouts_total{pod=~"$pods"}; its increments are taken for you`)
	}
	return nil
}

// fillSample sets any values in place of the names of a release.
func fillSample(text string) (string, error) {
	var unknown string
	filled := placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := ofRelease[name[1:]]
		if !ok && unknown == "" {
			unknown = name
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("%s has no value; known are $%s", unknown, strings.Join(slices.Sorted(maps.Keys(ofRelease)), ", $"))
	}
	return filled, nil
}

// tokens are the parts of a query that verify looks at: comments, strings, operators that match a
// regular expression, and brackets.
var tokens = regexp.MustCompile("(?s)#[^\n]*|" + quoted + "|=~|!~|[][(){}\"'`]|\\S")

var brackets = map[string]string{"(": ")", "[": "]", "{": "}"}

// verify returns what is wrong with a query: it is empty, a string or a bracket has no end, or a regular
// expression has no meaning.
func verify(text string) error {
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

// verifyPattern returns what is wrong with the string of a matcher.
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
