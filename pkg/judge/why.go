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

const maxMessage = 256

// Invalid begins the message of a check that cannot be judged, whatever is measured.
const Invalid = "cannot run: "

// truncateMessage shortens a message for the status.
func truncateMessage(why string) string {
	if len(why) <= maxMessage {
		return strings.ToValidUTF8(why, "?")
	}
	return strings.ToValidUTF8(why[:maxMessage-len("…")], "") + "…"
}

// evidence returns the numbers of the worst class: the one with the most evidence of harm if the check
// failed, else the one with the least evidence of safety.
func (t *trial) evidence(s Carry, bounds []float64) Evidence {
	if t.Rule == Number {
		return Evidence{Value: s.Value, Run: s.Run}
	}
	ledger, of := s.Safe, testEvidence(s.Safe, safe)
	worst := t.tests[slices.Index(of, slices.Min(of))]
	if s.Is == Failed {
		ledger, of = s.Harm, testEvidence(s.Harm, harm)
		worst = t.tests[slices.Index(of, slices.Max(of))]
	}
	e := Evidence{
		Pair:       ledger.Counts[worst.class],
		About:      t.requestsToPass(&s),
		Dispersion: worst.phi,
		Assumed:    worst.assumed,
		Harm:       expLimited(t.harmOf(s.Harm)),
		HarmNeeded: expLimited(-math.Log(t.Alpha)),
		Safe:       expLimited(safeOf(s.Safe)),
		SafeNeeded: 1 / safeAlpha,
	}
	if i := t.classes[worst.class] - 1; i >= 0 && i < len(bounds) {
		e.Bound = bounds[i]
	}
	return e
}

// expLimited returns exp(log), limited to a number that JSON can represent.
func expLimited(log float64) float64 { return math.Exp(min(log, 600)) }

func (t *trial) message(v Verdict, s Carry, d Data, now time.Time) string {
	text, f := t.reasonText(v, s, d.Nothing, now), d.Fault
	switch open := v.Is == Running || v.Is == Inconclusive; {
	case open && f.Invalid:
		return Invalid + f.Why
	case open && f.Why != "":
		text = fmt.Sprintf("no result from %s since %s: %s", t.Source, timeText(f.Since), f.Why)
	}
	if v.Is == Inconclusive {
		return fmt.Sprintf("undecided after %s: %s", t.Within, text)
	}
	return text
}

func (t *trial) reasonText(v Verdict, s Carry, nothing string, now time.Time) string {
	e := v.Evidence
	switch {
	case v.Is == Skipped:
		return t.skipReason()
	case t.Rule == Number && (nothing == "" || v.Is == Failed || v.Is == Passed):
		return t.sampleText(s)
	case t.Rule == Number && s.Run == 0:
		return nothing
	case t.Rule == Number:
		return t.sampleText(s) + "; now " + nothing
	case v.Is == Failed:
		return e.requestsText() + " until " + timeText(s.Ended) + t.objectiveText() + e.errorRateText()
	case v.Is == Passed:
		return e.requestsText() + "; a version a point worse is ruled out"
	case e.New.Total+e.Old.Total == 0 && nothing != "":
		return nothing
	case e.New.Total+e.Old.Total == 0 && now.Sub(s.Since) >= missingRequestsAfter:
		return fmt.Sprintf("no requests to either version since %s: nothing matches %s", timeText(s.Since), t.Query)
	case e.New.Total == 0 && t.warmUp > 0 && len(s.Last) > 0 && s.Last[0].New.Total > 0:
		return "requests until " + timeText(s.Since.Add(t.After)) + " are not judged: the new pods warm up"
	case e.New.Total == 0:
		return "no requests to the new version yet"
	case e.Old.Total == 0 && t.Traffic != NewOnly && (t.Traffic != StableUnready || !t.objective):
		return fmt.Sprintf("%.0f requests to the new version, none to stable to compare with", e.New.Total)
	}
	return t.undecidedText(e, s)
}

