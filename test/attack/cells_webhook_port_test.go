// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

const (
	webhookPath = "/admission/v1/workloads"
	// mostMemory is how much memory all endless bodies together may use.
	mostMemory = 256 << 20
)

var webhookPortCells = []cell{
	{who: nobody, what: slow, how: "120 bodies that never end", exclusive: true, attack: sendsEndlessBodies, expect: updatesAreAnswered},
	{who: nobody, what: slow, how: "sends many admission reviews", exclusive: true, attack: sendsManyReviews, expect: updatesAreAnswered},
	{who: nobody, what: crash, how: "sends requests that are not admission reviews", attack: sendsInvalidReviews, expect: func(a *app) {
		a.answered(http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusMethodNotAllowed)
		a.checkUnchanged()
		a.checkNextRelease()
	}},
	{who: nobody, what: learn, how: "asks the webhook whether a Rollout references a workload", attack: asksTheWebhook, expect: func(a *app) {
		a.answered(http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest)
		a.checkUnchanged()
		a.checkNextRelease()
	}},
}

// webhook is the URL of the webhook server.
func (a *app) webhook() string {
	a.t.Helper()
	c := &admissionv1.MutatingWebhookConfiguration{}
	if err := testEnv.client.Get(a.t.Context(), client.ObjectKey{Name: "weir-workloads"}, c); err != nil {
		a.t.Fatal(err)
	}
	return "127.0.0.1:" + strconv.Itoa(int(*c.Webhooks[0].ClientConfig.Service.Port))
}

// newAnonymousUser verifies no server certificate, and has no client certificate.
func newAnonymousUser(host string) *user {
	return &user{name: "anybody", host: "https://" + host, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the attacker verifies nothing
	}}}
}

// admissionReview is an AdmissionReview of an update of a workload.
func admissionReview(namespace, name string) string {
	o := object{"apiVersion": "apps/v1", "kind": deployments, "metadata": object{"name": name, "namespace": namespace}}
	return encode(object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": object{
		"uid": "1", "kind": object{"group": "apps", "version": "v1", "kind": deployments},
		"resource":  object{"group": "apps", "version": "v1", "resource": "deployments"},
		"namespace": namespace, "name": name, "operation": "UPDATE", "userInfo": object{"username": "anybody"}, "object": o, "oldObject": o,
	}})
}

