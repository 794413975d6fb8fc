// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxWhy = 256

// clip shortens a message for the status.
func clip(why string) string {
	if len(why) <= maxWhy {
		return strings.ToValidUTF8(why, "?")
	}
	return strings.ToValidUTF8(why[:maxWhy-len("…")], "") + "…"
}

// evidence returns the numbers of the worst class: the one with the most evidence of harm if the check
// failed, else the one with the least evidence of safety.
func (t *trial) evidence(s Carry, bounds []float64) Evidence {
	if t.Rule == Number {
		return Evidence{Value: s.Value, Run: s.Run}
	}
	ledger, of := s.Safe, means(s.Safe, safe)
	worst := t.tests[slices.Index(of, slices.Min(of))]
	if s.Is == Failed {
		ledger, of = s.Harm, means(s.Harm, harm)
		worst = t.tests[slices.Index(of, slices.Max(of))]
	}
	e := Evidence{
		Pair:       ledger.Counts[worst.class],
		About:      t.requestsToPass(&s),
		Dispersion: worst.phi,
		Assumed:    worst.assumed,
		Harm:       finite(t.harmOf(s.Harm)),
		HarmNeeded: finite(-math.Log(t.Alpha)),
		Safe:       finite(safeOf(s.Safe)),
		SafeNeeded: 1 / safeAlpha,
	}
	if i := t.classes[worst.class] - 1; i >= 0 && i < len(bounds) {
		e.Bound = bounds[i]
	}
	return e
}

// finite returns exp(log), limited to a number that JSON can represent.
func finite(log float64) float64 { return math.Exp(min(log, 600)) }

func (t *trial) why(v Verdict, s Carry, d Data, now time.Time) string {
	text, f := t.reason(v, s, d.Nothing, now), d.Fault
	switch open := v.Is == Running || v.Is == Inconclusive; {
	case open && f.Invalid:
		return "the check is invalid: " + f.Why
	case open && f.Why != "":
		text = fmt.Sprintf("no result from %s since %s: %s", t.Source, clock(f.Since), f.Why)
	}
	if v.Is == Inconclusive {
		return fmt.Sprintf("undecided after %s: %s", t.Within, text)
	}
	return text
}

func (t *trial) reason(v Verdict, s Carry, nothing string, now time.Time) string {
	e := v.Evidence
	switch {
	case v.Is == Skipped:
		return t.skip()
	case t.Rule == Number && (nothing == "" || v.Is == Failed || v.Is == Passed):
		return t.sample(s)
	case t.Rule == Number && s.Run == 0:
		return nothing
	case t.Rule == Number:
		return t.sample(s) + "; now " + nothing
	case v.Is == Failed:
		return e.requests() + " until " + clock(s.Ended) + t.aim() + e.promise()
	case v.Is == Passed:
		return e.requests() + "; a version a point worse is ruled out"
	case e.New.Total+e.Old.Total == 0 && nothing != "":
		return nothing
	case e.New.Total+e.Old.Total == 0 && now.Sub(s.Since) >= unknownFor:
		return fmt.Sprintf("no requests to either version since %s: nothing matches %s", clock(s.Since), t.Query)
	case e.New.Total == 0 && t.warmUp > 0 && len(s.Last) > 0 && s.Last[0].New.Total > 0:
		return "requests until " + clock(s.Since.Add(t.After)) + " are not judged: the new pods warm up"
	case e.New.Total == 0:
		return "no requests to the new version yet"
	case e.Old.Total == 0 && t.Traffic != NewOnly:
		return fmt.Sprintf("%.0f requests to the new version, none to stable to compare with", e.New.Total)
	}
	return t.undecided(e, s)
}

func (t *trial) undecided(e Evidence, s Carry) string {
	next := s.Ended.Add(t.length) // the end of the next block, which decides about the last one
	switch {
	case !t.Gate && t.harmOf(s.Harm) >= -math.Log(t.Alpha):
		return e.requests() + t.aim() + ": bad until now, measured until " + clock(next)
	case t.objective && means(s.Harm, harm)[1] >= math.Log(2/t.Alpha):
		return e.requests() + t.aim() + ": stable is as bad"
	case e.Safe >= e.SafeNeeded:
		return e.requests() + ": good until now, measured until " + clock(latestOf(next, s.Since.Add(t.AtLeast)))
	case e.About <= e.New.Total:
		return e.requests() + t.aim() + ": neither good nor bad enough yet"
	}
	return fmt.Sprintf("%.0f of about %s requests, %.0f %s", e.New.Total, rounded(e.About), e.New.Bad, e.verb())
}

// promise says how often such a verdict is wrong: how many releases of a version as good as stable look
// as bad, if failures come in clumps as was measured.
func (e Evidence) promise() string {
	text := "; dispersion " + strconv.FormatFloat(e.Dispersion, 'g', 2, 64)
	if e.Assumed {
		text += " assumed"
	}
	text += ", wrong in less than 1 of " + rounded(min(e.Harm, 1e6)) + " such releases"
	if e.Old.Total == 0 {
		text += "; an outage looks the same"
	}
	return text
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func clock(at time.Time) string { return at.UTC().Format(time.TimeOnly) }

func (t *trial) aim() string {
	if !t.objective {
		return ""
	}
	return "; objective " + strconv.FormatFloat(100-100*t.Objective, 'g', 6, 64) + " %"
}

// requests reads "50 of 1210 requests failed (4.1 %), stable 11 of 10871 (0.1 %)".
func (e Evidence) requests() string {
	text := fmt.Sprintf("%.0f of %.0f requests %s (%s)", e.New.Bad, e.New.Total, e.verb(), e.New.percent())
	if e.Old.Total > 0 {
		text += fmt.Sprintf(", stable %.0f of %.0f (%s)", e.Old.Bad, e.Old.Total, e.Old.percent())
	}
	return text
}

func (e Evidence) verb() string {
	if e.Bound > 0 {
		return fmt.Sprintf("took longer than %g ms", e.Bound)
	}
	return "failed"
}

func (c Count) percent() string {
	share := 100 * c.Bad / max(c.Total, math.SmallestNonzeroFloat64)
	switch {
	case c.Bad > 0 && share < 0.01:
		return "below 0.01 %"
	case share >= 10:
		return fmt.Sprintf("%.0f %%", share)
	}
	return strconv.FormatFloat(share, 'g', 2, 64) + " %"
}

// sample reads "5.3e+08 is above 5e+08, 2 of 3 in a row".
func (t *trial) sample(s Carry) string {
	switch {
	case s.Run == 0 && t.warmUp > 0 && s.Until.After(s.Since):
		return "numbers until " + clock(t.numbersFrom(&s)) + " are not judged: the new pods warm up"
	case s.Run == 0:
		return "nothing was measured yet"
	case s.Says != "" && t.FailAfter == 1:
		return s.Says
	case s.Says != "":
		return fmt.Sprintf("%s, %d of %d in a row", s.Says, max(s.Run, -s.Run), t.FailAfter)
	}
	limit := t.broken(s.Value)
	if limit == "" {
		limit = "within its limits"
	}
	return fmt.Sprintf("%.6g is %s, %d of %d in a row", s.Value, limit, max(s.Run, -s.Run), t.FailAfter)
}

// rounded rounds to two digits: 450, 210000.
func rounded(x float64) string {
	unit := 1.0
	for x >= 100*unit {
		unit *= 10
	}
	return strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
}