func (t *trial) undecidedText(e Evidence, s Carry) string {
	next := s.Ended.Add(t.length) // the end of the next block, which decides about the last one
	switch {
	case !t.Gate && t.harmOf(s.Harm) >= -math.Log(t.Alpha):
		return e.requestsText() + t.objectiveText() + ": bad until now, measured until " + timeText(next)
	case t.objective && testEvidence(s.Harm, harm)[1] >= math.Log(2/t.Alpha):
		return e.requestsText() + t.objectiveText() + ": stable is as bad"
	case e.Safe >= e.SafeNeeded:
		return e.requestsText() + ": good until now, measured until " + timeText(latestOf(next, s.Since.Add(t.AtLeast)))
	case e.About <= e.New.Total:
		return e.requestsText() + t.objectiveText() + ": neither good nor bad enough yet"
	}
	return fmt.Sprintf("%.0f of about %s requests, %.0f %s", e.New.Total, roundToTwoDigits(e.About), e.New.Bad, e.failureText())
}

// errorRateText says how often such a verdict is wrong: how many releases of a version as good as stable look
// as bad, if failures come in clumps as was measured.
func (e Evidence) errorRateText() string {
	text := "; dispersion " + strconv.FormatFloat(e.Dispersion, 'g', 2, 64)
	if e.Assumed {
		text += " assumed"
	}
	text += ", wrong in less than 1 of " + roundToTwoDigits(min(e.Harm, 1e6)) + " such releases"
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

func timeText(at time.Time) string { return at.UTC().Format(time.TimeOnly) }

func (t *trial) objectiveText() string {
	if !t.objective {
		return ""
	}
	return "; objective " + strconv.FormatFloat(100-100*t.Objective, 'g', 6, 64) + " %"
}

// requestsText reads "50 of 1210 requests failed (4.1 %), stable 11 of 10871 (0.1 %)".
func (e Evidence) requestsText() string {
	text := fmt.Sprintf("%.0f of %.0f requests %s (%s)", e.New.Bad, e.New.Total, e.failureText(), e.New.percentText())
	if e.Old.Total > 0 {
		text += fmt.Sprintf(", stable %.0f of %.0f (%s)", e.Old.Bad, e.Old.Total, e.Old.percentText())
	}
	return text
}

func (e Evidence) failureText() string {
	if e.Bound > 0 {
		return fmt.Sprintf("took longer than %g ms", e.Bound)
	}
	return "failed"
}

func (c Count) percentText() string {
	share := 100 * c.Bad / max(c.Total, math.SmallestNonzeroFloat64)
	switch {
	case c.Bad > 0 && share < 0.01:
		return "below 0.01 %"
	case share >= 10:
		return fmt.Sprintf("%.0f %%", share)
	}
	return strconv.FormatFloat(share, 'g', 2, 64) + " %"
}

// sampleText reads "5.3e+08 is above 5e+08, 2 of 3 in a row".
func (t *trial) sampleText(s Carry) string {
	switch {
	case s.Run == 0 && t.warmUp > 0 && s.Until.After(s.Since):
		return "numbers until " + timeText(t.firstSampleTime(&s)) + " are not judged: the new pods warm up"
	case s.Run == 0:
		return "nothing was measured yet"
	case s.Says != "" && t.FailAfter == 1:
		return s.Says
	case s.Says != "":
		return fmt.Sprintf("%s, %d of %d in a row", s.Says, max(s.Run, -s.Run), t.FailAfter)
	}
	limit := t.brokenLimit(s.Value)
	if limit == "" {
		limit = "within its limits"
	}
	return fmt.Sprintf("%.6g is %s, %d of %d in a row", s.Value, limit, max(s.Run, -s.Run), t.FailAfter)
}

// roundToTwoDigits rounds to two digits: 450, 210000.
func roundToTwoDigits(x float64) string {
	unit := 1.0
	for x >= 100*unit {
		unit *= 10
	}
	return strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
}
