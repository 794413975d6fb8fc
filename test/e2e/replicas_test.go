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

// TestReplicas tests two replicas of each process with a Service and an external etcd, as
// artifacts/ha installs them. All helpers use this second cluster while these tests run. No other
// tests run in parallel.
func TestReplicas(t *testing.T) {
	startReplicatedCluster(t, cluster.Options{Audit: true})
	t.Run("etcd gets new certificates", etcdCertificatesReplaced)
	t.Run("servers restart one after the other", serversRestarted)
	t.Run("a server is killed", serverKilled)
	t.Run("a leader is frozen and continues", leaderFrozen)
	t.Run("failures", func(t *testing.T) { runFailures(t, failuresOfReplicas()) })
}

// startReplicatedCluster starts a cluster with replicas, and makes it the cluster of all helpers
// until the end of the test.
func startReplicatedCluster(t *testing.T, opts cluster.Options) {
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
	one := testEnv
	t.Cleanup(func() {
		testEnv = one
		var err error
		if opts.Audit {
			err = permissionAudit.addCluster(context.WithoutCancel(t.Context()), c)
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
	if testEnv, err = newEnvironment(c); err != nil {
		t.Fatal(err)
	}
}

// etcdCertificatesReplaced requests a new CA, which etcd must trust before the CA signs
// certificates.
func etcdCertificatesReplaced(t *testing.T) {
	before, err := secretOf(t.Context(), systemNamespace, certs.EtcdServerSecret)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: certs.AuthoritySecret}}
	ask := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+certs.RotateAnnotation+`":""}}}`))
	if err := testEnv.client.Patch(t.Context(), issuer, ask); err != nil {
		t.Fatal(err)
	}
	testEnv.eventually(t, "etcd trusts both CAs", func(ctx context.Context) error {
		for _, name := range []string{certs.EtcdServerSecret, certs.EtcdPeerSecret, certs.EtcdClientSecret} {
			now, err := secretOf(ctx, systemNamespace, name)
			if err != nil {
				return err
			}
			if bytes.Equal(now.Data["ca.crt"], before.Data["ca.crt"]) {
				return fmt.Errorf("%s has the old CA only", name)
			}
		}
		return nil
	})
}

func servers() []string     { return testEnv.cluster.Replicas(cluster.WeirAPIServer) }
func controllers() []string { return testEnv.cluster.Replicas(cluster.WeirController) }

// failuresOfReplicas are failures of all replicas at once, and of the shared etcd.
func failuresOfReplicas() []failure {
	etcd := cluster.WeirEtcd
	rows := []failure{
		{"etcd is killed", killEach(etcd), startEach(etcd), noServer},
		{"etcd is frozen", freezeEach(etcd), unfreezeEach(etcd), noServer},
		{"all servers are killed", killEach(servers()...), startEach(servers()...), noServer},
		{"all controllers are killed", killEach(controllers()...), startEach(controllers()...), noReconciles},
		{"all servers are frozen", freezeEach(servers()...), unfreezeEach(servers()...), noServer},
	}
	if *apart { // otherwise this freezes the servers
		rows = append(rows, failure{"all controllers are frozen", freezeEach(controllers()...), unfreezeEach(controllers()...), noReconciles})
	}
	return rows
}

// releaseLoad sends verbs, and updates that are held, until it is stopped.
type releaseLoad struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	sent   map[string]int
	failed []string
}

// startLoad sends a hundred dry-run verbs per second. Real verbs go to another release, whose
// promotes are refused because it is paused.
func (a *app) startLoad(other *app) *releaseLoad {
	ctx, stop := context.WithCancel(a.t.Context())
	c := &releaseLoad{stop: stop, sent: map[string]int{}}
	c.done.Go(func() { a.sendDryRunPromotes(ctx, c) })
	c.done.Go(func() {
		// A release keeps at most 200 decisions.
		for n := 0; n < 95 && ctx.Err() == nil; n++ {
			c.count("pause", other.sendVerbOnce("pause", c.body(n)))
			c.count("resume", other.sendVerbOnce("resume", c.body(n)))
		}
	})
	c.done.Go(func() {
		for ctx.Err() == nil {
			c.count("update that is held", a.webhookHolds(a.t.Context()))
		}
	})
	return c
}

// body returns an empty body every other time.
func (c *releaseLoad) body(n int) string {
	if n%2 == 0 {
		return ""
	}
	return fmt.Sprintf(`{"requestID":"%d","expect":{"step":1}}`, n)
}

// sendDryRunPromotes sends a hundred dry-run promotes per second. Each has its own goroutine, so
// that a slow one does not delay the others.
func (a *app) sendDryRunPromotes(ctx context.Context, c *releaseLoad) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.done.Go(func() { c.count("promote that is tried", a.sendVerbOnce("promote?dryRun=All", c.body(n))) })
		}
	}
}

