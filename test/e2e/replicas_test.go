// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && replicas

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/certs"
	"github.com/weir-rollouts/weir/test/cluster"
)

// Two replicas of each process, behind a Service and with an etcd beside them,
// as artifacts/ha installs it. They have a cluster of their own, which is the one
// of all helpers while these tests run; no others run beside them.
func TestReplicas(t *testing.T) {
	replicated(t, cluster.Options{Audit: true})
	t.Run("etcd gets new certificates", etcdRenewed)
	t.Run("servers restart one after the other", rollingRestart)
	t.Run("a server is killed", serverKilled)
	t.Run("a leader is frozen and woken", leaderFrozen)
	t.Run("failures", func(t *testing.T) { suffer(t, failuresOfReplicas()) })
}

// replicated makes such a cluster that of all helpers until the end of the test.
func replicated(t *testing.T, opts cluster.Options) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-e2e-replicas-")
	if err != nil {
		t.Fatal(err)
	}
	ready, err := cluster.ParseRange(*podReady)
	if err != nil {
		t.Fatal(err)
	}
	opts.Dir, opts.Weir, opts.WeirReplicas, opts.Apart = dir, true, 2, opts.Apart || *apart
	opts.Log, opts.PodReady, opts.Bin = os.Stderr, ready, *kube
	c, err := cluster.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("%v (its logs are in %s)", err, dir)
	}
	one := here
	t.Cleanup(func() {
		here = one
		var err error
		if opts.Audit {
			err = granted.note(context.WithoutCancel(t.Context()), c)
		}
		err = errors.Join(err, c.Stop())
		if t.Failed() {
			t.Logf("the logs of the cluster are in %s", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			t.Error(err)
		}
	})
	if here, err = newWorld(c); err != nil {
		t.Fatal(err)
	}
}

// etcdRenewed asks for another authority, which etcd has to trust before it signs.
func etcdRenewed(t *testing.T) {
	before, err := secretOf(t.Context(), system, certs.EtcdServerSecret)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: certs.AuthoritySecret}}
	ask := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+certs.RotateAnnotation+`":""}}}`))
	if err := here.client.Patch(t.Context(), issuer, ask); err != nil {
		t.Fatal(err)
	}
	here.until(t, "etcd is told of both authorities", func(ctx context.Context) error {
		for _, name := range []string{certs.EtcdServerSecret, certs.EtcdPeerSecret, certs.EtcdClientSecret} {
			now, err := secretOf(ctx, system, name)
			if err != nil {
				return err
			}
			if bytes.Equal(now.Data["ca.crt"], before.Data["ca.crt"]) {
				return fmt.Errorf("%s has the old one only", name)
			}
		}
		return nil
	})
}

func servers() []string     { return here.cluster.Replicas(cluster.WeirAPIServer) }
func controllers() []string { return here.cluster.Replicas(cluster.WeirController) }

// failuresOfReplicas are those of all replicas at once, and of the etcd that they share.
func failuresOfReplicas() []failure {
	etcd := cluster.WeirEtcd
	rows := []failure{
		{"etcd is killed", killed(etcd), started(etcd), noStore},
		{"etcd is frozen", frozen(etcd), woken(etcd), noStore},
		{"all servers are killed", killed(servers()...), started(servers()...), noServer},
		{"all controllers are killed", killed(controllers()...), started(controllers()...), noMoves},
		{"all servers are frozen", frozen(servers()...), woken(servers()...), noServer},
	}
	if *apart { // else it is the servers that are frozen
		rows = append(rows, failure{"all controllers are frozen", frozen(controllers()...), woken(controllers()...), noMoves})
	}
	return rows
}

// callers send verbs, and updates that are held, until they are told to stop.
type callers struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	sent   map[string]int
	failed []string
}

// calls tries a hundred verbs a second. Real ones go to another release, which
// cannot be promoted while it is paused.
func (a *app) calls(other *app) *callers {
	ctx, stop := context.WithCancel(a.t.Context())
	c := &callers{stop: stop, sent: map[string]int{}}
	c.done.Go(func() { a.tries(ctx, c) })
	c.done.Go(func() {
		// A release has at most 200 decisions on record.
		for n := 0; n < 95 && ctx.Err() == nil; n++ {
			c.count("pause", other.verb("pause", c.body(n)))
			c.count("resume", other.verb("resume", c.body(n)))
		}
	})
	c.done.Go(func() {
		for ctx.Err() == nil {
			c.count("update that is held", a.wouldHold(a.t.Context()))
		}
	})
	return c
}

// body is none every other time.
func (c *callers) body(n int) string {
	if n%2 == 0 {
		return ""
	}
	return fmt.Sprintf(`{"requestID":"%d","expect":{"step":1}}`, n)
}

// tries promotes a hundred times a second, without effect. Each goes through on
// its own, so that a slow one holds up no other.
func (a *app) tries(ctx context.Context, c *callers) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.done.Go(func() { c.count("promote that is tried", a.verb("promote?dryRun=All", c.body(n))) })
		}
	}
}

