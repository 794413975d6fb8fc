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

// recordTo is the directory of pkg/apiserver/testdata/stored that "make record" sets.
var recordTo = flag.String("e2e.record", "", "directory for the recorded objects of weir-apiserver")

// TestRecord brings releases into every state in which they can stay, and records how each is
// stored, so that later versions can be tested with it: see TestStored of pkg/apiserver.
func TestRecord(t *testing.T) {
	var apps []*app
	for _, s := range recordedStates() {
		a := newNamedNamespace(t, s.name).start(s.plan)
		s.reach(a)
		apps = append(apps, a)
	}
	// No user writes from here on, and nothing changes while the store is read.
	if err := testEnv.cluster.Kill(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	storeEveryField(t)
	if err := os.RemoveAll(*recordTo); err != nil {
		t.Fatal(err)
	}
	for key, value := range readStore(t) {
		if parts := strings.Split(key, "/"); parts[3] == "rollouthistories" && !slices.Contains(statesWithHistory, parts[4]) {
			continue
		}
		path := filepath.Join(*recordTo, strings.TrimPrefix(key, storagePrefix)+".json")
		var text bytes.Buffer
		err := errors.Join(json.Indent(&text, value, "", "  "), os.MkdirAll(filepath.Dir(path), 0o755))
		if err := errors.Join(err, os.WriteFile(path, append(text.Bytes(), '\n'), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := testEnv.cluster.Start(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range apps {
		a.guard.stop(t)
		a.guard = nil
	}
}

// planWithSilentCheck is planWithoutTraffic with a check whose source does not answer.
func planWithSilentCheck() plan {
	p := planWithoutTraffic()
	p.customizeRollout = func(r *v1beta1.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{
			OnFail: v1beta1.OnFailWait, Checks: []v1beta1.Check{{SuccessRate: new("99%")}},
		}
	}
	return p
}

// statesWithHistory are the states whose histories are recorded. Those of the others are alike.
var statesWithHistory = []string{"partition", "promoted-at-once", "everything"}

// readStore returns everything that weir-apiserver has stored in its etcd.
func readStore(t *testing.T) map[string][]byte {
	t.Helper()
	endpoint, err := store.EndpointIn(testEnv.cluster.WeirData())
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }() // the client only reads
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

// recordedState is a state in which a release can stay. Its name is the name of its namespace.
type recordedState struct {
	name  string
	plan  plan
	reach func(a *app)
}

func recordedStates() []recordedState {
	routed := defaultPlan()
	routed.steps = append(routed.steps[:2:2], withTraffic(timedStep("80%", 3600), "80%"), routed.steps[2])
	routing := newTrafficRouting(v1alpha1.TrafficRoutingRef{Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1alpha1.IngressRef{Name: name}},
		v1alpha1.TrafficRoutingStrategy{Weight: new(int32(20))})
	return []recordedState{
		{"idle", defaultPlan(), func(*app) {}},
		{"partition", routed, func(a *app) {
			a.releaseAndAwaitStep1()
			a.post(testEnv.admin, "promote", `{"reason":"looks fine","requestID":"1","expect":{"step":1},"override":true}`, http.StatusCreated)
			a.eventually("step 2 waits", a.waitsAtStep(2))
			a.promote(2)
			a.eventually("step 3 waits", a.waitsAtStep(3))
		}},
		{"canary", canaryPlan(), (*app).releaseAndAwaitStep1},
		{"blue-green", blueGreenPlan(), func(a *app) {
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtBlueGreenStep(1))
		}},
		{"fronted", planWithTrafficRouting(routing), func(a *app) {
			a.create(routing)
			a.eventually("the TrafficRouting is Healthy", a.trafficRoutingPhase("Healthy"))
			a.releaseAndAwaitStep1()
		}},
		{"paused", planWithoutTraffic(), func(a *app) {
			a.releaseAndAwaitStep1()
			a.post(testEnv.admin, "pause", "", http.StatusCreated)
			a.eventually("the release is paused", a.hasProgressingReason("Paused"))
		}},
		{"approved-by-status", planWithoutTraffic(), func(a *app) {
			a.releaseAndAwaitStep1()
			testEnv.admin.kubectl(a, "patch", "rollout", name, "--subresource=status", "--type=merge",
				`-p={"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`).mustSucceed()
			a.eventually("step 2 waits", a.waitsAtStep(2))
		}},
		{"aborted", defaultPlan(), func(a *app) {
			a.releaseAndAwaitStep1()
			a.abort()
		}},
		{"upgrading", planWithoutTraffic(), func(a *app) {
			a.release("failed")
			a.eventually("the pods of the step are not ready", a.isAtStage(1, v1beta1.StepUpgrade))
		}},
		{"promoted-at-once", planWithoutTraffic(), func(a *app) {
			a.releaseAndAwaitStep1()
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.released("v2"))
			a.eventually("the release is complete", a.hasHistories("1 completed succeeded"))
		}},
		{"jumped", planWithoutTraffic(), func(a *app) {
			a.releaseAndAwaitStep1()
			testEnv.admin.kubectlWith(a, `{"step":2}`, "--as=alice", "--as-uid=uid-of-alice", "--as-group=system:masters",
				"create", "--raw", a.path()+"/jump", "-f", "-").mustSucceed()
			a.eventually("step 2 waits", a.waitsAtStep(2))
		}},
		{"overridden", planWithSilentCheck(), func(a *app) {
			a.releaseAndAwaitStep1()
			testEnv.admin.kubectlWith(a, `{"step":2,"override":true,"reason":"known problem"}`, "--as=alice", "--as-uid=uid-of-alice", "--as-group=system:masters",
				"create", "--raw", a.path()+"/jump", "-f", "-").mustSucceed()
			a.eventually("step 2 waits", a.waitsAtStep(2))
		}},
		{"disabled", planWithoutTraffic(), func(a *app) {
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
		}},
		{"deleted", planWithoutTraffic(), func(a *app) {
			a.releaseAndAwaitStep1()
			a.patchRollout(`{"metadata":{"finalizers":["rollouts.kruise.io/rollout","example.com/wait"]}}`)
			testEnv.admin.kubectl(a, "delete", "rollout", name, "--wait=false").mustSucceed()
			a.eventually("only the other finalizer is left", func(ctx context.Context) error {
				r, err := a.getRollout(ctx)
				if err == nil && len(r.Finalizers) > 1 {
					err = fmt.Errorf("there are %v", r.Finalizers)
				}
				return err
			})
		}},
	}
}

// releaseAndAwaitStep1 starts a release and waits until its first step is paused.
func (a *app) releaseAndAwaitStep1() {
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
}

// storeEveryField stores objects in which every field is set, in each API version.
func storeEveryField(t *testing.T) {
	t.Helper()
	a := newNamedNamespace(t, "everything")
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
		if err := testEnv.client.Status().Update(t.Context(), o); err != nil {
			t.Fatalf("writing the status of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