// sendsEndlessBodies sends the beginning of a large body on each of many connections, and waits
// until all of them are closed. Meanwhile updates are still held.
func sendsEndlessBodies(a *app, _ *user) {
	a.t.Helper()
	address, before := a.webhook(), memoryOfServer(a)
	var wg sync.WaitGroup
	var most atomic.Int64
	for range 120 {
		wg.Go(func() {
			if err := a.sendEndlessBody(address); err != nil {
				a.t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for {
		a.checkUpdateIsHeld()
		most.Store(max(most.Load(), memoryOfServer(a)-before))
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	if grown := most.Load(); grown > mostMemory {
		a.t.Errorf("endless bodies used %d MiB", grown>>20)
	}
}

// sendEndlessBody sends a body until the server closes the connection. It returns an error if the
// server does not.
func (a *app) sendEndlessBody(address string) error {
	ctx, cancel := patience.Context(a.t.Context(), patience.Long)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the attacker verifies nothing
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the connection may already be closed
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", webhookPath, 4<<20)
	_, _ = io.Copy(conn, io.LimitReader(endlessString{}, 4<<20-1)) // the connection may be refused meanwhile
	_, _ = io.Copy(io.Discard, conn)
	if ctx.Err() != nil {
		return fmt.Errorf("an endless body is still read: %w", context.Cause(ctx))
	}
	return nil
}

// endlessString is the content of a JSON string without an end.
type endlessString struct{}

func (endlessString) Read(p []byte) (int, error) {
	copy(p, strings.Repeat("x", len(p)))
	p[0] = '"'
	return len(p), nil
}

var residentMemory = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// memoryOfServer returns the resident memory of weir-apiserver in bytes.
func memoryOfServer(a *app) int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	pid, err := testEnv.cluster.Pid(cluster.WeirAPIServer)
	if err != nil {
		a.t.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := residentMemory.FindSubmatch(data)
	if err != nil || found == nil {
		a.t.Fatalf("reading the memory of weir-apiserver: %v", err)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return kib << 10
}

// checkUpdateIsHeld checks that an update is held: the webhook answers within the timeout that
// kube-apiserver has for it.
func (a *app) checkUpdateIsHeld() {
	a.t.Helper()
	got := a.attackWith(testEnv.admin, request{
		method: http.MethodPatch, path: a.path() + "?dryRun=All", kind: string(types.MergePatchType), body: change{version: "v2"}.body(),
	})
	if !strings.Contains(got.body, `"paused":true`) {
		a.t.Errorf("an update is not held: %s", got)
	}
}

// sendsManyReviews sends reviews of workloads without a Rollout, as fast as they are answered.
func sendsManyReviews(a *app, _ *user) {
	a.t.Helper()
	ctx, quit := context.WithCancel(a.t.Context())
	host := a.webhook()
	var wg sync.WaitGroup
	var sent atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			u := newAnonymousUser(host)
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := u.send(ctx, post(webhookPath, admissionReview(fmt.Sprintf("nowhere-%d", i), fmt.Sprintf("x-%d", n)))); err == nil {
					sent.Add(1)
				} else if !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
					sent.Add(1) // the request is refused as expected
				}
			}
		})
	}
	for range 50 {
		a.checkUpdateIsHeld()
	}
	quit()
	wg.Wait()
	a.t.Logf("%d anonymous reviews", sent.Load())
}

// updatesAreAnswered expects that updates were answered meanwhile, and that releases continue.
func updatesAreAnswered(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.checkUnchanged()
	a.checkNextRelease()
}

func sendsInvalidReviews(a *app, _ *user) {
	a.t.Helper()
	u := newAnonymousUser(a.webhook())
	for _, body := range words("", "{", "null", "[]", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, `{"apiVersion":"v1","kind":"Pod"}`,
		strings.Repeat("[", 1<<20), strings.Repeat(`{"request":`, 20000)) {
		a.attackWith(u, post(webhookPath, body))
	}
	a.attackWith(u, get(webhookPath))
	a.attackWith(u, get("/debug/pprof/"))
	a.attackWith(u, get("/metrics"))
}

func asksTheWebhook(a *app, _ *user) {
	a.t.Helper()
	u := newAnonymousUser(a.webhook())
	a.attackWith(u, post(webhookPath, admissionReview(a.namespace, a.name)))
	a.attackWith(u, post(webhookPath, admissionReview(a.namespace, "nobody")))
}

var anonymousCells = []cell{
	{who: nobody, what: learn, how: "through kube-apiserver", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
		readsOthers(a, u)
		a.attackWith(u, get("/apis/rollouts.kruise.io/v1beta1"))
	}, expect: isUnauthorized},
	{who: nobody, what: learn, how: "at weir-apiserver itself", scenario: scenario{at: atStep1}, attack: func(a *app, _ *user) {
		u := newAnonymousUser(testEnv.cluster.Address(cluster.WeirAPIServer))
		for _, path := range words("/healthz", "/livez", "/readyz") {
			a.mustSend(u, get(path))
		}
		readsOthers(a, u)
		for _, path := range words("/apis", "/apis/rollouts.kruise.io/v1beta1", "/openapi/v2", "/openapi/v3", "/metrics", "/debug/pprof/", "/logs", "/") {
			a.attackWith(u, get(path))
		}
		named := post(a.api()+"/promote", "")
		named.more = http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "Impersonate-User": {"admin"}}
		a.attackWith(u, named)
	}, expect: isUnauthorized},
}
