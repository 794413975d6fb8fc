// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// The header Date shows by how much the clock of a source differs. A date that is missing, is none or
// comes from a cache shows nothing.
func TestSkew(t *testing.T) {
	for _, test := range []struct {
		name, date, age string
		want            time.Duration
	}{
		{"the same", noon.UTC().Format(http.TimeFormat), "", 0},
		{"ahead", noon.Add(2 * time.Minute).UTC().Format(http.TimeFormat), "", 2 * time.Minute},
		{"behind", noon.Add(-2 * time.Minute).UTC().Format(http.TimeFormat), "", -2 * time.Minute},
		{"a cache", noon.Add(-2 * time.Minute).UTC().Format(http.TimeFormat), "120", 0},
		{"no date", "yesterday", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", test.date)
				if test.age != "" {
					w.Header().Set("Age", test.age)
				}
				fmt.Fprint(w, matrix(""))
			}))
			client := dialled(t, url, Config{Now: func() time.Time { return noon }}, local)
			if _, fault := client.Query(t.Context(), noon, question); fault != nil {
				t.Fatal(fault)
			}
			if got := client.Skew(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// An incomplete answer is asked for again, and the answer to that is kept in its place.
func TestAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, matrix(""))
	}))
	client, q := dialled(t, url, Config{}, local), question
	for i, test := range []struct {
		again bool
		want  int
	}{{false, 1}, {false, 1}, {true, 2}, {false, 2}} {
		q.BypassCache = test.again
		if _, fault := client.Query(t.Context(), noon, q); fault != nil {
			t.Fatal(fault)
		}
		if asked != test.want {
			t.Errorf("after question %d the source was asked %d times, want %d", i+1, asked, test.want)
		}
	}
}
