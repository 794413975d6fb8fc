// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
)

// A source that is gone leaves nothing behind: its connections end, and one of the same name is
// asked anew, also where both have the same version.
func TestSourceIsGone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"status": "success", "data": {"resultType": "matrix", "result": []}}`)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, stored := clusterOf(t)
	c := analysis.NewCluster(stored, stored, stored, []string{"127.0.0.1"}, clock.RealClock{})
	ask := func() {
		t.Helper()
		s, err := c.Source(t.Context(), "main", "shop")
		if err != nil {
			t.Fatal(err)
		}
		if _, fault := s.Query(t.Context(), analysis.RangeQuery{PromQL: "up", Namespace: "shop", Start: time.Unix(1_800_000_000, 0), Step: time.Hour, Windows: 1}); fault.Why != "" {
			t.Fatal(fault.Why)
		}
	}
	made := func() *weir.MetricSource {
		return &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: weir.MetricSourceSpec{Prometheus: &weir.Prometheus{URL: server.URL}}}
	}
	if err := stored.Create(t.Context(), made()); err != nil {
		t.Fatal(err)
	}
	ask()
	ask()
	if n := asked.Load(); n != 1 {
		t.Fatalf("a question is asked %d times, want once", n)
	}
	if err := stored.Delete(t.Context(), made()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Source(t.Context(), "main", "shop"); err == nil {
		t.Fatal("a source that is gone is there")
	}
	<-closed // or the connection to a source that is gone stays
	if err := stored.Create(t.Context(), made()); err != nil {
		t.Fatal(err)
	}
	ask()
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want the new source to be asked", n)
	}
}
