// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// recording is a server that replays recorded responses and records requests.
type recording struct {
	*httptest.Server
	mu sync.Mutex
	// lose is the number of responses to POST requests that are lost.
	lose int
	sent []map[string]any
	// paths are the requested paths.
	paths []string
	// summary is the summary in each response, with the number of the request.
	summary string
	// old means that the server serves verbs, but not why.
	old bool
}

func newRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

const ofWeb = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/web"

func (r *recording) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, q.Method+" "+q.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	sub, known := strings.CutPrefix(q.URL.Path, ofWeb+"/")
	if q.Method == http.MethodPost && sub != "plan" {
		body := map[string]any{}
		data, _ := io.ReadAll(q.Body) // it is decoded next
		if err := json.Unmarshal(data, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.sent = append(r.sent, body)
		if body["step"] == 9.0 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","message":"the plan has the steps 1 to 3","code":422}`)
			return
		}
		if r.lose--; r.lose >= 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web","namespace":"shop"}}`)
		return
	}
	if r.old {
		http.NotFound(w, q)
		return
	}
	data, err := os.ReadFile(filepath.Join("draw/testdata", filepath.Base(sub)+".yaml"))
	if raw, yamlErr := yaml.YAMLToJSON(data); known && err == nil && yamlErr == nil {
		if r.summary != "" {
			raw = []byte(strings.Replace(string(raw), "for 14 minutes", r.summary+strconv.Itoa(len(r.paths)), 1))
		}
		_, _ = w.Write(raw)
		return
	}
	http.NotFound(w, q)
}

// run runs a command against the recording.
func (r *recording) run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	clock := clocktesting.NewFakeClock(now)
	done := make(chan struct{})
	go func() { // time passes whenever the command waits
		for {
			select {
			case <-done:
				return
			default:
				if clock.HasWaiters() {
					clock.Step(time.Second)
				}
			}
		}
	}()
	defer close(done)
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	_ = in
	cmd := NewCommand(streams, clock, "test")
	cmd.SetArgs(append([]string{"--server", r.URL, "-n", "shop", "--cache-dir", t.TempDir()}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = Fail(streams, err)
	}
	return stderr.String() + stdout.String(), code
}

