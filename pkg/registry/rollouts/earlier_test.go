// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// etcd returns a client of the server's etcd.
func etcd(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Store.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// at returns the content of the keys with a prefix.
func at(t testing.TB, prefix string) []string {
	t.Helper()
	found, err := etcd(t).Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, kv := range found.Kvs {
		out = append(out, string(kv.Value))
	}
	return out
}

const stored = "/registry/rollouts.kruise.io/"

// earlierKeys returns the keys of earlier decisions of a namespace.
func earlierKeys(t testing.TB, ns string) []string { return at(t, stored+"decisions/"+ns+"/") }

// asStored returns the status of the Rollout in etcd.
func asStored(t testing.TB, ns string) *v1beta1.Rollout {
	t.Helper()
	r := &v1beta1.Rollout{}
	if err := json.Unmarshal([]byte(at(t, stored+"rollouts/"+ns+"/web")[0]), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// olderRelease stores a waiting release as the previous version of Weir did: with n decisions in its status.
func olderRelease(t testing.TB, ns string, n int) {
	t.Helper()
	releasing(t, ns, "web")
	r := asStored(t, ns)
	for i := range n {
		r.Status.Decisions = append(r.Status.Decisions, v1beta1.Decision{
			ID: int64(i + 1), Verb: "promote", User: alice, Time: r.CreationTimestamp, Step: 1, Revision: "v2",
			Reason: "looks good to me, as far as I can tell", RequestID: fmt.Sprint("build-", i+1), Via: "verb", Outcome: "applied",
		})
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd(t).Put(t.Context(), stored+"rollouts/"+ns+"/web", string(encoded)); err != nil {
		t.Fatal(err)
	}
}

// ids returns the IDs of decisions, and requires that they are ordered and unique.
func ids(t testing.TB, all []v1beta1.Decision) (first, last int64) {
	t.Helper()
	if len(all) == 0 {
		return 0, 0
	}
	for i := range all[1:] {
		if all[i].ID >= all[i+1].ID {
			t.Errorf("decision %d is before decision %d", all[i].ID, all[i+1].ID)
		}
	}
	if first, last = all[0].ID, all[len(all)-1].ID; int64(len(all)) != last-first+1 {
		t.Errorf("%d decisions from %d to %d", len(all), first, last)
	}
	return first, last
}

func wantIDs(t testing.TB, what string, all []v1beta1.Decision, first, last int64) {
	t.Helper()
	if f, l := ids(t, all); f != first || l != last {
		t.Errorf("%s has the decisions from %d to %d, want %d to %d", what, f, l, first, last)
	}
}

// Decisions that the previous version stored are in the status, and move with the first write. A read by
// name returns all decisions; lists and watches return the latest.
func TestEarlierDecisions(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	const n = 130
	olderRelease(t, ns, n)
	wantIDs(t, "the Rollout of the previous version", get(t, ns, "web").Status.Decisions, 1, n)
	if len(earlierKeys(t, ns)) != 0 {
		t.Fatal("reading stores something")
	}

	answered := verb(t, alice, v1beta1Path, ns, "promote", `{"reason":"one more"}`).must(t, http.StatusCreated).rollout(t)
	wantIDs(t, "the answer", answered.Status.Decisions, n-19, n+1)
	wantIDs(t, "etcd", asStored(t, ns).Status.Decisions, n-19, n+1)
	if keys := earlierKeys(t, ns); len(keys) != 1 {
		t.Errorf("%d keys of earlier decisions, want 1", len(keys))
	}
	for _, version := range []string{v1beta1Path, v1alpha1Path} {
		for _, path := range []string{one(version, ns, "web"), one(version, ns, "web") + "/status", one(version, ns, "web") + "?resourceVersion=0"} {
			r := call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusOK).rollout(t)
			wantIDs(t, path, r.Status.Decisions, 1, n+1)
		}
	}
	wantIDs(t, "a list", listed(t, list(v1beta1Path, ns)), n-19, n+1)
	wantIDs(t, "a list of everywhere", listed(t, v1beta1Path+"/rollouts?fieldSelector=metadata.namespace%3D"+ns), n-19, n+1)
	wantIDs(t, "a list of one name", listed(t, list(v1beta1Path, ns)+"?fieldSelector=metadata.name%3Dweb"), 1, n+1)
	wantIDs(t, "a watch", watched(t, ns).Status.Decisions, n-19, n+1)
	if d := get(t, ns, "web").Status.Decisions; d[0].RequestID != "build-1" || d[n].Reason != "one more" {
		t.Errorf("the first and the last are %+v, %+v", d[0], d[n])
	}
}

func listed(t testing.TB, path string) []v1beta1.Decision {
	t.Helper()
	var l v1beta1.RolloutList
	if err := json.Unmarshal(call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusOK).body, &l); err != nil || len(l.Items) != 1 {
		t.Fatalf("%d items: %v", len(l.Items), err)
	}
	return l.Items[0].Status.Decisions
}

// watched returns the object of the first event of a watch.
func watched(t testing.TB, ns string) v1beta1.Rollout {
	t.Helper()
	config := server.As(alice)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+list(v1beta1Path, ns)+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var event struct{ Object v1beta1.Rollout }
	if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
		t.Fatal(err)
	}
	return event.Object
}

// A repeated request is recognized by its decision, wherever the decision is stored.
func TestEarlierRequestID(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	olderRelease(t, ns, 60)
	verb(t, alice, v1beta1Path, ns, "pause", nil).must(t, http.StatusCreated)
	for _, id := range []string{"build-1", "build-60"} {
		again := verb(t, alice, v1beta1Path, ns, "promote", `{"requestID":"`+id+`"}`).must(t, http.StatusCreated)
		if len(again.warnings) != 1 || !strings.Contains(again.warnings[0], "no longer applies, since decision 61, pause by alice") {
			t.Errorf("%s is warned %q", id, again.warnings)
		}
	}
	verb(t, admin, v1beta1Path, ns, "promote", `{"requestID":"build-1"}`).must(t, http.StatusConflict)
	wantIDs(t, "the Rollout", get(t, ns, "web").Status.Decisions, 1, 61)
}

// Every write moves decisions, and none loses any: not a request that is refused after decisions were
// moved, nor a client that sends back the decisions that it has read.
func TestEarlierAndOtherWriters(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(t *testing.T, ns string){
		"a refused verb": func(t *testing.T, ns string) {
			verb(t, alice, v1beta1Path, ns, "promote", `{"expect":{"step":9}}`).must(t, http.StatusConflict)
		},
		"a dry run": func(t *testing.T, ns string) {
			r := verb(t, alice, v1beta1Path, ns, "promote?dryRun=All", `{}`).must(t, http.StatusCreated).rollout(t)
			wantIDs(t, "the dry run", r.Status.Decisions, 1, 51)
			if len(earlierKeys(t, ns)) != 0 {
				t.Error("a dry run stored decisions")
			}
		},
		"a label": func(t *testing.T, ns string) {
			patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
		},
		"nothing": func(t *testing.T, ns string) {
			patch(t, alice, one(v1beta1Path, ns, "web"), `{}`).must(t, http.StatusOK)
		},
		"a status without decisions": func(t *testing.T, ns string) {
			next := get(t, ns, "web")
			next.Status.Decisions = nil
			call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: next}).must(t, http.StatusOK)
		},
		"a status with all of them": func(t *testing.T, ns string) {
			next := get(t, ns, "web")
			next.Status.Message = "on it"
			call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: next}).must(t, http.StatusOK)
		},
		"a status as older clients approve": func(t *testing.T, ns string) {
			patch(t, alice, one(v1beta1Path, ns, "web")+"/status", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`).must(t, http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			olderRelease(t, ns, 50)
			write(t, ns)
			first, last := ids(t, get(t, ns, "web").Status.Decisions)
			if first != 1 || last < 50 {
				t.Errorf("decisions %d to %d are there", first, last)
			}
			verb(t, alice, v1beta1Path, ns, "pause", nil).must(t, http.StatusCreated)
			wantIDs(t, "the Rollout, paused", get(t, ns, "web").Status.Decisions, 1, last+1)
			if have := len(asStored(t, ns).Status.Decisions); have > 41 {
				t.Errorf("%d decisions are in the status", have)
			}
		})
	}
}

// Concurrent requests lose no decisions.
func TestEarlierAtOnce(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	olderRelease(t, ns, 40)
	codes := make(chan int)
	for i := range 60 {
		go func() {
			codes <- verb(t, []string{admin, alice}[i%2], v1beta1Path, ns, "jump", `{"step":1}`).code
		}()
	}
	for range 60 {
		if code := <-codes; code != http.StatusCreated {
			t.Errorf("answered %d", code)
		}
	}
	wantIDs(t, "the Rollout", get(t, ns, "web").Status.Decisions, 1, 100)
}

// Decisions are deleted with their Rollout: a new Rollout of the same name has none.
func TestEarlierDecisionsGo(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	olderRelease(t, ns, 60)
	verb(t, alice, v1beta1Path, ns, "pause", nil).must(t, http.StatusCreated)
	// This is the rest of an earlier Rollout whose server crashed.
	if _, err := etcd(t).Put(t.Context(), stored+"decisions/"+ns+"/web/gone", `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout",
		"metadata":{"name":"web","namespace":"`+ns+`","uid":"gone"},"status":{"decisions":[{"id":1,"verb":"abort"}]}}`); err != nil {
		t.Fatal(err)
	}
	path := one(v1beta1Path, ns, "web")
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	wantIDs(t, "the Rollout that is deleted", get(t, ns, "web").Status.Decisions, 1, 61)
	patch(t, controller, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusNotFound)
	if left := earlierKeys(t, ns); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	releasing(t, ns, "web")
	r := verb(t, alice, v1beta1Path, ns, "promote", nil).must(t, http.StatusCreated).rollout(t)
	wantIDs(t, "another Rollout", r.Status.Decisions, 1, 1)
}

// The size of the record is limited, whatever users send. Safety verbs stay possible.
func TestEarlierDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	olderRelease(t, ns, 200)
	patch(t, controller, one(v1beta1Path, ns, "web")+"/status", `{"status":{"releases":[{"number":1,"firstDecision":1,"canaryRevision":"v2"}]}}`).must(t, http.StatusOK)
	accepted := 0
	for range 100 {
		a := verb(t, alice, v1beta1Path, ns, "jump", `{"step":1}`)
		if a.code == http.StatusConflict {
			if m := a.status().Message; !strings.Contains(m, "the decisions of this release fill its record (200, or 192 KiB)") {
				t.Fatalf("refused with %q", m)
			}
			break
		}
		a.must(t, http.StatusCreated)
		accepted++
	}
	if accepted > 41 {
		t.Errorf("%d more than 200 were accepted", accepted)
	}
	for i := range 60 {
		verb(t, []string{admin, alice}[i%2], v1beta1Path, ns, []string{"pause", "resume"}[i%2], nil).must(t, http.StatusCreated)
	}
	all := get(t, ns, "web").Status.Decisions
	if turns := slices.DeleteFunc(slices.Clone(all), func(d v1beta1.Decision) bool { return d.Verb == "jump" || d.Verb == "promote" }); len(turns) != 60 {
		t.Errorf("%d of 60 turns are on record", len(turns))
	}
	verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
	if len(all) != 200+accepted+60 {
		t.Errorf("%d decisions", len(all))
	}
}
