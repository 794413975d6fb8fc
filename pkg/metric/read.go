// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"math"
	"slices"
	"strconv"
)

// Series is one series of an answer: a value for each window, the oldest first.
type Series struct {
	Labels map[string]string
	Values []Value
}

// Value is the number of one window. If the source answered with something that is no number, Known
// is false and Number is NaN.
type Value struct {
	Number float64
	Known  bool
}

// Counts are the requests of one version in one window.
type Counts struct{ Total, Bad float64 }

// Window has the requests of both versions. Known is false if nothing was measured.
type Window struct {
	New, Stable Counts
	Known       bool
}

// Boundary is a histogram boundary. In its windows, bad requests are those that took longer.
type Boundary struct {
	Milliseconds float64
	// Label is the boundary as the histogram spells it.
	Label   string
	Windows []Window
}

// MaxBoundaries is the maximum number of boundaries of a histogram that are compared.
const MaxBoundaries = 16

// Windows reads the answer to RequestsQuery.
func (r Row) Windows(answer []Series) []Window {
	return countWindows(answer, func(labels map[string]string) (bool, bool) { return true, r.isFailure(labels) })
}

// Boundaries reads the answer to DurationsQuery. It leaves out a boundary that only one version
// has, because the requests of the other version would falsely look slow or fast.
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
		boundaries = append(boundaries, Boundary{Milliseconds: math.Round(le/r.millisecond*1e6) / 1e6, Label: labels[le], Windows: windowsAbove(answer, le)})
	}
	return boundaries
}

// windowsAbove counts the requests above a boundary: all requests without those up to the boundary.
// A window in which a version has only one of the two numbers is not known.
func windowsAbove(answer []Series, boundary float64) []Window {
	class := func(labels map[string]string) (total, bad bool) {
		le, err := strconv.ParseFloat(labels[labelBucket], 64)
		return err == nil && math.IsInf(le, 1), err == nil && le == boundary
	}
	windows, present := countWindows(answer, class), countWindows(presence(answer), class)
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

// presence returns the series with 1 in place of each number.
func presence(answer []Series) []Series {
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

// ThinBoundaries selects at most MaxBoundaries boundaries, evenly.
func ThinBoundaries(boundaries []Boundary) []Boundary {
	if len(boundaries) <= MaxBoundaries {
		return boundaries
	}
	thin := make([]Boundary, 0, MaxBoundaries)
	for i := range MaxBoundaries {
		thin = append(thin, boundaries[i*(len(boundaries)-1)/(MaxBoundaries-1)])
	}
	return thin
}

// BoundaryForLimit returns the boundary that judges a time limit: the first one at or above the
// limit, or else the last one of the histogram. It returns none for a histogram without boundaries.
func BoundaryForLimit(boundaries []Boundary, milliseconds float64) []Boundary {
	i := slices.IndexFunc(boundaries, func(b Boundary) bool { return b.Milliseconds >= milliseconds })
	if i < 0 {
		i = max(len(boundaries)-1, 0)
	}
	return boundaries[i:min(i+1, len(boundaries))]
}

// UserWindows reads the answer to UserCountsQuery.
func UserWindows(answer []Series) []Window {
	return countWindows(answer, func(labels map[string]string) (total, bad bool) {
		return labels[labelClass] == classTotal, labels[labelClass] == classBad
	})
}

// countWindows adds up the series of each version. A window is not known if a value is no count, or
// if there are more bad requests than requests.
func countWindows(answer []Series, class func(labels map[string]string) (total, bad bool)) []Window {
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

// add adds a value to the window. It ignores gaps, because the other version may have numbers.
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
