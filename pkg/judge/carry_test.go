// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCarryText checks that a carry survives being stored in a status.
func TestCarryText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 0, 500e6, time.UTC)
	for _, c := range []Carry{
		{},
		{Is: Running, Since: at},
		{Is: Failed, Since: at, Until: at.Add(time.Minute), Run: -3, Value: 5.3e8, Says: `code 500, "no way" \n`},
		{
			Is: Passed, Since: at, Until: at.Add(time.Minute),
			Harm: Ledger{[]float64{-1e15, 0, 2.125}, []Pair{{Count{1210.5, 50}, Count{10871, 11}}}, []float64{0.11}, 7},
			Safe: Ledger{[]float64{3.25}, []Pair{{Count{1, 0}, Count{0, 0}}, {Count{2, 1}, Count{0, 0}}}, []float64{0, 1.5}, 2},
			Last: []Pair{{Count{121, 5}, Count{1087, 1}}}, Ended: at,
		},
	} {
		if diff := cmp.Diff(c, ParseCarry(c.String())); diff != "" {
			t.Errorf("%q reads back (-want +got):\n%s", c, diff)
		}
	}
}

// TestForeignCarry checks that a text that Weir did not write is not used as evidence.
func TestForeignCarry(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "Failed", `Great 0 0 0 0 0 - - - 0 - - - - 0 ""`, `Failed x 0 0 0 0 - - - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 1,x - - 0 - - - - 0 ""`,
		`Failed 0 0 0 0 0 - 1,2,3 - 0 - - - - 0 ""`, `Failed 0 0 0 0 -1 - - - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 - - - 0 - - - - - 0 ""`,
		`Failed 0 0 0 0 0 - - - 0 - - - - 0`, `Failed 0 0 0 0 0 - - - 0 - - - - 0 "x`, `Failed 0 0 0 0 0 - - - 0 - - - - 0 "x" 1`,
		`Failed 0 0 0 0 0 - - - 0 - - - 1,2 0 ""`, `Failed 0 0 0 0 0 - - 0 - - 0 ""`,
		`Failed 0 0 0 NaN 0 - - - 0 - - - - 0 ""`, `Failed 0 0 0 -Inf 0 - - - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 NaN - - 0 - - - - 0 ""`,
		`Failed 0 0 0 0 0 -Inf - - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 - 1,2,3,+Inf - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 - - Inf 0 - - - - 0 ""`,
		`Failed 0 0 0 0 0 - - - 0 - - - NaN,0,0,0 0 ""`,
		`Failed 0 0 0 0 0 1e300 - - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 - -1,0,0,0 - 0 - - - - 0 ""`, `Failed 0 0 0 0 0 - - -1 0 - - - - 0 ""`,
	} {
		if c := ParseCarry(text); c.Is != "" {
			t.Errorf("%q reads as %+v", text, c)
		}
	}
}

// TestSampleBetweenMilliseconds checks that a sample counts once even if its check is folded
// several times: a stored carry has milliseconds, and the time of a sample may be between two of
// them.
func TestSampleBetweenMilliseconds(t *testing.T) {
	t.Parallel()
	c, at := sampleCheck(Number), start.Add(10*time.Second+123_456_789)
	c.Min = new(1.0)
	d := Data{Samples: []Sample{{At: at, Value: 0}}}
	for range c.FailAfter {
		d.Carry = ParseCarry(Fold(c, d, start, at.Add(time.Second)).String())
	}
	if v := Judge(c, d, start, at.Add(time.Second)); v.Is != Running || v.Evidence.Run != -1 {
		t.Errorf("one bad sample is %s, with a run of %d", v.Is, v.Evidence.Run)
	}
}

// TestForeignNumbers checks that no text of a carry causes a panic.
func TestForeignNumbers(t *testing.T) {
	t.Parallel()
	c := with(sampleCheck(Counts), func(c *Check) { c.AtLeast = 0 })
	d := Data{Windows: same(0, 2, pair(0, 1000, 0, 9000))}
	folded := Fold(c, d, start, start.Add(time.Hour))
	fields := strings.Fields(folded.String())
	for i := range fields {
		for _, number := range []string{"NaN", "Inf", "-Inf", "1.7e308", "-1.7e308", "1e29", "-1e29", "-1", "0", "9223372036854775807"} {
			for _, is := range []State{Running, Passed, Failed} {
				foreign := slices.Clone(fields)
				if foreign[i] = number; strings.Contains(fields[i], ",") {
					foreign[i] = number + fields[i][strings.Index(fields[i], ","):]
				}
				foreign[0] = string(is)
				d.Carry = ParseCarry(strings.Join(foreign, " "))
				if v := Judge(c, d, start, start.Add(time.Minute)); v.Why == "" {
					t.Errorf("%s: %+v", foreign, v)
				}
			}
		}
	}
}
