// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

// discovered is a discovery server. Each of its groups has a StatefulSet.
type discovered struct {
	mu     sync.Mutex
	groups []string
	// silent are groups whose discovery fails; broken makes all of them fail.
	silent string
	broken bool
	// asked is the number of discoveries.
	asked int
}

func (d *discovered) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *discovered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch group, found := strings.CutPrefix(r.URL.Path, "/apis/"); {
	case d.broken:
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{}
	case r.URL.Path == "/apis":
		d.asked++
		var list metav1.APIGroupList
		for _, g := range d.groups {
			version := metav1.GroupVersionForDiscovery{GroupVersion: g + "/v1", Version: "v1"}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: g, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
		answer = list
	case found && group == d.silent+"/v1":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		answer = metav1.APIResourceList{GroupVersion: group, APIResources: []metav1.APIResource{{Name: "statefulsets", Kind: "StatefulSet", Namespaced: true}}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func mapperOf(t *testing.T, groups ...string) (*discovered, *testclock.FakePassiveClock, meta.RESTMapper) {
	t.Helper()
	d := &discovered{groups: groups}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	clock := testclock.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	mapper, err := NewMapper(clock)(&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return d, clock, mapper
}

func newReplicaSet(group string) schema.GroupKind {
	return schema.GroupKind{Group: group, Kind: "StatefulSet"}
}

// TestMapperDiscoversOnce looks up thousands of unknown kinds, which users can reference. They cause one discovery, and
// known kinds are still found.
func TestMapperDiscoversOnce(t *testing.T) {
	d, clock, mapper := mapperOf(t, "apps", "example.com")
	for round := range 3 {
		for i := range 1000 {
			if _, err := mapper.RESTMapping(newReplicaSet(fmt.Sprintf("g%d.example.org", i)), "v1"); !meta.IsNoMatchError(err) {
				t.Fatalf("a kind that nobody serves: %v", err)
			}
		}
		if m, err := mapper.RESTMapping(newReplicaSet("example.com")); err != nil || m.Resource.Resource != "statefulsets" {
			t.Fatalf("a kind that is served: %v, %v", m, err)
		}
		if d.asked != round+1 {
			t.Fatalf("asked %d times in %d rounds", d.asked, round+1)
		}
		clock.SetTime(clock.Now().Add(unknownKindTTL))
	}
}

// TestMapperLearns checks that a new kind is found: soon if a CustomResourceDefinition has changed, and after a while
// otherwise.
func TestMapperLearns(t *testing.T) {
	for name, tc := range map[string]struct {
		told  bool
		after time.Duration
	}{"told": {true, ServeDelay}, "told, and named later": {true, 5 * ServeDelay}, "not told": {false, unknownKindTTL}} {
		t.Run(name, func(t *testing.T) {
			d, clock, mapper := mapperOf(t, "apps")
			if _, err := mapper.RESTMapping(newReplicaSet("example.com")); !meta.IsNoMatchError(err) {
				t.Fatalf("before it is served: %v", err)
			}
			d.set(func() { d.groups = append(d.groups, "example.com") })
			if tc.told {
				meta.MaybeResetRESTMapper(mapper)
			}
			clock.SetTime(clock.Now().Add(tc.after - 1))
			if _, err := mapper.RESTMapping(newReplicaSet("example.com")); err == nil && !tc.told {
				t.Error("the cluster was asked too soon")
			}
			clock.SetTime(clock.Now().Add(1))
			if _, err := mapper.RESTMapping(newReplicaSet("example.com")); err != nil {
				t.Errorf("when it is served: %v", err)
			}
		})
	}
}

// TestMapperKeepsFailedGroup checks that the mapper keeps the known kinds of a group whose discovery fails, and that an
// unknown kind of a failing group is an error instead of absent.
func TestMapperKeepsFailedGroup(t *testing.T) {
	d, clock, mapper := mapperOf(t, "apps", "example.com")
	if _, err := mapper.RESTMapping(newReplicaSet("example.com")); err != nil {
		t.Fatal(err)
	}
	d.set(func() { d.groups, d.silent = append(d.groups, "late.example.com"), "example.com" })
	clock.SetTime(clock.Now().Add(unknownKindTTL))
	if _, err := mapper.RESTMapping(newReplicaSet("late.example.com")); err != nil {
		t.Fatal(err)
	}
	if _, err := mapper.RESTMapping(newReplicaSet("example.com")); err != nil {
		t.Errorf("a kind that was known: %v", err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Other"}); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a kind of a group that is silent: %v; want another error than that it is not served", err)
	}
	d.set(func() { d.broken = true })
	clock.SetTime(clock.Now().Add(unknownKindTTL))
	if _, err := mapper.RESTMapping(newReplicaSet("more.example.com")); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a kind while nothing answers: %v; want another error than that it is not served", err)
	}
	if _, err := mapper.RESTMapping(newReplicaSet("example.com")); err != nil {
		t.Errorf("a known kind while nothing answers: %v", err)
	}
}