// sendVerbOnce sends a verb that must succeed. A verb with a body may be sent twice, because
// kube-apiserver cannot resend a body and returns 503.
func (a *app) sendVerbOnce(verb, body string) error {
	got, err := testEnv.admin.post(a.t.Context(), a, verb, body)
	if err == nil && got.code == http.StatusServiceUnavailable && strings.Contains(got.message, "GOAWAY") && body != "" {
		a.t.Logf("%s is sent again: %s", verb, got)
		got, err = testEnv.admin.post(a.t.Context(), a, verb, body)
	}
	if err == nil && got.code != http.StatusCreated {
		err = errors.New(got.String())
	}
	return err
}

func (c *releaseLoad) count(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[what]++
	if err != nil {
		c.failed = append(c.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
	}
}

// end stops all requests, and returns the failures.
func (c *releaseLoad) end(t *testing.T) []string {
	c.stop()
	c.done.Wait()
	t.Logf("sent %v, of which %d failed", c.sent, len(c.failed))
	return c.failed
}

// serversRestarted replaces the servers one after the other under load, as a Deployment does. No
// request fails: neither verbs nor updates that the webhook holds. A verb with a body may have to
// be sent again.
func serversRestarted(t *testing.T) {
	a := startPausedAtStep1(t)
	c := a.startLoad(startPausedAtStep1(t))
	for _, server := range servers() {
		if err := testEnv.cluster.End(server); err != nil {
			t.Fatal(err)
		}
		if err := testEnv.cluster.Start(server); err != nil {
			t.Fatal(err)
		}
	}
	for _, failed := range c.end(t) {
		t.Error(failed)
	}
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the release is complete", a.released("v2"))
}

// serverKilled kills a server. The requests that it was answering fail with an error. Later
// requests succeed, and the release continues.
func serverKilled(t *testing.T) {
	for _, server := range servers() {
		a := startPausedAtStep1(t)
		c := a.startLoad(startPausedAtStep1(t))
		if err := testEnv.cluster.Kill(server); err != nil {
			t.Fatal(err)
		}
		a.eventually("verbs are answered", func(context.Context) error { return a.sendVerbOnce("promote?dryRun=All", "") })
		a.eventually("updates are held", a.webhookHolds)
		for _, failed := range c.end(t) {
			t.Log("lost: ", failed)
		}
		c = a.startLoad(startPausedAtStep1(t))
		if err := testEnv.cluster.Start(server); err != nil {
			t.Fatal(err)
		}
		for _, failed := range c.end(t) {
			t.Error(failed)
		}
		a.eventually("step 1 waits", a.waitsAtStep(1))
		a.promoteAll()
		a.eventually("the release is complete", a.released("v2"))
	}
}

// leader returns the controller that holds the lease, and the one that does not.
func (a *app) leader() (leads, waits string) {
	a.t.Helper()
	a.eventually("a controller leads", func(ctx context.Context) error {
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
			return errors.New("no controller leads")
		}
		return nil
	})
	return leads, waits
}

func isLeader(ctx context.Context, name string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, testEnv.cluster.MetricsOf(name), nil)
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

// resourceVersions returns the resource versions of all objects that a release writes.
func (a *app) resourceVersions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	lists := []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &v1beta1.RolloutList{}, &v1beta1.BatchReleaseList{}}
	for _, list := range lists {
		if err := testEnv.client.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
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

// leaderFrozen freezes the leader at the moment of an approval. Another controller becomes the
// leader and takes the release two steps further, until a step needs an approval. When the old
// leader continues, it must write nothing, and it is no longer the leader.
func leaderFrozen(t *testing.T) {
	a := startPausedAtStep1(t)
	old, other := a.leader()
	pid, err := testEnv.cluster.Pid(old)
	if err != nil {
		t.Fatal(err)
	}
	a.promote(1)
	if err := testEnv.cluster.Signal(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.eventually("the other controller leads", func(ctx context.Context) error {
		is, err := isLeader(ctx, other)
		if err == nil && !is {
			err = errors.New("this controller does not lead")
		}
		return err
	})
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.post(testEnv.admin, "abort", "", http.StatusCreated)
	a.eventually("the release is aborted", a.isAborted)
	a.checkAborted("v1")
	before, err := a.resourceVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := testEnv.cluster.Signal(old, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.eventually("the old leader no longer leads", func(ctx context.Context) error {
		if leads, err := isLeader(ctx, old); err != nil || leads {
			return errors.Join(err, errors.New("the old leader still leads"))
		}
		return nil
	})
	a.eventually("the process has ended, or has continued", func(context.Context) error {
		// weir-controller exits when it loses the lease; weir-apiserver continues, and restarts its controllers.
		now, err := testEnv.cluster.Pid(old)
		if err == nil && (now == pid) == *apart {
			err = fmt.Errorf("process %d is now %d", pid, now)
		}
		return err
	})
	a.consistently("the old leader wrote", func(ctx context.Context) error {
		after, err := a.resourceVersions(ctx)
		if err == nil && fmt.Sprint(after) != fmt.Sprint(before) {
			err = fmt.Errorf("%v became %v", before, after)
		}
		return err
	})
	a.guard.atMost("v2", 0)
	a.cancel("v1")
}
