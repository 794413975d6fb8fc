// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

// These are the users of the tests.
const (
	// admin may do everything.
	admin = "admin"
	// controller is the user of weir-controller.
	controller = "system:serviceaccount:weir-system:weir-controller"
	// alice writes Rollouts and approves their steps.
	alice = "alice"
	// dave writes Rollouts and their status, but may not approve.
	dave = "dave"
	// victor may read, and nora may read only computed subresources.
	victor = "victor"
	nora   = "nora"
	// heidi may do everything with objects of Weir, and may not get other objects.
	heidi = "heidi"
	// rita manages releases, and may not override checks.
	rita = "rita"
)

const (
	v1beta1Path  = "/apis/rollouts.kruise.io/v1beta1"
	v1alpha1Path = "/apis/rollouts.kruise.io/v1alpha1"
)

// server is shared; each test uses its own namespace.
var server *apiservertest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-registry-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a directory of the system's for such
	users := []user.DefaultInfo{
		{Name: admin, Groups: []string{user.SystemPrivilegedGroup}},
		{Name: controller}, {Name: alice, UID: "uid-of-alice"}, {Name: dave},
		{Name: victor}, {Name: nora}, {Name: heidi}, {Name: rita},
	}
	if server, err = apiservertest.Start(dir, users, allowed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func allowed(a authorizer.Attributes) bool {
	action := a.GetVerb() + " " + a.GetResource()
	if a.GetSubresource() != "" {
		action += "/" + a.GetSubresource()
	}
	switch a.GetUser().GetName() {
	case controller:
		return action != "create rollouts/promote" && action != "create rollouts/abort"
	case alice:
		return action != "update rollouts/progress" && action != "create rollouts/abort"
	case rita:
		return action != "update rollouts/progress" && action != "create rollouts/override"
	case victor:
		return a.GetVerb() == "get" || action == "create rollouts/plan" || action == "create rollouts/promote"
	case heidi:
		return a.GetAPIGroup() == "rollouts.kruise.io" && action != "update rollouts/progress"
	case nora:
		return a.GetVerb() == "get" && a.GetSubresource() != ""
	case dave:
		return a.GetSubresource() == "" || a.GetSubresource() == "status"
	}
	return false
}

// answer is a response of the server.
type answer struct {
	code     int
	body     []byte
	warnings []string
}

// status decodes the Status of an error.
func (a answer) status() metav1.Status {
	var s metav1.Status
	if err := json.Unmarshal(a.body, &s); err != nil {
		s.Message = string(a.body)
	}
	return s
}

// request is one request to the API.
type request struct {
	as, method, path string
	// body is encoded as JSON unless it is a string.
	body    any
	headers map[string]string
}

func call(t testing.TB, r request) answer {
	t.Helper()
	config := server.As(r.as)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
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
	req, err := http.NewRequestWithContext(t.Context(), r.method, config.Host+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "test/1")
	for k, v := range r.headers {
		if v == "" {
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: res.StatusCode, body: read, warnings: res.Header.Values("Warning")}
}

// must fails the test unless the response has the code.
func (a answer) must(t testing.TB, code int) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("got %d, want %d: %s", a.code, code, a.body)
	}
	return a
}

// rollout decodes the response.
func (a answer) rollout(t testing.TB) *v1beta1.Rollout {
	t.Helper()
	r := &v1beta1.Rollout{}
	if err := json.Unmarshal(a.body, r); err != nil {
		t.Fatalf("decoding %s: %v", a.body, err)
	}
	return r
}

// namespace returns a namespace for one test. Without a cluster, namespaces need not exist.
func namespace(t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", "#", "-", ",", "").Replace(t.Name()))
	return name[:min(len(name), 63)]
}

func list(version, ns string) string { return version + "/namespaces/" + ns + "/rollouts" }

func one(version, ns, name string) string { return list(version, ns) + "/" + name }

// manifest returns a Rollout of v1beta1 as a user writes it.
func manifest(name, deployment string) string {
	return fmt.Sprintf(`{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": %q},
		"spec": {
			"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": %q},
			"strategy": {"canary": {"steps": [
				{"replicas": "20%%"}, {"replicas": "50%%", "pause": {"duration": 60}}, {"replicas": "100%%"}]}}
		},
		"status": {"phase": "Healthy", "message": "as if"}}`, name, deployment)
}

func create(t testing.TB, ns, name, deployment string) *v1beta1.Rollout {
	t.Helper()
	return call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: manifest(name, deployment)}).
		must(t, http.StatusCreated).rollout(t)
}

func get(t testing.TB, ns, name string) *v1beta1.Rollout {
	t.Helper()
	return call(t, request{as: alice, method: "GET", path: one(v1beta1Path, ns, name)}).must(t, http.StatusOK).rollout(t)
}

// patch sends a JSON merge patch.
func patch(t testing.TB, as, path, body string) answer {
	t.Helper()
	return call(t, request{
		as: as, method: "PATCH", path: path, body: body,
		headers: map[string]string{"Content-Type": "application/merge-patch+json"},
	})
}

// releasing creates a Rollout whose first step waits for an approval, with the status that the controller
// would write.
func releasing(t testing.TB, ns, name string) *v1beta1.Rollout {
	t.Helper()
	r := create(t, ns, name, name)
	r.Status = v1beta1.RolloutStatus{
		ObservedGeneration: 1, Phase: v1beta1.PhaseProgressing, Message: "waiting",
		Canary: &v1beta1.CanaryStatus{
			Progress: v1beta1.Progress{
				ObservedRolloutID: "v2", RolloutHash: r.Annotations["rollouts.kruise.io/hash"],
				StableRevision: "v1", PodTemplateHash: "hash-of-v2",
				CurrentStepIndex: 1, NextStepIndex: 2, State: v1beta1.StepPaused,
				LastUpdateTime: &metav1.Time{Time: r.CreationTimestamp.Time},
			},
			CanaryRevision: "v2", CanaryReplicas: 2, CanaryReadyReplicas: 2,
		},
		Conditions: []v1beta1.Condition{{
			Type: "Progressing", Status: metav1.ConditionTrue, Reason: "InRolling", Message: "rolling",
			LastUpdateTime: r.CreationTimestamp, LastTransitionTime: r.CreationTimestamp,
		}},
	}
	return call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, name) + "/status", body: r}).
		must(t, http.StatusOK).rollout(t)
}
