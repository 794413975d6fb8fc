// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String returns the carry in one line, for a status. The fields are: the state; the two times in
// milliseconds; the run and the value of samples; the blocks and three lists of numbers, for harm and for
// safety; the counts of the last block and its end; and the text of the last sample.
func (c Carry) String() string {
	if c.Is == "" {
		return ""
	}
	fields := []string{string(c.Is), formatMillis(c.Since), formatMillis(c.Until), strconv.Itoa(c.Run), formatFloat(c.Value)}
	for _, l := range []Ledger{c.Harm, c.Safe} {
		fields = append(fields, strconv.Itoa(l.Blocks), formatList(l.Logs), formatList(flattenPairs(l.Counts)), formatList(l.Ratios))
	}
	fields = append(fields, formatList(flattenPairs(c.Last)), formatMillis(c.Ended))
	return strings.Join(append(fields, strconv.Quote(c.Says)), " ")
}

// ParseCarry reads the text that String wrote. It returns an empty carry for another text, so that the
// data is judged from its beginning.
func ParseCarry(text string) Carry {
	numbers, quoted, _ := strings.Cut(text, ` "`)
	says, err := strconv.Unquote(`"` + quoted)
	r := fieldReader{fields: strings.Fields(numbers), failed: err != nil || len(says) > maxMessage}
	c := Carry{Is: State(r.next()), Since: r.instant(), Until: r.instant(), Run: int(r.whole()), Value: r.number()}
	c.Harm, c.Safe, c.Last, c.Ended, c.Says = r.ledger(), r.ledger(), r.pairs(), r.instant(), says
	known := slices.Contains([]State{Running, Passed, Failed, Inconclusive, Skipped}, c.Is)
	if r.failed || len(r.fields) > 0 || !known {
		return Carry{}
	}
	return c
}

// fieldReader reads fields in their order, and notes whether one could not be read.
type fieldReader struct {
	fields []string
	failed bool
}

func (r *fieldReader) next() string {
	if len(r.fields) == 0 {
		r.failed = true
		return ""
	}
	field := r.fields[0]
	r.fields = r.fields[1:]
	return field
}

func (r *fieldReader) whole() int64 {
	n, err := strconv.ParseInt(r.next(), 10, 64)
	r.failed = r.failed || err != nil
	return n
}

func (r *fieldReader) number() float64 {
	n, err := strconv.ParseFloat(r.next(), 64)
	r.failed = r.failed || err != nil || math.IsNaN(n) || math.IsInf(n, 0)
	return n
}

func (r *fieldReader) instant() time.Time { return parseMillis(r.whole()) }

func (r *fieldReader) list(smallest float64) []float64 {
	all, ok := parseList(r.next(), smallest)
	r.failed = r.failed || !ok
	return all
}

func (r *fieldReader) ledger() Ledger {
	l := Ledger{Blocks: int(r.whole()), Logs: r.list(-maxStored), Counts: r.pairs(), Ratios: r.list(0)}
	r.failed = r.failed || l.Blocks < 0
	return l
}

func (r *fieldReader) pairs() (pairs []Pair) {
	counts := r.list(0)
	r.failed = r.failed || len(counts)%4 != 0
	for i := 0; i+3 < len(counts); i += 4 {
		pairs = append(pairs, Pair{Count{counts[i], counts[i+1]}, Count{counts[i+2], counts[i+3]}})
	}
	return pairs
}

func formatMillis(at time.Time) string {
	if at.IsZero() {
		return "0"
	}
	return strconv.FormatInt(at.UnixMilli(), 10)
}

func parseMillis(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

func flattenPairs(counts []Pair) []float64 {
	var all []float64
	for _, p := range counts {
		all = append(all, p.New.Total, p.New.Bad, p.Old.Total, p.Old.Bad)
	}
	return all
}

// emptyList stands for a list without numbers.
const emptyList = "-"

func formatList(of []float64) string {
	if len(of) == 0 {
		return emptyList
	}
	texts := make([]string, 0, len(of))
	for _, n := range of {
		texts = append(texts, formatFloat(n))
	}
	return strings.Join(texts, ",")
}

func formatFloat(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// maxStored is above all evidence, counts and ratios that a release can have.
const maxStored = 1e30

// parseList reads numbers from smallest to largest.
func parseList(text string, smallest float64) (all []float64, ok bool) {
	if text == emptyList {
		return nil, true
	}
	for of := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(of, 64)
		if err != nil || !(n >= smallest && n <= maxStored) { // also if n is NaN
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}
