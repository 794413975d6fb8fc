// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && record

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/store"
	"github.com/weir-rollouts/weir/test/cluster"
)

// storagePrefix is where weir-apiserver stores everything, in all versions.
const storagePrefix = "/registry/rollouts.kruise.io/"

// recordTo is a directory of pkg/apiserver/testdata/stored; "make record" names it.
var recordTo = flag.String("e2e.record", "", "where to write what weir-apiserver stores")

// TestRecord brings releases into every state in which they can stay, and writes
// down how each is stored, so that later versions can be tested with it: see
// TestStored of pkg/apiserver.
func TestRecord(t *testing.T) {
	var apps []*app
	for _, s := range states() {
		a := spaceOf(t, s.name).start(s.plan)
		s.reach(a)
		apps = append(apps, a)
	}
	// Nobody touches what follows, and nothing moves while it is read.
	if err := here.cluster.Kill(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	everything(t)
	if err := os.RemoveAll(*recordTo); err != nil {
		t.Fatal(err)
	}
	for key, value := range storedNow(t) {
		if parts := strings.Split(key, "/"); parts[3] == "rollouthistories" && !slices.Contains(onFile, parts[4]) {
			continue
		}
		path := filepath.Join(*recordTo, strings.TrimPrefix(key, storagePrefix)+".json")
		var text bytes.Buffer
		err := errors.Join(json.Indent(&text, value, "", "  "), os.MkdirAll(filepath.Dir(path), 0o755))
		if err := errors.Join(err, os.WriteFile(path, append(text.Bytes(), '\n'), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := here.cluster.Start(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range apps {
		a.guard.stop(t)
		a.guard = nil
	}
}

// undecided is plain with a check that no source answers.
func undecided() plan {
	p := plain()
	p.change = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{
			OnFail: v1beta1.OnFailWait, Checks: []v1beta1.Check{{SuccessRate: new("99%")}},
		}
	}
	return p
}

// onFile are the states whose histories are recorded. Those of the others are alike.
var onFile = []string{"partition", "promoted-at-once", "everything"}

// storedNow is everything that weir-apiserver has in its etcd.
func storedNow(t *testing.T) map[string][]byte {
	t.Helper()
	endpoint, err := store.EndpointIn(here.cluster.WeirData())
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }() // it only reads
	got, err := etcd.Get(t.Context(), storagePrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, kv := range got.Kvs {
		all[string(kv.Key)] = kv.Value
	}
	return all
}

// state is one in which a release can stay. Its name is that of its namespace.
type state struct {
	name  string
	plan  plan
	reach func(a *app)
}

func states() []state {
	routed := usual()
	routed.steps = append(routed.steps[:2:2], with(timed("80%", 3600), "80%"), routed.steps[2])
	routing := newTrafficRouting(v1alpha1.TrafficRoutingRef{Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1alpha1.IngressRef{Name: name}},
		v1alpha1.TrafficRoutingStrategy{Weight: new(int32(20))})
	return []state{
		{"idle", usual(), func(*app) {}},
		{"partition", routed, func(a *app) {
			a.first()
			a.post(here.admin, "promote", `{"reason":"looks fine","requestID":"1","expect":{"step":1},"override":true}`, http.StatusCreated)
			a.until("step 2 waits", a.waitsAt(2))
			a.promote(2)
			a.until("step 3 waits", a.waitsAt(3))
		}},
		{"canary", beside(), (*app).first},
		{"blue-green", switched(), func(a *app) {
			a.release("v2")
			a.until("step 1 waits", a.green(1))
		}},
		{"fronted", fronted(routing), func(a *app) {
			a.create(routing)
			a.until("the TrafficRouting is Healthy", a.routingIs("Healthy"))
			a.first()
		}},
		{"paused", plain(), func(a *app) {
			a.first()
			a.post(here.admin, "pause", "", http.StatusCreated)
			a.until("it is paused", a.doing("Paused"))
		}},
		{"approved-by-status", plain(), func(a *app) {
			a.first()
			here.admin.kubectl(a, "patch", "rollout", name, "--subresource=status", "--type=merge",
				`-p={"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`).works()
			a.until("step 2 waits", a.waitsAt(2))
		}},
		{"aborted", usual(), func(a *app) {
			a.first()
			a.abort()
		}},
		{"upgrading", plain(), func(a *app) {
			a.release("failed")
			a.until("its pods do not come", a.at(1, v1beta1.StepUpgrade))
		}},
		{"promoted-at-once", plain(), func(a *app) {
			a.first()
			a.promoteAll()
			a.until("the Rollout is Healthy", a.released("v2"))
			a.until("the release is complete", a.filed("1 completed succeeded"))
		}},
		{"jumped", plain(), func(a *app) {
			a.first()
			here.admin.kubectlWith(a, `{"step":2}`, "--as=alice", "--as-uid=uid-of-alice", "--as-group=system:masters",
				"create", "--raw", a.path()+"/jump", "-f", "-").works()
			a.until("step 2 waits", a.waitsAt(2))
		}},
		{"overridden", undecided(), func(a *app) {
			a.first()
			here.admin.kubectlWith(a, `{"step":2,"override":true,"reason":"known problem"}`, "--as=alice", "--as-uid=uid-of-alice", "--as-group=system:masters",
				"create", "--raw", a.path()+"/jump", "-f", "-").works()
			a.until("step 2 waits", a.waitsAt(2))
		}},
		{"disabled", plain(), func(a *app) {
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("it is disabled", a.disabled)
		}},
		{"deleted", plain(), func(a *app) {
			a.first()
			a.edit(`{"metadata":{"finalizers":["rollouts.kruise.io/rollout","example.com/wait"]}}`)
			here.admin.kubectl(a, "delete", "rollout", name, "--wait=false").works()
			a.until("only the other finalizer is left", func(ctx context.Context) error {
				r, err := a.stored(ctx)
				if err == nil && len(r.Finalizers) > 1 {
					err = fmt.Errorf("there are %v", r.Finalizers)
				}
				return err
			})
		}},
	}
}

// first starts a release, whose first step waits.
func (a *app) first() {
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
}

// everything stores objects with every field that there is, in the version that
// each is written in.
func everything(t *testing.T) {
	t.Helper()
	a := spaceOf(t, "everything")
	file, err := os.Open(filepath.Join("testdata", "everything.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	objects, err := cluster.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		status := o.Object["status"]
		a.create(o)
		if status == nil {
			continue
		}
		o.Object["status"] = status
		if err := here.client.Status().Update(t.Context(), o); err != nil {
			t.Fatalf("writing the status of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
