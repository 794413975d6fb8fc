// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// schedule is a sequence of bytes: the initial objects, then moves. Each move has two bytes: which
// move, and its variant. After the last move, each ending is played in a copy of the world.
type schedule struct {
	*world
	bytes []byte
	// podsMayFail allows pods to fail.
	podsMayFail bool
	// clockMayGoBack sets the clock back now and then.
	clockMayGoBack bool
	// ownerBreaksPods allows the owner to break pods and to delete sets.
	ownerBreaksPods bool
	// leaderFreezes lets a leader freeze and wake up later.
	leaderFreezes bool
	plan          rollouts.Release
	blueGreen     bool
	// router is the kind of the router in front of the Service, if it is not an Ingress. app is the
	// initial workload.
	router kind
	app    app
	// analysis is the analysis of the plan in measured schedules.
	analysis *rollouts.Analysis
}

func (s *schedule) nextByte() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

// pick chooses one of the values.
func pick[T any](s *schedule, values ...T) T { return values[int(s.nextByte())%len(values)] }

var clockStart = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// scenery creates the initial objects of a schedule.
type scenery func(*schedule)

// runSchedule plays a schedule and returns the violations.
func runSchedule(found scenery, data []byte, tell observer, watch func(*world)) []string {
	s := &schedule{world: newWorld(clockStart, tell, newChecks()), bytes: data}
	s.scheduled = true
	watch(s.world)
	found(s)
	for len(s.bytes) > 0 && len(s.check.broken) == 0 {
		s.playMove()
		s.check.checkBetweenMoves()
	}
	s.wake()
	if len(s.check.broken) > 0 {
		return s.check.broken
	}
	for _, ending := range endings {
		c := s.check.fork()
		e := &releaseEnd{world: s.fork(tell, c), name: ending.name}
		watch(e.world)
		e.healMeasurements()
		tell.did("now it is " + ending.name)
		e.annotateRollout(app0, "rollback-in-batch", "false")
		ending.play(e)
		if len(c.broken) > 0 {
			return c.broken
		}
	}
	return nil
}

// createDeployment creates a Deployment and a Rollout of any style.
func (s *schedule) createDeployment() {
	a := app{
		name: app0, image: "v1", replicas: pick[int32](s, 1, 2, 3, 4, 5, 6, 10, 12),
		surge: pick(s, "25%", "0", "1", "2", "100%"), unavail: pick(s, "25%", "0", "1", "2"),
		history: pick[int32](s, 10, 2, 1, 0),
	}
	if a.surge == "0" && a.unavail == "0" {
		a.unavail = "1" // the API server rejects 0 for both
	}
	s.plan = pick(s, plans...)()
	s.podsMayFail = pick(s, false, false, true)
	traffic := pick(s, true, false)
	s.now = clockStart.Add(-time.Hour)
	s.app = a
	s.createWorkload(a)
	s.runUntilIdle()
	s.now = clockStart
	grace := 3 * time.Second
	if traffic {
		grace = pick(s, 0, 3*time.Second)
	}
	b := int(s.nextByte())
	s.clockMayGoBack = traffic && b>>5 == 7 // these bits have no other meaning with traffic
	if traffic {
		s.router = []kind{5: kindHTTPRoute, 6: kindVirtualService, 7: ""}[b>>5]
		s.createService(app0)
		s.createScheduledRouter()
		s.plan.TrafficRoutings = routingBy(cmp.Or(s.router, kindIngress), app0, grace)
	}
	if !traffic && b>>4%2 == 1 {
		s.createService(app0)
		s.createIngress(app0, app0)
		s.plan.TrafficRoutingRef = &scheduledRouting
		s.changeTrafficRouting(byte(b >> 5))
	}
	style := []rollouts.Style{rollouts.StylePartition, rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen}[b%4]
	if seconds := []int32{0, 5, 60, math.MaxInt32}[b>>2%4]; seconds > 0 {
		s.plan.ProgressDeadlineSeconds = &seconds
	}
	s.plan.Analysis = s.analysis
	s.plan.ExtraWorkload, s.blueGreen = style == rollouts.StyleCanary, style == rollouts.StyleBlueGreen
	s.createRollout(app0, s.plan, s.blueGreen)
}

// createScheduledRouter creates the router in front of the Service.
func (s *schedule) createScheduledRouter() {
	if s.router != "" {
		s.createRouter(s.router, app0)
		return
	}
	s.createIngress(app0, app0)
}

// toggleObject deletes an object that a release uses, or creates it again. The consequences are
// excused.
func (s *schedule) toggleObject(b byte) {
	k := []key{
		{kindService, app0}, {kindService, canaryName(app0)}, {cmp.Or(s.router, kindIngress), app0}, {kindIngress, canaryName(app0)}, {kindDeployment, app0},
	}[int(b)%5]
	switch {
	case s.app.name == "" || k.kind == kindDeployment && b>>3%4 != 0: // a workload is deleted rarely
	case k.kind == kindDeployment && b>>5 == 1 && s.store.objects[k] != nil:
		s.recreateWorkload(s.app)
	case s.deleteObject(k.kind, k.name):
		s.check.excusesPodFailures = true
	case k.kind == kindDeployment:
		s.createWorkload(s.app)
	case k.name != app0 || len(s.plan.TrafficRoutings) == 0 && !s.usesTrafficRouting():
	case k.kind == kindService:
		s.createService(app0)
	default:
		s.createScheduledRouter()
	}
}