// A verb is sent with the body that the server has prepared. It counts once even if the request is
// repeated.
func TestDecide(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.lose = 2
	out, code := r.run(t, "promote", "web", "--reason", "error rate is fine")
	if code != 0 || len(r.sent) != 3 {
		t.Fatalf("exit %d, sent %d times:\n%s", code, len(r.sent), out)
	}
	first, last := r.sent[0], r.sent[2]
	if id, _ := first["requestID"].(string); id == "" || id != last["requestID"] {
		t.Errorf("the requestID was %v, then %v", first["requestID"], last["requestID"])
	}
	expect, _ := first["expect"].(map[string]any)
	if first["reason"] != "error rate is fine" || expect["revision"] != "6f9d5b7c8d" || expect["step"] != 2.0 {
		t.Errorf("sent %v", first)
	}
	for _, want := range []string{"Step 3 starts", "1 of 2 approvals: alice", "ERROR", "retrying", "rollout.rollouts.kruise.io/web: promote accepted"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// A verb that is not possible or not permitted is not sent; the error explains why.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"retry", "web"}, 1, "retry is not possible now: the release was not aborted"},
		{[]string{"rollback", "web"}, 1, "forbidden: you need permission to create rollouts/rollback in namespace shop"},
		{[]string{"do", "web", "dance"}, 1, "the server does not support dance; it supports promote, abort, rollback, retry"},
		{[]string{"jump", "web", "zero"}, 1, `step "zero" must be a number from 1`},
		{[]string{"promote"}, 1, "missing NAME: name Rollouts, or select them with -l"},
		{[]string{"promote", "web", "--dry-run=client"}, 1, "--dry-run=client must be none or server"},
		{[]string{"promote", "web", "--reason", ""}, 1, "error: --reason is blank; give a reason or leave --reason out\n"},
		{[]string{"jump", "web", "3", "--reason", "   "}, 1, "error: --reason is blank; give a reason or leave --reason out\n"},
		{[]string{"do", "web", "abort", "--reason="}, 1, "error: --reason is blank; give a reason or leave --reason out\n"},
		{[]string{"why", "api"}, 1, "does not serve rollouts/why"},
		{[]string{"wait", "web", "--for=done"}, 1, "must be healthy, waiting, step=N or aborted"},
		{[]string{"wait", "web", "--timeout=3s"}, exitTimeout, "not healthy after 3s"},
		{[]string{"wait", "web", "--no-people"}, exitPerson, "waiting for approval"},
		{[]string{"wait", "web", "--for=waiting"}, 0, "waiting: v8, step 2 of 3"},
		{[]string{"wait", "web", "--for=paused"}, 0, "paused: v8, step 2 of 3"},
		{[]string{"lint", "-f", "testdata/app.yaml"}, 0, "Checked nothing: the input has no Weir objects, but 5 other objects.\n"},
		{[]string{"history", "-o", "yaml"}, 1, `--output "yaml" must be csv or json`},
		{[]string{"history", "-A", "--since=soon"}, 1, `--since "soon" must be a duration, for example 90m, 24h or 7d`},
		{[]string{"get", "web", "-o", "xml"}, 1, `--output "xml" must be one of: wide, `},
		{[]string{"history", "-A", "-o", "xml"}, 1, `--output "xml" must be one of: csv, json, yaml, name or jsonpath=…`},
		{[]string{"promote", "web", "-o", "xml"}, 1, `--output "xml" must be one of: json, yaml, name or jsonpath=…`},
		{[]string{"plan", "web"}, exitPerson, "Nothing was changed."},
		{[]string{"plan", "web", "--image", "app=web:v9"}, exitPerson, "Fix: raise the quota, or raise maxUnavailable"},
		{[]string{"plan"}, 1, "missing NAME; usage: kubectl weir plan NAME"},
		{[]string{"diff", "web", "9"}, 1, "there is no release 9; see kubectl weir history"},
		{[]string{"diff", "web", "10", "12"}, 1, "the template of release 10 is not recorded any more"},
		{[]string{"set", "image", "web", "app"}, 1, `"app" must be CONTAINER=IMAGE`},
		{[]string{"set", "image", "web", "app=UPPER:v1"}, 1, `"UPPER:v1" is not an image: use [REGISTRY/]NAME[:TAG][@DIGEST]`},
		{[]string{"plan", "web", "--image", "app=web:v1:v2"}, 1, `"web:v1:v2" is not an image`},
		{[]string{"plan", "web", "--image", "app="}, 1, `"" is not an image`},
		{[]string{"list", "-l", "a=b=c"}, 1, `--selector "a=b=c": `},
		{[]string{"promote", "-l", "a=b=c"}, 1, `--selector "a=b=c": `},
		{[]string{"lint"}, 1, "missing -f: name the manifests"},
		{[]string{"lint", "-f", "../convert/testdata/flagger.in.yaml"}, 0, "Checked nothing: the input has no Weir objects, but 4 other objects. To convert manifests of Argo Rollouts or Flagger, use kubectl weir convert."},
		{[]string{"lint", "-f", "testdata/rollout.yaml"}, exitPerson, "ERROR  rollout/web: spec.strategy.canary.steps[0].replicas"},
		{[]string{"convert", "-f", "../convert/testdata/argo-mesh.in.yaml"}, exitPerson, "rollout/web: note: the source has 20% of the pods here"},
		{[]string{"convert", "-f", "testdata/rollout.yaml"}, 1, "the input has no manifest of Argo Rollouts or Flagger"},
		{[]string{"init"}, 1, "error: missing KIND/NAME or -f: "},
		{[]string{"init", "-f", "testdata/app.yaml", "--steps", "foo"}, 1, "# refused: "},
		{[]string{"init", "-f", "testdata/app.yaml", "--steps", "50%,20%"}, 1, "# refused: "},
		{[]string{"init", "web"}, 1, "must be KIND/NAME"},
		{[]string{"init", "-f", "testdata/rollout.yaml"}, 1, "the input has no workload with a pod template"},
		{[]string{"init", "-f", "testdata/app.yaml"}, 0, "name: front\n          service: web\n"},
		{[]string{"doctor", "--check=soul"}, 1, `there is no check "soul"`},
		{[]string{"doctor", "-o", "xml"}, 1, `--output "xml" must be text or json`},
	} {
		r := newRecording(t)
		out, code := r.run(t, c.args...)
		if code != c.code || !strings.Contains(out, c.want) || len(r.sent) > 0 {
			t.Errorf("%v: exit %d, sent %v, want exit %d and %q:\n%s", c.args, code, r.sent, c.code, c.want, out)
		}
	}
}

