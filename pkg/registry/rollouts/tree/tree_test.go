// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

const whole = `rollout web Progressing
workload web Healthy 2/2
revision web-v1 Healthy 2/2
pod web-v1-000 Healthy
pod web-v1-001 Healthy
scaler web-hpa Healthy
budget web-pdb Healthy Allows 0 disruptions
service web-service Healthy Selects all pods
router web-ingress Healthy`

// Each user sees the permitted objects, and a line for hidden kinds with the missing permission.
func TestTree(t *testing.T) {
	the.application(t, "tree", 2)
	tests := map[string]struct {
		user   string
		denied []string
		want   []string
		code   metav1.StatusReason
	}{
		"everything":  {user: vera, want: strings.Split(whole, "\n")},
		"no pods":     {user: pat, denied: []string{"list pods"}, want: []string{"revision web-v1 Healthy 2/2", "hidden Pod: list pods (2)"}},
		"no sets":     {user: pat, denied: []string{"list replicasets"}, want: []string{"workload web Progressing", "hidden ReplicaSet: list replicasets.apps", "hidden Pod: list replicasets.apps"}},
		"no workload": {user: pat, denied: []string{"get deployments"}, want: []string{"hidden Deployment: get deployments.apps"}},
		"no network":  {user: pat, denied: []string{"get services", "get ingresses"}, want: []string{"hidden Service: get services", "hidden Ingress: get ingresses.networking.k8s.io"}},
		"no batch":    {user: pat, denied: []string{"get batchreleases"}, want: []string{"hidden BatchRelease: get batchreleases.rollouts.kruise.io"}},
		"no rollout":  {user: pat, denied: []string{"get rollouts"}, code: metav1.StatusReasonForbidden},
		"no tree":     {user: pat, denied: []string{"get rollouts/tree"}, code: metav1.StatusReasonForbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			the.deny(t, tt.denied...)
			tree, err := the.as(t, tt.user).RolloutsV1beta1().Rollouts("tree").GetTree(t.Context(), "web", metav1.GetOptions{})
			if code := apierrors.ReasonForError(err); code != tt.code && (tt.code != "" || err != nil) {
				t.Fatalf("got the error %v, want %s", err, tt.code)
			}
			if err != nil {
				return
			}
			got := rows(tree)
			for _, want := range tt.want {
				if !slices.Contains(strings.Split(got, "\n"), want) {
					t.Errorf("there is no line %q in:\n%s", want, got)
				}
			}
		})
	}
}

