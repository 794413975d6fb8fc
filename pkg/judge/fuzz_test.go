// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// tape reads numbers off a fuzzer's bytes, and zeros after these.
type tape []byte

func (t *tape) byte() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

// number is mostly a count, at times any float64.
func (t *tape) number() float64 {
	switch b := t.byte(); {
	case b < 200:
		return float64(b)
	case b < 220:
		return math.Pow10(int(b) - 200)
	case b < 240:
		return [...]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64}[b%5]
	}
	var bits [8]byte
	for i := range bits {
		bits[i] = t.byte()
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(bits[:]))
}

func (t *tape) seconds() time.Duration { return time.Duration(t.byte()) * time.Second }

func (t *tape) check() Check {
	c := sampleCheck(rules[int(t.byte())%len(rules)])
	c.Traffic = []Traffic{Both, StableOnly, NewOnly}[t.byte()%3]
	c.Lag, c.AtLeast, c.After = t.seconds(), t.seconds(), t.seconds()*time.Duration(t.byte()&1)
	if odd := t.byte(); odd&1 > 0 {
		c.Objective, c.Below, c.Alpha = t.number(), t.number(), t.number()
		c.Ratio, c.Margin = t.number(), t.number()
	} else if odd&2 > 0 {
		limit := t.number()
		c.Min, c.Max, c.FailAfter = &limit, &limit, int(t.byte())-3
	}
	return c
}

func (t *tape) pairs() []Pair {
	var of []Pair
	for range t.byte() % 4 {
		of = append(of, pair(t.number(), t.number(), t.number(), t.number()))
	}
	return of
}

func (t *tape) data() Data {
	d := Data{Fault: Fault{Since: start.Add(t.seconds()), Invalid: t.byte()&1 > 0}}
	d.Scrape = t.seconds()
	for range t.byte() % 4 {
		d.Pods = append(d.Pods, Count{t.number(), t.number()})
	}
	if t.byte()&1 > 0 {
		d.Fault.Why = string([]byte{t.byte(), t.byte()})
	}
	for range t.byte() % 20 {
		d.Bounds = append(d.Bounds, t.number())
	}
	for k := 0; len(*t) > 0; k += 1 + int(t.byte()%9)/8 {
		d.Windows = append(d.Windows, Window{Start: window(k), Known: t.byte() > 0, Counts: t.pairs()})
		d.Past = append(d.Past, Window{Known: true, Counts: t.pairs()})
		d.Samples = append(d.Samples, Sample{At: window(k + 1), Value: t.number()})
	}
	return d
}

// FuzzJudge checks verdicts of arbitrary data: a verdict fits into the status, is reproducible, has
// a time for the next judgement, and is never withdrawn.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 60, 0, 0, 0, 0, 1, 1, 150, 150, 0, 200, 0, 0, 1, 1, 1, 150, 150, 0, 200, 0, 0, 1})
	f.Add([]byte{2, 0, 0, 60, 0, 0, 0, 0, 2, 100, 200, 1, 3, 1, 100, 0, 200, 50, 100, 90, 200, 9, 100, 9, 200, 0, 0, 1})
	f.Add([]byte{4, 0, 15, 0, 2, 9, 4, 0, 0, 0, 0, 1, 0, 0, 5, 0, 1, 0, 0, 220, 0, 1, 0, 0, 12, 0, 1, 0, 0, 12, 0})
	f.Add([]byte{1, 2, 0, 0, 1, 203, 220, 240, 1, 2, 3, 4, 5, 6, 7, 63, 221, 0, 9, 0, 1, 1, 2, 3, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		tape := tape(bytes)
		since := start.Add(tape.seconds())
		now := since.Add(time.Duration(tape.byte()) * 16 * time.Second)
		c, d := tape.check(), tape.data()
		v := Judge(c, d, since, now)
		if again := Judge(c, d, since, now); again != v {
			t.Errorf("another time: %+v, then %+v", v, again)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Error(err)
		}
		if v.Why == "" || len(v.Why) > maxMessage || !utf8.ValidString(v.Why) {
			t.Errorf("why: %q", v.Why)
		}
		if !slices.Contains([]State{Running, Passed, Failed, Inconclusive, Skipped}, v.Is) || v.Wake < 0 || (v.Is == Running) && v.Wake == 0 {
			t.Errorf("%+v", v)
		}
		carry := Fold(c, d, since, now.Add(-c.Lag))
		if _, err := json.Marshal(carry); err != nil {
			t.Error(err)
		}
		if later := Judge(c, d, since, now.Add(time.Hour)); v.Is == Failed && later.Is != Failed || v.Is == Passed && later.Is != Passed && later.Is != Failed {
			t.Errorf("taken back: %+v, then %+v", v, later)
		}
		if read := ParseCarry(carry.String()); read.String() != ParseCarry(read.String()).String() {
			t.Errorf("%s reads back as %s", carry, read)
		}
		if carry.Is == Failed {
			d.Carry = carry
			if folded := Judge(c, d, since.Add(time.Hour), now.Add(2*time.Hour)); folded.Is != Failed {
				t.Errorf("a new step forgets a failure: %+v", folded)
			}
		}
	})
}
