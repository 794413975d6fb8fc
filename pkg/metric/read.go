// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"math"
	"slices"
	"strconv"
)

// Series is one line of an answer: a value for each window, the oldest first.
type Series struct {
	Labels map[string]string
	Values []Value
}

// Value is a number of one window. One that is not known is NaN where the source
// answered with something that is no number.
type Value struct {
	Number float64
	Known  bool
}

// Counts are the requests of one version in one window.
type Counts struct{ Total, Bad float64 }

// Window is what both versions did in it. It is not known where nothing was measured.
type Window struct {
	New, Stable Counts
	Known       bool
}

// Boundary has the windows in which Bad requests took longer.
type Boundary struct {
	Milliseconds float64
	// Label is how the histogram spells the boundary.
	Label   string
	Windows []Window
}

// MaxBoundaries is how many of a histogram are compared.
const MaxBoundaries = 16

// Windows reads the answer to a query for requests.
func (r Row) Windows(answer []Series) []Window {
	return count(answer, func(labels map[string]string) (bool, bool) { return true, r.bad(labels) })
}

// Boundaries reads the answer to a query for durations. A boundary that only one
// version has is left out: its requests would look slow or fast without being so.
func (r Row) Boundaries(answer []Series) []Boundary {
	both, labels := map[string]map[float64]bool{}, map[float64]string{}
	var all []float64
	for _, s := range answer {
		le, err := strconv.ParseFloat(s.Labels[labelBucket], 64)
		if err != nil || math.IsNaN(le) {
			continue
		}
		version := s.Labels[labelVersion]
		if both[version] == nil {
			both[version] = map[float64]bool{}
		}
		both[version][le] = true
		if labels[le] == "" || version == versionStable {
			labels[le] = s.Labels[labelBucket]
		}
		all = append(all, le)
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(le float64) bool {
		fresh, stable := both[versionNew], both[versionStable]
		return math.IsInf(le, 0) || fresh != nil && !fresh[le] || stable != nil && !stable[le]
	})
	var boundaries []Boundary
	for _, le := range all {
		boundaries = append(boundaries, Boundary{Milliseconds: math.Round(le/r.millisecond*1e6) / 1e6, Label: labels[le], Windows: slower(answer, le)})
	}
	return boundaries
}

// slower counts the requests above a boundary: all of them without those up to it. A
// window in which a version has only one of the two numbers is not known.
func slower(answer []Series, boundary float64) []Window {
	class := func(labels map[string]string) (total, bad bool) {
		le, err := strconv.ParseFloat(labels[labelBucket], 64)
		return err == nil && math.IsInf(le, 1), err == nil && le == boundary
	}
	windows, present := count(answer, class), count(ones(answer), class)
	for i := range windows {
		for _, counts := range []*Counts{&windows[i].New, &windows[i].Stable} {
			counts.Bad = counts.Total - counts.Bad
		}
		if p := present[i]; !p.Known || p.New.Bad != p.New.Total || p.Stable.Bad != p.Stable.Total {
			windows[i] = Window{}
		}
	}
	return windows
}

// ones has a one for each number.
func ones(answer []Series) []Series {
	present := make([]Series, 0, len(answer))
	for _, s := range answer {
		values := slices.Clone(s.Values)
		for i := range values {
			values[i].Number = 1
		}
		present = append(present, Series{s.Labels, values})
	}
	return present
}

// Thin leaves as many boundaries as are compared, evenly.
func Thin(boundaries []Boundary) []Boundary {
	if len(boundaries) <= MaxBoundaries {
		return boundaries
	}
	thin := make([]Boundary, 0, MaxBoundaries)
	for i := range MaxBoundaries {
		thin = append(thin, boundaries[i*(len(boundaries)-1)/(MaxBoundaries-1)])
	}
	return thin
}

// Judged returns the boundary that judges a time limit: the first one at or above the limit, or
// else the last one of the histogram. A histogram without boundaries has none.
func Judged(boundaries []Boundary, milliseconds float64) []Boundary {
	i := slices.IndexFunc(boundaries, func(b Boundary) bool { return b.Milliseconds >= milliseconds })
	if i < 0 {
		i = max(len(boundaries)-1, 0)
	}
	return boundaries[i:min(i+1, len(boundaries))]
}

// UserWindows reads the answer to a query that a user wrote as bad and total.
func UserWindows(answer []Series) []Window {
	return count(answer, func(labels map[string]string) (total, bad bool) {
		return labels[labelClass] == classTotal, labels[labelClass] == classBad
	})
}

// count adds up the series of each version. A window with a value that is no count, or
// with more bad requests than requests, is not known.
func count(answer []Series, class func(labels map[string]string) (total, bad bool)) []Window {
	length := 0
	for _, s := range answer {
		length = max(length, len(s.Values))
	}
	windows := make([]Window, length)
	for _, s := range answer {
		total, bad := class(s.Labels)
		for i, v := range s.Values {
			windows[i].add(s.Labels[labelVersion], v, total, bad)
		}
	}
	for i, w := range windows {
		// No comparison with NaN is true.
		if plausible := w.New.Bad <= w.New.Total && w.Stable.Bad <= w.Stable.Total; !plausible {
			windows[i] = Window{}
		}
	}
	return windows
}

// add leaves out gaps: the other version may have numbers.
func (w *Window) add(version string, v Value, total, bad bool) {
	counts := map[string]*Counts{versionNew: &w.New, versionStable: &w.Stable}[version]
	gap := !v.Known && !math.IsNaN(v.Number)
	if counts == nil || gap || !total && !bad {
		return
	}
	if v.Number < 0 {
		v.Number = math.NaN()
	}
	w.Known = true
	if total {
		counts.Total += v.Number
	}
	if bad {
		counts.Bad += v.Number
	}
}
