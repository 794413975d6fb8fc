// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"runtime"
	"syscall"
	"testing"
)

// cpu returns the CPU time of this process in milliseconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// use uses verbs in turn, each as another user, so that each is recorded.
func use(t testing.TB, ns string, i int) {
	verb(t, []string{admin, alice}[i%2], v1beta1Path, ns, []string{"pause", "resume"}[i%2], `{}`).must(t, http.StatusCreated)
}

func refuse(t testing.TB, ns string, _ int) {
	verb(t, admin, v1beta1Path, ns, "promote", `{"expect":{"step":99}}`).must(t, http.StatusConflict)
}

var uses = map[string]func(testing.TB, string, int){"pause": use, "refused": refuse}

// BenchmarkVerbs measures the cost of a verb, including its client and connection, by the number of
// recorded decisions.
func BenchmarkVerbs(b *testing.B) {
	for _, n := range []int{0, 20, 200} {
		for what, use := range uses {
			b.Run(fmt.Sprintf("%s/%d", what, n), func(b *testing.B) {
				ns := fmt.Sprintf("bench-%s-%d-%d", what, n, b.N)
				olderRelease(b, ns, n)
				b.ReportAllocs()
				before := cpu(b)
				for i := 0; b.Loop(); i++ {
					use(b, ns, i)
				}
				b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// A verb costs the same with few recorded decisions as with many, including occasional moves: the test
// limits the allocations of client, connection, server and etcd.
func TestVerbsAreFlat(t *testing.T) { //nolint:paralleltest // others would be counted
	const times = 120
	for what, use := range uses {
		cost := map[int]float64{}
		for _, n := range []int{0, 20, 200} {
			ns := fmt.Sprintf("%s-%s-%d", namespace(t), what, n)
			olderRelease(t, ns, n)
			for i := range 40 { // so that each has decisions in its status
				verb(t, []string{admin, alice}[i%2], v1beta1Path, ns, []string{"pause", "resume"}[i%2], `{}`).must(t, http.StatusCreated)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range times {
				use(t, ns, i)
			}
			runtime.ReadMemStats(&after)
			cost[n] = float64(after.Mallocs-before.Mallocs) / times
		}
		t.Logf("%s: %.0f allocations with none before, %.0f with 20, %.0f with 200", what, cost[0], cost[20], cost[200])
		for _, n := range []int{20, 200} {
			if cost[n] > 1.3*cost[0] {
				t.Errorf("%s with %d decisions before has %.0f allocations, with none %.0f", what, n, cost[n], cost[0])
			}
		}
	}
}
