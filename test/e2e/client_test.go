// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The tests in client_*_test.go send the requests of clients that were written for the CRDs of
// OpenKruise Rollouts, and expect the same responses.

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

var (
	newVersion = v1beta1.SchemeGroupVersion
	oldVersion = v1alpha1.SchemeGroupVersion
	rollouts   = newVersion.WithResource("rollouts")
)

// request is a raw API request.
type request struct {
	method, path string
	// body is sent as JSON unless it is a string.
	body        any
	contentType string
	accept      string
	more        http.Header
}

// reply is the response to a request.
type reply struct {
	t        *testing.T
	request  request
	code     int
	body     []byte
	kind     string
	warnings []string
}

// send calls the API as a user.
func (u *user) send(t *testing.T, r request) reply {
	t.Helper()
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(encoded)
	}
	out, err := http.NewRequestWithContext(t.Context(), r.method, u.host+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(out.Header, r.more)
	if r.contentType == "" {
		r.contentType = "application/json"
	}
	out.Header.Set("Content-Type", r.contentType)
	if r.accept != "" {
		out.Header.Set("Accept", r.accept)
	}
	in, err := u.http.Do(out)
	if err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(in.Body)
	if err := errors.Join(err, in.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return reply{t: t, request: r, code: in.StatusCode, body: read, kind: in.Header.Get("Content-Type"), warnings: in.Header.Values("Warning")}
}

// mustAnswer fails the test unless the response has this code and contains the words.
func (r reply) mustAnswer(code int, words ...string) reply {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("%s %s: got %d, want %d: %.2000s", r.request.method, r.request.path, r.code, code, r.body)
	}
	for _, word := range words {
		if !strings.Contains(string(r.body), word) {
			r.t.Fatalf("%s %s should have answered %q: %.2000s", r.request.method, r.request.path, word, r.body)
		}
	}
	return r
}

// object decodes the response without types.
func (r reply) object() *unstructured.Unstructured {
	r.t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(r.body); err != nil {
		r.t.Fatalf("decoding %.500s: %v", r.body, err)
	}
	return o
}

// decode decodes an answer.
func decode[T any](r reply) T {
	r.t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("decoding %.500s: %v", r.body, err)
	}
	return v
}

// listPath is the API path of all Rollouts in the namespace.
func (a *app) listPath(version schema.GroupVersion) string {
	return "/apis/" + version.String() + "/namespaces/" + a.namespace + "/rollouts"
}

// rolloutPath is the API path of a Rollout.
func (a *app) rolloutPath(version schema.GroupVersion, name string) string {
	return a.listPath(version) + "/" + name
}

// newRolloutWithoutWorkload is a Rollout for a workload that does not exist, for tests of the API
// only.
func (a *app) newRolloutWithoutWorkload(name string) *v1beta1.Rollout {
	a.t.Helper()
	b := &app{plan: planWithoutTraffic(), rollout: name}
	r := b.newRollout()
	r.Spec.WorkloadRef.Name = name
	a.create(r)
	return r
}

// awaitObserved waits until the controller has observed the Rollout.
func (a *app) awaitObserved(name string) {
	a.t.Helper()
	a.eventually(name+" has been observed", func(ctx context.Context) error {
		r := &v1beta1.Rollout{}
		if err := testEnv.client.Get(ctx, a.key(name), r); err != nil {
			return err
		}
		if r.Status.ObservedGeneration != r.Generation {
			return fmt.Errorf("generation %d of %d was seen", r.Status.ObservedGeneration, r.Generation)
		}
		return nil
	})
}

// mustGetRollout reads a Rollout.
func (a *app) mustGetRollout(name string) *v1beta1.Rollout {
	a.t.Helper()
	r := &v1beta1.Rollout{}
	if err := testEnv.client.Get(a.t.Context(), a.key(name), r); err != nil {
		a.t.Fatal(err)
	}
	return r
}

// isGone returns a check that an object does not exist.
func (a *app) isGone(o client.Object, name string) func(context.Context) error {
	return isGone(o, a.key(name))
}

func isGone(o client.Object, key client.ObjectKey) func(context.Context) error {
	return func(ctx context.Context) error {
		err := testEnv.client.Get(ctx, key, o)
		if err == nil {
			return fmt.Errorf("%T %s is still there, finalizers %v", o, key.Name, o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	}
}
