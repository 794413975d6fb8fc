// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is the carry in one line, for a status: its state, its two times in milliseconds,
// its last samples, and for harm and safety the windows and two lists of numbers.
func (c Carry) String() string {
	if c.Is == "" {
		return ""
	}
	fields := []string{string(c.Is), millis(c.Since), millis(c.Until), strconv.Itoa(c.Run), short(c.Value)}
	for _, l := range []Ledger{c.Harm, c.Safe} {
		fields = append(fields, strconv.Itoa(l.Windows), list(l.Logs), list(flat(l.Counts)))
	}
	return strings.Join(fields, " ")
}

// ParseCarry reads what String wrote. What it cannot read is no carry: the data is judged
// from its beginning.
func ParseCarry(text string) Carry {
	fields := strings.Fields(text)
	if len(fields) != 11 {
		return Carry{}
	}
	states := []State{Running, Passed, Failed, Inconclusive, Skipped}
	since, errSince := strconv.ParseInt(fields[1], 10, 64)
	until, errUntil := strconv.ParseInt(fields[2], 10, 64)
	run, errRun := strconv.Atoi(fields[3])
	value, errValue := strconv.ParseFloat(fields[4], 64)
	c := Carry{Is: State(fields[0]), Since: instant(since), Until: instant(until), Run: run, Value: value}
	ok := slices.Contains(states, c.Is) && errSince == nil && errUntil == nil && errRun == nil && errValue == nil
	for i, l := range []*Ledger{&c.Harm, &c.Safe} {
		windows, err := strconv.Atoi(fields[5+3*i])
		logs, readLogs := parseList(fields[6+3*i])
		counts, readCounts := parseList(fields[7+3*i])
		ok = ok && err == nil && windows >= 0 && readLogs && readCounts && len(counts)%4 == 0
		l.Windows, l.Logs = windows, logs
		for four := range slices.Chunk(counts, 4) {
			if len(four) == 4 {
				l.Counts = append(l.Counts, Pair{Count{four[0], four[1]}, Count{four[2], four[3]}})
			}
		}
	}
	if !ok {
		return Carry{}
	}
	return c
}

func millis(at time.Time) string {
	if at.IsZero() {
		return "0"
	}
	return strconv.FormatInt(at.UnixMilli(), 10)
}

func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

func flat(counts []Pair) []float64 {
	var all []float64
	for _, p := range counts {
		all = append(all, p.New.Total, p.New.Bad, p.Old.Total, p.Old.Bad)
	}
	return all
}

// none stands for a list without numbers.
const none = "-"

func list(of []float64) string {
	if len(of) == 0 {
		return none
	}
	texts := make([]string, 0, len(of))
	for _, n := range of {
		texts = append(texts, short(n))
	}
	return strings.Join(texts, ",")
}

func short(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

func parseList(text string) (all []float64, ok bool) {
	if text == none {
		return nil, true
	}
	for of := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(of, 64)
		if err != nil {
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}
