// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// listed is a row of the server's table of Rollouts.
type listed struct {
	namespace, name string
	// cells are STATE, VERSIONS, STEP, NEW, TRAFFIC, WAITING-FOR, SINCE and BY.
	cells [8]string
}

// table returns the server's table. Later events of a watch have no titles.
func table(titles bool, rows ...listed) string {
	out := map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "7"}}
	if titles {
		var columns []map[string]any
		for _, title := range []string{"Name", "STATE", "VERSIONS", "STEP", "NEW", "TRAFFIC", "WAITING-FOR", "SINCE", "BY"} {
			columns = append(columns, map[string]any{"name": title, "type": "string", "priority": 1})
		}
		out["columnDefinitions"] = columns
	}
	var all []map[string]any
	for _, r := range rows {
		cells := []any{r.name}
		for _, cell := range r.cells {
			if cell == "" {
				cells = append(cells, nil)
			} else {
				cells = append(cells, cell)
			}
		}
		all = append(all, map[string]any{"cells": cells, "object": map[string]any{
			"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"name": r.name, "namespace": r.namespace},
		}})
	}
	out["rows"] = all
	text, _ := json.Marshal(out) // of texts
	return string(text)
}

var listedRollouts = []listed{
	{"bank", "cash", [8]string{"Healthy", "v4", "", "", "", "nothing", "3d", ""}},
	{"pay", "ledger", [8]string{"In progress", "v8 → v9", "1/3", "0/1", "", "pods of step 1/3", "40s", ""}},
	{"pay", "mail", [8]string{"Waiting", "v1 → v2", "1/2", "1/1", "x-canary: yes", "the end of its pause", "2m", ""}},
	{"pay", "api", [8]string{"Failing", "v3 → v4", "1/3", "0/1", "", "pods of step 1/3: 1 of 1 new pods: container app: ImagePullBackOff (not found)", "9m", ""}},
	{"shop", "web", [8]string{"Waiting", "v7 → v8", "2/3", "4/5", "50%", "approval of step 2/3", "14m", "alice"}},
	{"shop", "cart\x1b[2J", [8]string{"Aborted", "v1 → v2", "1/3", "0/0", "", "a decision: retry, roll back, or release another version", "5h", "bob"}},
}

// listServer serves the table of Rollouts. A user who is not everywhere may read only the namespace shop, and may promote
// only there.
func listServer(t *testing.T, everywhere, mayListNamespaces bool) *recording {
	t.Helper()
	forbid := func(w http.ResponseWriter, what string) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"%s is forbidden","code":403}`, what)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		rows := slices.Clone(listedRollouts)
		namespace, _, isOne := strings.Cut(strings.TrimPrefix(q.URL.Path, "/apis/rollouts.kruise.io/v1beta1/namespaces/"), "/")
		switch {
		case strings.HasSuffix(q.URL.Path, "/selfsubjectaccessreviews"):
			body, _ := io.ReadAll(q.Body) // it is looked at next
			fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`, strings.Contains(string(body), `"namespace":"shop"`))
		case q.URL.Path == "/api/v1/namespaces" && mayListNamespaces:
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"bank"}},{"metadata":{"name":"shop"}}]}`)
		case q.URL.Path == "/api/v1/namespaces", !everywhere && namespace != "shop":
			forbid(w, q.URL.Path)
		case q.URL.Query().Get("watch") == "true" && q.URL.Query().Get("resourceVersion") == "7":
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", table(false, listedRollouts[3]))
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", table(false, listedRollouts[4]))
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}`)
		default:
			if strings.Contains(q.URL.Path, "/namespaces/") && isOne {
				rows = slices.DeleteFunc(rows, func(r listed) bool { return r.namespace != namespace })
			}
			_, _ = io.WriteString(w, table(true, rows...))
		}
	}))
	t.Cleanup(server.Close)
	return &recording{Server: server}
}