// wait prints a line for each change, but none if only time has passed.
func TestWaitSays(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	r.summary = "for "
	if out, code := r.run(t, "wait", "web", "--timeout=5s"); code != exitTimeout || strings.Count(out, "approval for ") != 2 {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// A wait that begins while the release is being cancelled ends with the recorded outcome, although the release then has the
// stable revision.
func TestWaitForCancelledRelease(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"processed":     `{"state":"Ending","release":{"number":7,"revision":"v7"},"workload":{"generation":3,"seen":3}}`,
		"not processed": `{"state":"Ending","release":{"number":7,"revision":"v8"},"workload":{"generation":3,"seen":2}}`,
	} {
		var asked, read int
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch path.Base(q.URL.Path) {
			case "why":
				if asked++; asked == 1 {
					_, _ = io.WriteString(w, first)
					return
				}
				_, _ = io.WriteString(w, `{"state":"AtRest","workload":{"generation":3,"seen":3}}`)
			case "history":
				record := `{"number":7,"revision":"v8","outcome":"cancelled"}`
				if read++; read == 1 {
					record = "" // the record comes later
				}
				_, _ = io.WriteString(w, `{"releases":[`+record+`]}`)
			}
		}))
		t.Cleanup(server.Close)
		r := &recording{Server: server}
		if out, code := r.run(t, "wait", "web"); code != exitAborted || !strings.Contains(out, "error: release 7: cancelled\n") {
			t.Errorf("%s: exit %d:\n%s", name, code, out)
		}
	}
}

// An error contains the message of the server.
func TestServerSays(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	if out, code := r.run(t, "do", "web", "abort", "--step=9"); code != 1 || !strings.Contains(out, "error: web: the plan has the steps 1 to 3") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// A verb that the server refuses shows the refusal once, although the plan of the verb has it, too.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	const refusal = "the jump goes past checks that have not passed"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path.Base(q.URL.Path) {
		case "why":
			_, _ = io.WriteString(w, `{"metadata":{"name":"web","namespace":"shop"},"state":"Waiting",`+
				`"actions":[{"verb":"jump","title":"Jump to a step","possible":true,"allowed":true,"needs":["step"],"path":"namespaces/shop/rollouts/web/jump"}]}`)
		case "plan":
			_, _ = io.WriteString(w, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"RolloutPlan","status":{"findings":[{"severity":"Error","code":"verb","message":"`+refusal+`"}]}}`)
		default:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","message":"`+refusal+`","code":409}`)
		}
	}))
	t.Cleanup(server.Close)
	r := &recording{Server: server}
	if out, code := r.run(t, "jump", "web", "3"); code != 1 || strings.Count(out, refusal) != 1 {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"rollout.rollouts.kruise.io/web\n":  {"why", "web", "-o", "name"},
		"Waiting":                           {"why", "web", "-o", "jsonpath={.state}"},
		"abort accepted (server dry run)\n": {"abort", "rollout/web", "--dry-run=server"},
		`"kind": "RolloutTree"`:             {"get", "web", "-o", "json"},
		"kind: Rollout\n":                   {"do", "web", "abort", "-o", "yaml"},
		"replicaset/web-6f9d5b7c8d":         {"get", "web"},
		"11  succeeded    v6":               {"history", "web"},
		"~ spec.containers[app].image":      {"diff", "web", "12"},
		"and 3 more changes":                {"diff", "web", "10"},
		"kubectl-weir test\n":               {"version"},
	} {
		r := newRecording(t)
		if out, code := r.run(t, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, want %q:\n%s", args, code, want, out)
		}
	}
}

