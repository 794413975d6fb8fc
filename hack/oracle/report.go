// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
)

// report collects what was found.
type report struct {
	out                      io.Writer
	verbose                  bool
	all                      bool
	cases, requests, unknown int
	// seen counts the differences of each row of the table, by its reason.
	seen map[string]int
}

// note prints a difference with its class.
func (r *report) note(d difference) {
	for i := range table {
		k := &table[i]
		if !k.matches(d) {
			continue
		}
		r.seen[k.reason]++
		if r.verbose {
			fmt.Fprintf(r.out, "%s: %s\n", k.class, d)
		}
		return
	}
	r.unknown++
	fmt.Fprintf(r.out, "UNKNOWN: %s\n", d)
}

// end prints the sums.
func (r *report) end() error {
	fmt.Fprintf(r.out, "%d cases, %d requests\n", r.cases, r.requests)
	var unused int
	for i := range table {
		k := &table[i]
		if r.seen[k.reason] == 0 && r.all {
			unused++
			fmt.Fprintf(r.out, "UNUSED: %s: %s\n", k.class, k.reason)
			continue
		}
		if n := r.seen[k.reason]; n > 0 {
			fmt.Fprintf(r.out, "%5d %s: %s\n", n, k.class, k.reason)
		}
	}
	if r.unknown > 0 {
		return fmt.Errorf("%d differences are not known", r.unknown)
	}
	if unused > 0 {
		return errors.New("the table has rows for differences that there are none of")
	}
	return nil
}