// A TrafficRouting that a plan references is shown as a router to users who may see it.
func TestTrafficRouting(t *testing.T) {
	the.application(t, "routing", 1)
	patch := []byte(`{"spec":{"strategy":{"canary":{"trafficRoutings":null,"trafficRoutingRef":"edge","steps":[{"replicas":"20%"}]}}}}`)
	if _, err := the.as(t, admin).RolloutsV1beta1().Rollouts("routing").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	the.shows(t, "routing", "router edge Missing Does not exist")
	edge := &v1alpha1.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	edge.Spec.ObjectRef = []v1alpha1.TrafficRoutingRef{{Service: "web-service", Ingress: &v1alpha1.IngressRef{Name: "web-ingress"}}}
	edge.Spec.Strategy.Weight = new(int32(20))
	if _, err := the.as(t, admin).RolloutsV1alpha1().TrafficRoutings("routing").Create(t.Context(), edge, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	the.shows(t, "routing", "router edge Progressing")
	the.deny(t, "get trafficroutings")
	the.shows(t, "routing", "hidden TrafficRouting: get trafficroutings.rollouts.kruise.io")
}

// shows waits for a line of the tree that pat sees. One read may serve several requests.
func (w *world) shows(t *testing.T, namespace, line string) {
	t.Helper()
	w.eventually(t, line, func() bool {
		tree, err := w.as(t, pat).RolloutsV1beta1().Rollouts(namespace).GetTree(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(strings.Split(rows(tree), "\n"), line)
	})
}

// Objects that the server's account cannot read, or whose read fails, are shown as hidden.
func TestUnreadable(t *testing.T) {
	the.application(t, "unreadable", 1)
	fail := true
	the.cluster.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		return fail && a.GetNamespace() == "unreadable", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	defer func() { fail = false }()
	tree, err := the.as(t, vera).RolloutsV1beta1().Rollouts("unreadable").GetTree(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "hidden Pod: list pods (1) weir-apiserver may not read them; the ClusterRole weir-apiserver-views grants it"; !strings.Contains(rows(tree), want) {
		t.Errorf("there is no line %q in:\n%s", want, rows(tree))
	}
}

// A stream begins with the current state, and continues with its changes.
func TestStream(t *testing.T) {
	the.application(t, "stream", 2)
	s, err := the.stream(t, vera, "stream", "web")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got := rows(the.tree(t, s, watch.Added)); got != whole {
		t.Errorf("got:\n%s\nwant:\n%s", got, whole)
	}
	the.update(t, podOf("stream", 1, false))
	got := rows(the.tree(t, s, watch.Modified))
	if want := "pod web-v1-001 Degraded container app: CrashLoopBackOff"; !strings.Contains(got, want) {
		t.Errorf("there is no line %q in:\n%s", want, got)
	}
	the.remove(t, corev1.SchemeGroupVersion.WithResource("pods"), "stream", "web-v1-001")
	if got := rows(the.tree(t, s, watch.Modified)); strings.Contains(got, "web-v1-001") {
		t.Errorf("a pod that is gone is in:\n%s", got)
	}
	if err := the.as(t, admin).RolloutsV1beta1().Rollouts("stream").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := the.next(t, s); e.Type != watch.Deleted; e = the.next(t, s) {
		if e.Type != watch.Modified {
			t.Fatalf("got the event %s %v, want %s", e.Type, e.Object, watch.Deleted)
		}
		release(t, "stream")
	}
	if e := the.next(t, s); e.Type != "closed" {
		t.Errorf("got the event %s after the Rollout was gone", e.Type)
	}
}

// release removes the finalizer of a deleted Rollout, as weir-controller does.
func release(t *testing.T, namespace string) {
	t.Helper()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	_, err := the.as(t, admin).RolloutsV1beta1().Rollouts(namespace).Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// A stream shows fewer objects after a permission was revoked. Revoking the last permission ends it.
func TestRights(t *testing.T) {
	the.application(t, "rights", 2)
	s, err := the.stream(t, pat, "rights", "web")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	the.tree(t, s, watch.Added)
	the.deny(t, "list pods")
	if got := rows(the.tree(t, s, watch.Modified)); !strings.Contains(got, "hidden Pod: list pods") || strings.Contains(got, "pod web") {
		t.Errorf("without the right to list pods there is:\n%s", got)
	}
	the.eventually(t, "the watch of pods to end", func() bool { return the.watched()["pods"] == 0 })
	the.deny(t, "watch rollouts/tree")
	e := the.next(t, s)
	status, ok := e.Object.(*metav1.Status)
	if !ok || e.Type != watch.Error || status.Reason != metav1.StatusReasonForbidden {
		t.Errorf("got the event %s %v, want a refusal", e.Type, e.Object)
	}
	if e := the.next(t, s); e.Type != "closed" {
		t.Errorf("got the event %s after the refusal", e.Type)
	}
}

// A watch has a maximum duration.
func TestLongest(t *testing.T) {
	the.application(t, "longest", 1)
	s, err := the.stream(t, vera, "longest", "web")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	the.tree(t, s, watch.Added)
	began := the.clock.Now()
	if e := the.next(t, s); e.Type != "closed" {
		t.Errorf("got the event %s %v", e.Type, e.Object)
	}
	if took := the.clock.Since(began).Minutes(); took < 9 || took > 11 {
		t.Errorf("the stream ended after %.1f minutes", took)
	}
}

// If the maximum number of trees is open, others are refused, unless an open tree has no viewers.
func TestMost(t *testing.T) {
	var streams []watch.Interface
	for i := range 3 {
		namespace := fmt.Sprintf("most-%d", i)
		the.application(t, namespace, 1)
		s, err := the.stream(t, vera, namespace, "web")
		if refused := apierrors.IsTooManyRequests(err); refused != (i == 2) {
			t.Fatalf("tree %d: %v", i, err)
		}
		if err == nil {
			the.tree(t, s, watch.Added)
			streams = append(streams, s)
		}
	}
	streams[0].Stop()
	the.eventually(t, "room", func() bool {
		s, err := the.stream(t, vera, "most-2", "web")
		if err == nil {
			s.Stop()
		}
		return err == nil
	})
	streams[1].Stop()
	the.quiet(t)
}

// A hundred viewers share one set of watches. After they have left, all watches end.
func TestNobodyLooks(t *testing.T) {
	the.application(t, "crowd", 150)
	the.quiet(t)
	before := heap()
	viewers, clients := make([]watch.Interface, 100), []string{vera, pat}
	the.cluster.ClearActions()
	the.deny(t, "list horizontalpodautoscalers")
	for i := range viewers {
		var err error
		if viewers[i], err = the.stream(t, clients[i%2], "crowd", "web"); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range viewers {
		if tree := the.tree(t, s, watch.Added); len(tree.Nodes) < 155 {
			t.Fatalf("there are %d nodes", len(tree.Nodes))
		}
	}
	lists := slices.DeleteFunc(the.cluster.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() != "list" })
	if len(lists) > 50 {
		t.Errorf("for 100 viewers there were %d lists", len(lists))
	}
	want := map[string]int{
		"deployments": 1, "replicasets": 1, "pods": 1, "services": 2, "ingresses": 2,
		"horizontalpodautoscalers": 1, "poddisruptionbudgets": 1,
	}
	if got := the.watched(); !maps.Equal(got, want) {
		t.Errorf("there are the watches %v, want %v", got, want)
	}
	for _, s := range viewers {
		s.Stop()
	}
	the.quiet(t)
	the.eventually(t, "memory to be back", func() bool { return heap() < before+2<<20 })
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// quiet waits until all watches of a tree have ended.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	var running string
	defer func() {
		if t.Failed() {
			t.Log(running)
		}
	}()
	w.eventually(t, "quiet", func() bool {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Fatal(err)
		}
		running = all.String()
		return len(w.watched()) == 0 && !strings.Contains(running, "registry/rollouts/tree.(*")
	})
}