// Whole templates are compared by the program that the user has chosen, the older one first. Control
// characters do not reach the terminal.
func TestExternalDiff(t *testing.T) {
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "cat")
	r := newRecording(t)
	out, code := r.run(t, "diff", "web", "--full")
	older, newer := strings.Index(out, "image: web:v7"), strings.Index(out, "image: web:v8")
	if code != 0 || older < 0 || newer < older || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d:\n%q", code, out)
	}
	if out, code := r.run(t, "diff", "web", "11", "12"); code != 0 || !strings.Contains(out, "~ spec.containers[app].image") {
		t.Errorf("one release after the other: exit %d:\n%s", code, out)
	}
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"RolloutReleases","apiVersion":"rollouts.kruise.io/v1beta1","releases":[`+
			`{"number":2,"revision":"v9"},{"number":1,"stable":"v1","revision":"v2","restoreStable":{"image":"web:v1"},"restore":{"image":"web:v2"}}]}`)
	}))
	t.Cleanup(first.Close)
	before := &recording{Server: first}
	if out, code := before.run(t, "diff", "web", "1", "--full"); code != 0 || out != "image: web:v1\nimage: web:v2\n" {
		t.Errorf("the version from before the first release: exit %d:\n%s", code, out)
	}
	if out, code := before.run(t, "diff", "web", "2", "--full"); code != 1 || out != "error: nothing was before release 2\n" {
		t.Errorf("a release without a version before it: exit %d:\n%s", code, out)
	}
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "no-such-program")
	if out, code := r.run(t, "diff", "web", "--full"); code != 1 || !strings.Contains(out, "running no-such-program") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// plan -f uses the namespace of the manifests. A contradiction to -n is refused.
func TestPlanNamespace(t *testing.T) {
	t.Parallel()
	manifest := func(namespace string) string {
		file := filepath.Join(t.TempDir(), "rollout.yaml")
		text := "apiVersion: rollouts.kruise.io/v1beta1\nkind: Rollout\nmetadata: {name: web, namespace: " + namespace + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	r := newRecording(t)
	if out, code := r.run(t, "plan", "-n", "", "-f", manifest("shop")); code != exitPerson || !slices.Contains(r.paths, "POST "+ofWeb+"/plan") {
		t.Errorf("exit %d, sent %v:\n%s", code, r.paths, out)
	}
	r = newRecording(t)
	const refusal = "error: Rollout web is in namespace pay, but -n or another manifest has namespace shop\n"
	for _, args := range [][]string{{"-f", manifest("pay")}, {"-n", "", "-f", manifest("shop"), "-f", manifest("pay")}} {
		if out, code := r.run(t, append([]string{"plan"}, args...)...); code != 1 || out != refusal || len(r.paths) > 0 {
			t.Errorf("%v: exit %d, sent %v:\n%s", args, code, r.paths, out)
		}
	}
}

// A change that the user may not see is an error, and a template without changes is not.
func TestUnseenChange(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.URL.Path == ofWeb {
			_, _ = io.WriteString(w, `{"kind":"Rollout","apiVersion":"rollouts.kruise.io/v1beta1","spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"RolloutReleases","apiVersion":"rollouts.kruise.io/v1beta1","releases":[{"number":2},{"number":1,"stableOnRecord":true}]}`)
	}))
	t.Cleanup(server.Close)
	r := &recording{Server: server}
	if out, code := r.run(t, "diff", "web"); code != 1 || !strings.Contains(out, "what release 2 changed cannot be seen: you need permission to get Deployment web in namespace shop") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if out, code := r.run(t, "diff", "web", "1"); code != 0 || out != "The pod template is unchanged.\n" {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// rollback after a release is over goes back to the version before it. A script must confirm that.
func TestRollbackAtRest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.Method != http.MethodGet {
			t.Errorf("sent %s %s", q.Method, q.URL)
		}
		_, _ = io.WriteString(w, `{"metadata":{"name":"web","namespace":"shop"},"state":"AtRest","summary":"No release in progress.",`+
			`"actions":[{"verb":"rollback","title":"Roll back","possible":false,"allowed":true,"reason":"no release is in progress"}]}`)
	}))
	t.Cleanup(server.Close)
	r := &recording{Server: server}
	out, code := r.run(t, "rollback", "web")
	if want := "error: web: no release is in progress; to go back to the version before the latest release, add --yes, or use: kubectl weir undo web -n shop --server=" + server.URL + "\n"; code != 1 || out != want {
		t.Errorf("exit %d:\n%s", code, out)
	}
	const warning = "Warning: web: The reason is not recorded: a new release of an earlier version is a change of the workload, and not a decision.\n"
	if out, _ := r.run(t, "rollback", "web", "--reason=too slow", "--dry-run=server"); !strings.Contains(out, warning) {
		t.Errorf("a reason is given:\n%s", out)
	}
	if out, _ := r.run(t, "rollback", "web", "--dry-run=server"); strings.Contains(out, "Warning") {
		t.Errorf("no reason is given:\n%s", out)
	}
	if out, code := r.run(t, "why", "web"); code != 0 || out != "No release in progress.\n" {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// If the server of Weir does not answer kube-apiserver, the error names the command that finds the cause.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "error trying to reach service: connection refused")
	}))
	t.Cleanup(server.Close)
	for _, args := range []string{"why web", "list", "list -A", "plan web", "history web", "history -A", "promote -l app=web"} {
		r := &recording{Server: server}
		out, code := r.run(t, strings.Fields(args)...)
		if code != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "kubectl weir doctor") || !strings.Contains(out, "weir-apiserver doctor") {
			t.Errorf("%s: exit %d:\n%s", args, code, out)
		}
	}
}

