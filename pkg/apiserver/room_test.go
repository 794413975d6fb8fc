// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

const (
	tenant     = "tenant"
	controller = "system:serviceaccount:weir-system:weir-controller"
)

// crowded is a server with little space, and its users.
type crowded struct {
	*apiservertest.Server
	t *testing.T
}

func startCrowded(t *testing.T, limit string) crowded {
	t.Helper()
	s, err := apiservertest.Start(t.TempDir(), []user.DefaultInfo{
		{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}},
		{Name: controller, Groups: []string{user.SystemPrivilegedGroup}}, {Name: tenant},
	}, func(a authorizer.Attributes) bool { return a.GetSubresource() != "progress" }, limited(limit))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return crowded{s, t}
}

// sends sends a request about Rollouts. It is safe for concurrent use.
func (c crowded) sends(who, method, path, body string) (int, string) {
	config := c.As(who)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		return 0, err.Error()
	}
	if !strings.HasPrefix(path, "/apis/") {
		path = "/apis/rollouts.kruise.io/v1beta1/namespaces/" + path
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, config.Host+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

func (c crowded) wants(code int, who, method, path, body string) string {
	c.t.Helper()
	got, text := c.sends(who, method, path, body)
	if got != code {
		c.t.Fatalf("%s %s by %s, with %+v: %d, want %d: %.500s", method, path, who, c.Store.Usage(), got, code, text)
	}
	return text
}

// large returns a Rollout of 240 kB.
func large(name string) string {
	return strings.Replace(named(name, name), `"metadata":{`, `"metadata":{"annotations":{"note":"`+strings.Repeat("x", 240_000)+`"},`, 1)
}

// releases creates a Rollout whose first step waits, with the status that the controller would write.
func (c crowded) releases(namespace, name string) {
	c.t.Helper()
	path := namespace + "/rollouts"
	c.wants(http.StatusCreated, "admin", http.MethodPost, path, large(name))
	status := v1beta1.RolloutStatus{
		ObservedGeneration: 1, Phase: v1beta1.PhaseProgressing, Message: "waiting",
		Canary: &v1beta1.CanaryStatus{CanaryRevision: "v2", CanaryReplicas: 2, CanaryReadyReplicas: 2, Progress: v1beta1.Progress{
			StableRevision: "v1", PodTemplateHash: "hash-of-v2", CurrentStepIndex: 1, NextStepIndex: 1, State: v1beta1.StepPaused,
		}},
		Conditions: []v1beta1.Condition{{Type: "Progressing", Status: "True", Reason: "InRolling", Message: "rolling"}},
	}
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		c.t.Fatal(err)
	}
	c.wants(http.StatusOK, controller, http.MethodPatch, path+"/"+name+"/status", string(body))
}

// fills creates large Rollouts in the namespaces in turn, eight at once, until some are refused. It returns
// the number of stored Rollouts, and a refusal.
func (c crowded) fills(most int, namespaces ...string) (stored int, refusal string) {
	c.t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				code, text := c.sends(tenant, http.MethodPost, namespaces[i%len(namespaces)]+"/rollouts", large(fmt.Sprint("r", i)))
				mu.Lock()
				switch code {
				case http.StatusCreated:
					stored++
				case http.StatusInsufficientStorage:
					refusal = text
				default:
					c.t.Errorf("creating is answered %d: %.500s", code, text)
				}
				mu.Unlock()
			}
		})
	}
	for i := range most {
		next <- i
	}
	close(next)
	wg.Wait()
	return stored, refusal
}

