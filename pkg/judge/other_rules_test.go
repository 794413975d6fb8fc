// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"testing"
)

// TestOtherRules shows what the rules of other projects do with good versions, for comparison.
func TestOtherRules(t *testing.T) {
	t.Parallel()
	for i, row := range []struct {
		name      string
		perSecond float64
		old, new  float64
		fails     func([]Window) bool
		least     float64
	}{
		{"z-test at 1 %, after each window, 0.1 % errors", 50, 0.001, 0.001, zTest, 0.02},
		{"z-test at 1 %, after each window, 1 % errors", 50, 0.01, 0.01, zTest, 0.05},
		{"below 99 % in 3 minutes in a row, true 99.5 %", 5, 0.005, 0.005, threeInARow, 0.01},
		{"below 99 % in 5 minutes of 60, true 99.5 %", 5, 0.005, 0.005, fiveOfSixty, 0.5},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(uint64(200+i), row.perSecond, 0.1, row.old, row.new)
			failed := 0
			for range *attempts {
				if row.fails(w.measure(hour)) {
					failed++
				}
			}
			share := float64(failed) / float64(*attempts)
			t.Logf("%-50s %5d of %d failed, %.1f %%", row.name, failed, *attempts, 100*share)
			if share < row.least {
				t.Errorf("%g of good versions failed: the row shows nothing", share)
			}
		})
	}
}

// zTest compares two rates, one-sided, whenever a window ends.
func zTest(windows []Window) bool {
	var x, n, y, m float64
	for _, w := range windows {
		p := w.Counts[0]
		x, n, y, m = x+p.New.Bad, n+p.New.Total, y+p.Old.Bad, m+p.Old.Total
		pooled := (x + y) / (n + m)
		if x > 0 && (x/n-y/m)/math.Sqrt(pooled*(1-pooled)*(1/n+1/m)) > 2.326 {
			return true
		}
	}
	return false
}

func bad(windows ...Window) bool {
	var x, n float64
	for _, w := range windows {
		x, n = x+w.Counts[0].New.Bad, n+w.Counts[0].New.Total
	}
	return x > 0.01*n
}

func threeInARow(windows []Window) bool {
	row := 0
	for minute := range slices.Chunk(windows, 2) {
		row++
		if !bad(minute...) {
			row = 0
		}
		if row == 3 {
			return true
		}
	}
	return false
}

func fiveOfSixty(windows []Window) bool {
	failed := 0
	for minute := range slices.Chunk(windows, 2) {
		if bad(minute...) {
			failed++
		}
	}
	return failed >= 5
}