// scheduledRouting is the name of the TrafficRouting that some schedules have.
var scheduledRouting = "front"

// changeTrafficRouting plays a user who creates, edits, or deletes the TrafficRouting.
func (s *schedule) changeTrafficRouting(b byte) {
	switch {
	case find[*rollouts.TrafficRouting](s.store.objects, kindRouting, scheduledRouting) == nil:
		s.createTrafficRouting(scheduledRouting, ingressOf(app0, time.Duration(b%2)*3*time.Second), 20)
	case b%4 == 0:
		s.deleteObject(kindRouting, scheduledRouting)
	default:
		s.editTrafficRouting(scheduledRouting, []int32{0, 30, 80, 100}[b>>2%4])
	}
}

func (s *schedule) usesTrafficRouting() bool { return s.plan.TrafficRoutingRef != nil }

// plans are the plans of schedules.
var plans = []func() rollouts.Release{
	func() rollouts.Release {
		return rollouts.Release{Steps: []rollouts.Step{
			planStep("20%", "20%", 0, false), planStep("50%", "50%", 0, false), planStep("100%", "100%", 0, false),
		}}
	},
	func() rollouts.Release {
		return rollouts.Release{Steps: []rollouts.Step{
			planStep("20%", "20%", time.Minute, true), planStep("50%", "", 2*time.Minute, true), planStep("100%", "100%", 5*time.Minute, true),
		}}
	},
	func() rollouts.Release {
		return rollouts.Release{Steps: []rollouts.Step{planStep("1", "5%", 0, false), planStep("2", "50%", 0, true), planStep("60%", "", 0, false)}}
	},
	func() rollouts.Release {
		return rollouts.Release{Steps: []rollouts.Step{planStep("100%", "", 0, false)}}
	},
	func() rollouts.Release {
		return rollouts.Release{Steps: []rollouts.Step{planStep("1%", "", 0, false), planStep("34%", "34%", 0, false), planStep("3", "80%", 0, false)}}
	},
}

// silentObserver ignores all reports.
type silentObserver struct{}

func (silentObserver) planned(*rollouts.Rollout, planner.Decision) {}
func (silentObserver) batchPlanned(batchPlan)                      {}
func (silentObserver) did(string)                                  {}
func (silentObserver) sized(sizes.Scale)                           {}
func (silentObserver) acted(planner.Effect)                        {}
func (silentObserver) wrote(string, object.Object, object.Object)  {}
func (silentObserver) died(string, string)                         {}

// shortenSchedule removes bytes that are not needed to violate the same invariant.
func shortenSchedule(found scenery, data []byte, invariant string) []byte {
	tries := 0
	for n := len(data) / 2; n >= 1; n /= 2 {
		for i := 0; i+n <= len(data) && tries < 250; tries++ {
			less := slices.Delete(slices.Clone(data), i, i+n)
			if broken := runSchedule(found, less, silentObserver{}, func(*world) {}); broken != nil && invariantOf(broken) == invariant {
				data = less
			} else {
				i += n
			}
		}
	}
	return data
}

func invariantOf(broken []string) string {
	invariant, _, _ := strings.Cut(broken[0], ":")
	return invariant
}

// failSchedule plays a schedule again and prints its transcript.
func failSchedule(t *testing.T, found scenery, data []byte, broken []string) {
	t.Helper()
	data = shortenSchedule(found, data, invariantOf(broken))
	broken = runSchedule(found, data, silentObserver{}, func(*world) {})
	tell := &transcript{start: clockStart, showsUserActions: true}
	runSchedule(found, data, tell, func(w *world) {
		tell.w = w
	})
	t.Fatalf("%s\n%s\nbytes %q", strings.Join(broken, "\n"), tell.out.String(), data)
}

var schedules = flag.Int("schedules", 150, "how many random schedules to play")

// TestSchedules plays random schedules of a Deployment. The schedules are the same in every run.
func TestSchedules(t *testing.T) { playSchedules(t, (*schedule).createDeployment, *schedules) }

// TestMeasuredSchedules plays random schedules in which each step is measured.
func TestMeasuredSchedules(t *testing.T) {
	playSchedules(t, (*schedule).createMeasuredDeployment, *schedules)
}

func playSchedules(t *testing.T, found scenery, n int) {
	t.Helper()
	var told atomic.Bool // the transcript of one schedule is enough
	for seed := range n {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			data := make([]byte, 20+r.IntN(300))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			switch broken := runSchedule(found, data, silentObserver{}, func(*world) {}); {
			case broken == nil:
			case told.Swap(true):
				t.Error(broken[0])
			default:
				failSchedule(t, found, data, broken)
			}
		})
	}
}

// FuzzSchedules plays schedules of the fuzzer.
func FuzzSchedules(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 600 {
			return
		}
		if broken := runSchedule((*schedule).createDeployment, data, silentObserver{}, func(*world) {}); broken != nil {
			failSchedule(t, (*schedule).createDeployment, data, broken)
		}
	})
}