// TestOneWriterFillsTheStore is about a user who creates as many large Rollouts as possible, first in one
// namespace and then in many. In these and in other namespaces every safety verb works, and the controllers
// can write.
func TestOneWriterFillsTheStore(t *testing.T) {
	t.Parallel()
	c := startCrowded(t, "64Mi")
	c.releases("elsewhere", "web")
	c.releases("full", "web")

	stored, refusal := c.fills(100, "full")
	if stored > 16<<20/240_000 || stored < 40 {
		t.Errorf("%d Rollouts of 240 kB are stored in a namespace that may have 16 MiB", stored)
	}
	for _, says := range []string{`namespace \"full\" stores`, "of the 16.0 MiB", "rollouts 15.", "--namespace-data-limit"} {
		if !strings.Contains(refusal, says) {
			t.Errorf("the refusal does not say %s: %.500s", says, refusal)
		}
	}
	// Other namespaces are not affected.
	c.wants(http.StatusCreated, tenant, http.MethodPost, "elsewhere/rollouts", large("more"))

	_, refusal = c.fills(260, "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7")
	for _, says := range []string{"the store has 4", "of its 64.0 MiB in use", "--data-limit"} {
		if !strings.Contains(refusal, says) {
			t.Errorf("the refusal does not say %s: %.500s", says, refusal)
		}
	}
	u := c.Store.Usage()
	// etcd counts whole pages, also of its index. Their number is unknown before a write.
	if pages := int64(64 * 4096); u.InUse > u.Limit/4*3+pages {
		t.Errorf("a user has %+v", u)
	}
	// The user retries refused requests continuously, and changes stored objects.
	stop := c.hammers("n0/rollouts/r0")
	for _, namespace := range []string{"elsewhere", "full"} {
		web := namespace + "/rollouts/web"
		for i := range 20 {
			c.wants(http.StatusOK, controller, http.MethodPatch, web+"/status", fmt.Sprintf(`{"status":{"message":"pass %d"}}`, i))
		}
		for _, verb := range []string{"pause", "resume", "pause", "resume", "abort"} {
			c.wants(http.StatusCreated, tenant, http.MethodPost, web+"/"+verb, "{}")
		}
	}
	stop()
	if u := c.Store.Usage(); u.Full {
		t.Errorf("etcd refuses writes: %+v", u)
	}

	// Writes that grow objects are refused; writes that shrink or delete objects are not.
	for i := 0; ; i++ { // what a compaction has freed
		if code, _ := c.sends(tenant, http.MethodPost, "n9/rollouts", large(fmt.Sprint("rest", i))); code == http.StatusInsufficientStorage {
			break
		}
	}
	c.wants(http.StatusInsufficientStorage, tenant, http.MethodPatch, "n0/rollouts/r0", `{"metadata":{"annotations":{"more":"`+strings.Repeat("y", 100)+`"}}}`)
	c.wants(http.StatusOK, tenant, http.MethodPatch, "n0/rollouts/r0", `{"metadata":{"annotations":{"note":"short"}}}`)
	for i := range 40 {
		path := fmt.Sprintf("n%d/rollouts/r%d", i%8, i)
		c.wants(http.StatusOK, tenant, http.MethodDelete, path, "")
		c.wants(http.StatusOK, controller, http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
	}
	c.wants(http.StatusCreated, tenant, http.MethodPost, "n9/rollouts", large("again"))
}

// hammers changes an object and tries to create others continuously, until the returned function is called.
// All errors of these requests must be about missing space.
func (c crowded) hammers(path string) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				code, text := c.sends(tenant, http.MethodPatch, path, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d-%09d"}}}`, i, n))
				if code != http.StatusOK && code != http.StatusInsufficientStorage && code != http.StatusConflict {
					c.t.Errorf("changing an object is answered %d: %.500s", code, text)
				}
				// A concurrent compaction may make room for one of them.
				code, text = c.sends(tenant, http.MethodPost, "n9/rollouts", large(fmt.Sprint("never", i)))
				if code != http.StatusInsufficientStorage && code != http.StatusCreated && code != http.StatusConflict {
					c.t.Errorf("creating is answered %d: %.500s", code, text)
				}
			}
		})
	}
	var once sync.Once
	stop = func() {
		once.Do(func() { close(end) })
		wg.Wait()
	}
	c.t.Cleanup(stop)
	return stop
}