// A list has its own columns. Rollouts that need attention come first.
func TestList(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"list -A": `NAMESPACE  NAME     STATE          VERSIONS  STEP        TRAFFIC  WAITING-FOR                                                                     SINCE
pay        api      ✘ Failing      v3 → v4   1/3                  pods of step 1/3: 1 of 1 new pods: container app: ImagePullBackOff (not found)     9m
shop       cart[2J  ✘ Aborted      v1 → v2   1/3                  a decision: retry, roll back, or release another version                           5h
shop       web      ‖ Waiting      v7 → v8   2/3             50%  approval of step 2/3                                                              14m
pay        ledger   ↻ In progress  v8 → v9   1/3                  pods of step 1/3                                                                  40s
pay        mail     ‖ Waiting      v1 → v2   1/2   x-canary: yes  the end of its pause                                                               2m
bank       cash     ✔ Healthy      v4                                                                                                                3d
`,
		"list":             "NAME     STATE      VERSIONS  STEP  TRAFFIC  WAITING-FOR                                               SINCE\ncart[2J  ✘ Aborted  v1 → v2   1/3            a decision: retry, roll back, or release another version     5h\nweb      ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3                                        14m\n",
		"list --mine":      "NAME  STATE      VERSIONS  STEP  TRAFFIC  WAITING-FOR           SINCE\nweb   ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3    14m\n",
		"list -A --mine":   "NAMESPACE  NAME  STATE      VERSIONS  STEP  TRAFFIC  WAITING-FOR           SINCE\nshop       web   ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3    14m\n",
		"list -o wide":     "NAME     STATE      VERSIONS  STEP  NEW  TRAFFIC  WAITING-FOR                                               SINCE  BY\ncart[2J  ✘ Aborted  v1 → v2   1/3   0/0           a decision: retry, roll back, or release another version     5h  bob\nweb      ‖ Waiting  v7 → v8   2/3   4/5      50%  approval of step 2/3                                        14m  alice\n",
		"list -n bank,pay": "NAMESPACE  NAME    STATE          VERSIONS  STEP        TRAFFIC  WAITING-FOR                                                                     SINCE\npay        api     ✘ Failing      v3 → v4   1/3                  pods of step 1/3: 1 of 1 new pods: container app: ImagePullBackOff (not found)     9m\npay        ledger  ↻ In progress  v8 → v9   1/3                  pods of step 1/3                                                                  40s\npay        mail    ‖ Waiting      v1 → v2   1/2   x-canary: yes  the end of its pause                                                               2m\nbank       cash    ✔ Healthy      v4                                                                                                                3d\n",
	} {
		if out, code := listServer(t, true, true).run(t, strings.Fields(args)...); code != 0 || out != want {
			t.Errorf("%s: exit %d, want\n%s\ngot\n%s", args, code, want, out)
		}
	}
}

