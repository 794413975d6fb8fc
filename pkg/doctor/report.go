// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// IsHealthy reports whether there are no problems.
func IsHealthy(results []Result) bool {
	return !slices.ContainsFunc(results, func(r Result) bool { return r.Status != OK })
}

// Write writes results as text or json.
func Write(w io.Writer, format string, results []Result) error {
	if format == "json" {
		return WriteJSON(w, results)
	}
	WriteText(w, results)
	return nil
}

// WriteText writes results for people.
func WriteText(w io.Writer, results []Result) {
	marks := map[Status]string{OK: "ok", Problem: "PROBLEM", Unknown: "unknown"}
	count := map[Status]int{}
	for _, r := range results {
		count[r.Status]++
		fmt.Fprintf(w, "%-8s %-18s %s\n", marks[r.Status], r.Check, r.What)
		if r.Fix != "" {
			fmt.Fprintf(w, "%-8s %-18s fix: %s\n", "", "", r.Fix)
		}
	}
	switch {
	case IsHealthy(results):
		fmt.Fprintln(w, "\nNo problems found.")
	default:
		fmt.Fprintf(w, "\nProblems: %d, unknown: %d. Fix problems in order: earlier ones often cause later ones.\n", count[Problem], count[Unknown])
	}
}

// WriteJSON writes results for programs.
func WriteJSON(w io.Writer, results []Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Well    bool     `json:"well"`
		Results []Result `json:"results"`
	}{IsHealthy(results), results})
}