// A suggested command can be copied: it has the namespace and the global flags, and what the server needs.
func TestSuggestedCommands(t *testing.T) {
	t.Parallel()
	r := newRecording(t)
	out, code := r.run(t, "why", "web", "--as", "bob smith")
	for _, want := range []string{
		" kubectl weir abort web -n shop --server=" + r.URL + " '--as=bob smith'\n", " kubectl weir promote web -n shop --server=" + r.URL + " '--as=bob smith' --full ",
		" kubectl weir jump web STEP -n shop ",
	} {
		if code != 0 || !strings.Contains(strings.ReplaceAll(out, "  ", "\n"), strings.TrimSpace(want)) {
			t.Errorf("exit %d, the output lacks %q:\n%s", code, want, out)
		}
	}
}

// A verb that overrides the checks needs two permissions. The error names the missing one. Servers of
// earlier versions do not report it; then the error names both.
func TestForbidden(t *testing.T) {
	t.Parallel()
	override := []string{"reason", "override"}
	for _, test := range []struct {
		needs, missing []string
		want           string
	}{
		{nil, nil, "forbidden: you need permission to create rollouts/promote in namespace shop"},
		{override, nil, "forbidden: you need permission to create both rollouts/promote and rollouts/override in namespace shop"},
		{override, []string{"rollouts/override"}, "forbidden: you need permission to create rollouts/override in namespace shop"},
		{override, []string{"rollouts/promote", "rollouts/override"}, "forbidden: you need permission to create rollouts/promote and rollouts/override in namespace shop"},
	} {
		why := &v1beta1.RolloutWhy{Actions: []v1beta1.Action{{Verb: "promote", Possible: true, Needs: test.needs, Missing: test.missing}}}
		why.Namespace = "shop"
		if _, err := findAction(why, "promote", false); err == nil || err.Error() != test.want {
			t.Errorf("needs %v: got %v, want %s", test.needs, err, test.want)
		}
	}
}

// An override requires a reason, even if the action itself does not.
func TestOverrideNeedsReason(t *testing.T) {
	t.Parallel()
	d := &verbCommand{app: &app{}, override: true, step: 3, yes: true}
	if err := d.askMissingFields(&v1beta1.Action{Verb: "jump", Needs: []string{"step"}}); err == nil || err.Error() != "missing --reason: jump needs a reason here" {
		t.Errorf("it says %v", err)
	}
	open := &v1beta1.Action{Verb: "promote", Reason: "step 1 waits for its checks: jvm is running", Needs: []string{"reason", "override"}}
	want := "checks have not passed: step 1 waits for its checks: jvm is running; to promote anyway, add --override --reason '…'"
	if err := (&verbCommand{app: &app{}}).askMissingFields(open); err == nil || err.Error() != want {
		t.Errorf("without --override: %v, want %s", err, want)
	}
	if d.reason = "known"; d.askMissingFields(&v1beta1.Action{Verb: "jump", Needs: []string{"step"}}) != nil {
		t.Error("a reason is not enough")
	}
}

// A dialog requires the reason of an override only if the jump goes past checks.
func TestDialogOfJump(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]bool{"": false, "2": false, "3": true, "4": true} {
		d := newDialog(v1beta1.Action{Verb: "jump", Needs: []string{"step"}, OverrideFrom: 3})
		d.enterText(step)
		if d.needsField("override") != want || d.needsField("reason") != want {
			t.Errorf("to step %q: an override %t, a reason %t", step, d.needsField("override"), d.needsField("reason"))
		}
	}
	if d := newDialog(v1beta1.Action{Verb: "jump", Needs: []string{"step"}}); d.needsField("override") {
		t.Error("a jump past no check needs an override")
	}
}