// The table of a server may lack states and versions. They come from the explanation of each Rollout.
func TestListExplains(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"rollouts": `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"Name"},{"name":"STATUS"},{"name":"CANARY_STATE"},{"name":"WAITING-FOR"}],"rows":[` +
			`{"cells":["cash","Healthy",null,"nothing"],"object":{"metadata":{"name":"cash","namespace":"shop"}}},` +
			`{"cells":["web","Progressing","StepUpgrade","pods of step 1/3"],"object":{"metadata":{"name":"web","namespace":"shop"}}},` +
			`{"cells":["new","Healthy",null,"nothing"],"object":{"metadata":{"name":"new","namespace":"shop"}}},` +
			`{"cells":["gone","Initial",null,"workload"],"object":{"metadata":{"name":"gone","namespace":"shop"}}},` +
			`{"cells":["old","Disabled",null,"nothing"],"object":{"metadata":{"name":"old","namespace":"shop"}}}]}`,
		"cash/why": `{"state":"AtRest"}`, "old/why": `{"state":"AtRest"}`, "gone/why": `{"state":"AtRest","waitingFor":{"for":"workload"}}`, "gone/history": `{}`,
		"new/why": `{"state":"AtRest"}`, "new/history": `{}`, "new/tree": `{"nodes":[{"id":"r","kind":"Rollout","role":"rollout"},{"id":"d","kind":"Deployment","role":"workload","images":["new:v1"]}]}`,
		"web/why":      `{"state":"Failing","release":{"number":4,"stable":"77aa","revision":"99ff","images":[{"container":"app","from":"web:v8","to":"web:v9"}],"source":{"commit":"4f2c8a1d9e0b7c6f5a4b"}}}`,
		"cash/history": `{"releases":[{"number":2,"stable":"1","revision":"2","outcome":"aborted","images":[{"container":"app","from":"cash:v3","to":"cash:v4"}]}]}`,
		"old/history":  `{"releases":[{"number":1,"stable":"1","revision":"5f6a","outcome":"succeeded"}]}`,
	}
	recorded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, path, _ := strings.Cut(q.URL.Path, "/namespaces/shop/")
		_, _ = io.WriteString(w, answers[cmp.Or(strings.TrimPrefix(path, "rollouts/"), path)])
	}))
	t.Cleanup(recorded.Close)
	r := &recording{Server: recorded}
	if out, code := r.run(t, "list", "-o", "wide"); code != 0 || !strings.Contains(out, "v8 → v9   4f2c8a1d9e0b  ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	out, code := r.run(t, "list")
	if want := "NAME  STATE        VERSIONS  WAITING-FOR\nweb   ✘ Failing    v8 → v9   pods of step 1/3\ngone  ✘ Not ready            workload\ncash  ✔ Healthy    v3\nnew   ✔ Healthy    v1\nold   ○ Disabled   5f6a\n"; code != 0 || out != want {
		t.Errorf("exit %d, want\n%s\ngot\n%s", code, want, out)
	}
}

// A user who may not list the Rollouts of the cluster sees those of the namespaces that the user may read.
func TestListWithFewPermissions(t *testing.T) {
	t.Parallel()
	const web = "NAMESPACE  NAME  STATE      VERSIONS  STEP  TRAFFIC  WAITING-FOR           SINCE\nshop       web   ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3    14m\n"
	one := strings.ReplaceAll(strings.ReplaceAll(web, "NAMESPACE  ", ""), "shop       ", "")
	for _, c := range []struct {
		args              string
		mayListNamespaces bool
		code              int
		want              string
	}{
		{"list -A --mine", true, 0, "You may not list Rollouts in all namespaces at once. These are the namespaces that you may read.\n" + one},
		{"list -A --mine", false, 0, "You may not list Rollouts in all namespaces. This is namespace shop. To list others, name them: -n a,b.\n" + one},
		{"list --mine -n bank,shop", false, 0, "error: /apis/rollouts.kruise.io/v1beta1/namespaces/bank/rollouts is forbidden\n" + one},
		{"list --mine -n bank -A", false, 1, "You may not list Rollouts in all namespaces. This is namespace bank. To list others, name them: -n a,b.\nerror: " + errNoNamespace.Error() + "\n"},
		{"list -n bank", false, 1, "error: /apis/rollouts.kruise.io/v1beta1/namespaces/bank/rollouts is forbidden\n"},
	} {
		if out, code := listServer(t, false, c.mayListNamespaces).run(t, strings.Fields(c.args)...); code != c.code || out != c.want {
			t.Errorf("%s: exit %d, want %d\n%s\ngot\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

// A watched list prints a line for each change, in the columns of the first lines.
func TestListWatch(t *testing.T) {
	t.Parallel()
	out, code := listServer(t, true, true).run(t, "list", "-w", "--mine")
	want := `error: too old
NAME  STATE      VERSIONS  STEP  TRAFFIC  WAITING-FOR           SINCE
web   ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3    14m
web   ‖ Waiting  v7 → v8   2/3       50%  approval of step 2/3    14m
`
	if code != 1 || out != want {
		t.Errorf("exit %d, want\n%s\ngot\n%s", code, want, out)
	}
}