// verb wants a verb to succeed the first time; the second, if it has a body that
// kube-apiserver could not send again, which it answers with 503.
func (a *app) verb(verb, body string) error {
	got, err := here.admin.post(a.t.Context(), a, verb, body)
	if err == nil && got.code == http.StatusServiceUnavailable && strings.Contains(got.message, "GOAWAY") && body != "" {
		a.t.Logf("%s is sent again: %s", verb, got)
		got, err = here.admin.post(a.t.Context(), a, verb, body)
	}
	if err == nil && got.code != http.StatusCreated {
		err = errors.New(got.String())
	}
	return err
}

func (c *callers) count(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[what]++
	if err != nil {
		c.failed = append(c.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
	}
}

// end stops all, and returns what has failed.
func (c *callers) end(t *testing.T) []string {
	c.stop()
	c.done.Wait()
	t.Logf("sent %v, of which %d failed", c.sent, len(c.failed))
	return c.failed
}

// Servers are replaced one after the other under load, as a Deployment does it.
// No request fails: neither verbs nor updates that the webhook holds. A verb with
// a body may have to be sent again, as it was.
func rollingRestart(t *testing.T) {
	a := midway(t)
	c := a.calls(midway(t))
	for _, server := range servers() {
		if err := here.cluster.End(server); err != nil {
			t.Fatal(err)
		}
		if err := here.cluster.Start(server); err != nil {
			t.Fatal(err)
		}
	}
	for _, failed := range c.end(t) {
		t.Error(failed)
	}
	a.until("step 1 waits", a.waitsAt(1))
	a.promoteAll()
	a.until("the release is complete", a.released("v2"))
}

// A server is gone all at once. Requests that it was answering are lost, with an
// error; whoever asks again is answered, and the release goes on.
func serverKilled(t *testing.T) {
	for _, server := range servers() {
		a := midway(t)
		c := a.calls(midway(t))
		if err := here.cluster.Kill(server); err != nil {
			t.Fatal(err)
		}
		a.until("verbs are answered", func(context.Context) error { return a.verb("promote?dryRun=All", "") })
		a.until("updates are held", a.wouldHold)
		for _, failed := range c.end(t) {
			t.Log("lost: ", failed)
		}
		c = a.calls(midway(t))
		if err := here.cluster.Start(server); err != nil {
			t.Fatal(err)
		}
		for _, failed := range c.end(t) {
			t.Error(failed)
		}
		a.until("step 1 waits", a.waitsAt(1))
		a.promoteAll()
		a.until("the release is complete", a.released("v2"))
	}
}

// leader is the controller that holds the lease, and the one that does not.
func (a *app) leader() (leads, waits string) {
	a.t.Helper()
	a.until("a controller leads", func(ctx context.Context) error {
		leads = ""
		for i, name := range controllers() {
			is, err := isLeader(ctx, name)
			if err != nil {
				return err
			}
			if is {
				leads, waits = name, controllers()[1-i]
			}
		}
		if leads == "" {
			return errors.New("none of them leads")
		}
		return nil
	})
	return leads, waits
}

func isLeader(ctx context.Context, name string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, here.cluster.MetricsOf(name), nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return bytes.Contains(text, []byte("leader_election_master_status{name=\"weir-controller\"} 1")), err
}

// resourceVersions are the resource versions of all that a release writes.
func (a *app) resourceVersions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	lists := []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &v1beta1.RolloutList{}, &v1beta1.BatchReleaseList{}}
	for _, list := range lists {
		if err := here.client.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
			return nil, err
		}
		err := apimeta.EachListItem(list, func(o runtime.Object) error {
			item, err := apimeta.Accessor(o)
			if err == nil {
				versions[fmt.Sprintf("%T %s", o, item.GetName())] = item.GetResourceVersion()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// A leader is frozen at the moment of an approval. Another one takes over and
// takes the release two steps on, to where a user has to decide. The old one is
// woken: it writes nothing, and leads no longer.
func leaderFrozen(t *testing.T) {
	a := midway(t)
	old, other := a.leader()
	pid, err := here.cluster.Pid(old)
	if err != nil {
		t.Fatal(err)
	}
	a.promote(1)
	if err := here.cluster.Signal(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.until("the other one leads", func(ctx context.Context) error {
		is, err := isLeader(ctx, other)
		if err == nil && !is {
			err = errors.New("it does not")
		}
		return err
	})
	a.until("step 2 waits", a.waitsAt(2))
	a.post(here.admin, "abort", "", http.StatusCreated)
	a.until("the release is aborted", a.isAborted)
	a.isBack("v1")
	before, err := a.resourceVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := here.cluster.Signal(old, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.until("the old leader leads no longer", func(ctx context.Context) error {
		if leads, err := isLeader(ctx, old); err != nil || leads {
			return errors.Join(err, errors.New("it does"))
		}
		return nil
	})
	a.until("its process is as it should be", func(context.Context) error {
		// weir-controller ends with its lease; weir-apiserver goes on serving, and its controllers start again.
		now, err := here.cluster.Pid(old)
		if err == nil && (now == pid) == *apart {
			err = fmt.Errorf("process %d is now %d", pid, now)
		}
		return err
	})
	a.stays("the old leader wrote", func(ctx context.Context) error {
		after, err := a.resourceVersions(ctx)
		if err == nil && fmt.Sprint(after) != fmt.Sprint(before) {
			err = fmt.Errorf("%v became %v", before, after)
		}
		return err
	})
	a.guard.atMost("v2", 0)
	a.cancel("v1")
}
