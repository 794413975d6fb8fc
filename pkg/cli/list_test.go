// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// table returns a row of the server's table of Rollouts.
func table(namespace, name, waits string, columns bool) string {
	titles := "null"
	if columns {
		titles = `[{"name":"Name","type":"string"},{"name":"Waiting-For","type":"string","priority":1}]`
	}
	quoted, _ := json.Marshal(name) // of a text
	return fmt.Sprintf(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"columnDefinitions":%s,"rows":[{"cells":[%s,%q],`+
		`"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%[2]s,"namespace":%[4]q}}}]}`, titles, quoted, waits, namespace)
}

// A watched list prints a line for each change. With --mine, it contains only Rollouts that the user may
// approve.
func TestListWatch(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(q.URL.Path, "/selfsubjectaccessreviews"):
			body, _ := io.ReadAll(q.Body) // it is looked at next
			fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`, strings.Contains(string(body), `"namespace":"shop"`))
		case q.URL.Query().Get("watch") == "true" && q.URL.Query().Get("resourceVersion") == "7":
			for _, row := range []string{table("shop", "cart", "an approval", true), table("shop", "pay\x1b[2J", "pods", false), table("bank", "cash", "an approval", false)} {
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", row)
			}
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}`)
		default:
			_, _ = io.WriteString(w, table("shop", "web", "an approval", true))
		}
	}))
	t.Cleanup(server.Close)
	for args, want := range map[string]string{
		"list -w":           "NAME   WAITING-FOR\nweb    an approval\ncart   an approval\npay[2J   pods\ncash     an approval\n",
		"list -A --mine -w": "NAMESPACE   NAME   WAITING-FOR\nshop        web    an approval\nshop        cart   an approval\n",
	} {
		r := &recording{Server: server}
		out, code := r.run(t, strings.Fields(args)...)
		if code != 1 || out != "error: too old\n"+want {
			t.Errorf("%s: exit %d, want\n%s\ngot\n%s", args, code, want, out)
		}
	}
}
