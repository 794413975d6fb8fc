// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/store"
)

// waits creates a small Rollout whose first step waits, and returns its path.
func (c crowded) waits(namespace, name string) string {
	c.t.Helper()
	c.wants(http.StatusCreated, "admin", http.MethodPost, namespace+"/rollouts", named(name, name))
	path := namespace + "/rollouts/" + name
	c.wants(http.StatusOK, controller, http.MethodPatch, path+"/status", `{"status":{"phase":"Progressing","observedGeneration":1,
		"canaryStatus":{"canaryRevision":"v2","stableRevision":"v1","podTemplateHash":"hash-of-v2","currentStepIndex":1,"nextStepIndex":1,"currentStepState":"StepPaused"},
		"conditions":[{"type":"Progressing","status":"True","reason":"InRolling","message":"rolling"}]}}`)
	return path
}

// talks pauses and resumes a release by two users in turn, each time with the longest reason.
func (c crowded) talks(path string, times int) {
	reason := fmt.Sprintf(`{"reason":%q}`, strings.Repeat("<", 1024))
	for i := range times {
		who, verb := "admin", "pause"
		if i%2 == 1 {
			who, verb = tenant, "resume"
		}
		if code, text := c.sends(who, http.MethodPost, path+"/"+verb, reason); code != http.StatusCreated {
			c.t.Errorf("%s %d of %s, with %+v: %d: %.500s", verb, i, path, c.Store.Usage(), code, text)
			return
		}
	}
}

// talkAbout runs talks for many releases, four at once.
func (c crowded) talkAbout(paths []string) {
	var wg sync.WaitGroup
	next := make(chan string)
	for range 4 {
		wg.Go(func() {
			for path := range next {
				c.talks(path, 60)
			}
		})
	}
	for _, path := range paths {
		next <- path
	}
	close(next)
	wg.Wait()
}

func (c crowded) decisions(path string) []v1beta1.Decision {
	c.t.Helper()
	var r v1beta1.Rollout
	if err := json.Unmarshal([]byte(c.wants(http.StatusOK, "admin", http.MethodGet, path, "")), &r); err != nil {
		c.t.Fatal(err)
	}
	return r.Status.Decisions
}

func (c crowded) latest(path string) v1beta1.Decision {
	c.t.Helper()
	all := c.decisions(path)
	return all[len(all)-1]
}

// TestSafetyVerbsLeaveRoom is about a tenant who sends safety verbs with long reasons for many releases, in
// a store that users have filled as far as possible. Each verb is recorded, in the end without its reason.
// All other users can still end releases and delete objects.
func TestSafetyVerbsLeaveRoom(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "16Mi")
	c.releases("elsewhere", "web")
	c.waits("elsewhere", "gone")
	c.wants(http.StatusOK, tenant, http.MethodPatch, "elsewhere/rollouts/gone", `{"metadata":{"finalizers":["example.com/one","example.com/two"]}}`)
	var paths []string
	for i := range 20 {
		paths = append(paths, c.waits("loud", fmt.Sprint("web", i)))
	}
	c.talks(paths[0], 1)
	if d := c.latest(paths[0]); len(d.Reason) != 1024 {
		t.Errorf("with room the reason has %d characters", len(d.Reason))
	}
	if _, refusal := c.fills(80, "n0", "n1", "n2", "n3", "n4"); refusal == "" {
		t.Fatal("the store is not full")
	}
	c.talkAbout(paths)

	if u := c.Store.Usage(); u.Full {
		t.Errorf("etcd refuses writes: %+v", u)
	}
	// The reasons of all verbs together exceed the store. Compactions repeatedly make room for some of
	// them.
	brief := 0
	for _, path := range paths {
		if d := c.latest(path); d.Verb != v1beta1.VerbResume || d.User != tenant {
			t.Errorf("the latest decision about %s is %+v", path, d)
		}
		for _, d := range c.decisions(path) {
			if (d.Reason == "") != (d.UserAgent == "") {
				t.Errorf("a decision about %s is %+v", path, d)
			}
			if d.Reason == "" {
				brief++
			}
		}
	}
	if brief == 0 {
		t.Error("every decision has its reason")
	}
	c.wants(http.StatusCreated, tenant, http.MethodPost, "elsewhere/rollouts/web/abort", `{"reason":"an innocent reason"}`)
	c.wants(http.StatusOK, controller, http.MethodPatch, "elsewhere/rollouts/web/status", `{"status":{"message":"aborted"}}`)
	c.wants(http.StatusOK, tenant, http.MethodDelete, "elsewhere/rollouts/gone", "")
	c.wants(http.StatusOK, controller, http.MethodPatch, "elsewhere/rollouts/gone", `{"metadata":{"finalizers":["example.com/one"]}}`)
	c.wants(http.StatusOK, controller, http.MethodPatch, "elsewhere/rollouts/gone", `{"metadata":{"finalizers":null}}`)
	c.wants(http.StatusNotFound, tenant, http.MethodGet, "elsewhere/rollouts/gone", "")
}

// TestSafetyVerbsHaveAShare is about the same tenant in an empty store. The reasons of one namespace stay
// within the limit of that namespace.
func TestSafetyVerbsHaveAShare(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "8Mi")
	var paths []string
	for i := range 20 {
		paths = append(paths, c.waits("loud", fmt.Sprint("web", i)))
	}
	c.talkAbout(paths)
	c.Store.Reclaim(t.Context(), func(store.Usage) bool { return false })
	// The limit is 2 MiB, and an eighth more for writes without reasons.
	if u := c.Store.Usage(); u.InUse > 3<<20 || u.InUse < 3<<19 {
		t.Errorf("the store has %+v", u)
	}
	code, text := c.sends(tenant, http.MethodPost, "loud/rollouts", large("more"))
	if code != http.StatusInsufficientStorage || !strings.Contains(text, `namespace \"loud\" stores`) {
		t.Errorf("creating is answered %d: %.500s", code, text)
	}
	if d := c.latest(paths[19]); d.Verb != v1beta1.VerbResume || d.Reason != "" {
		t.Errorf("the latest decision is %+v", d)
	}
	c.releases("elsewhere", "web")
	c.wants(http.StatusCreated, tenant, http.MethodPost, "elsewhere/rollouts/web/abort", `{"reason":"an innocent reason"}`)
	if d := c.latest("elsewhere/rollouts/web"); d.Reason != "an innocent reason" {
		t.Errorf("the latest decision elsewhere is %+v", d)
	}
}
