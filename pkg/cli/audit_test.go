// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// auditServer serves two pages of RolloutHistories and one Rollout. The decision 32 is in both.
func auditServer(t *testing.T, denied string) *recording {
	t.Helper()
	const shared = `{"id":32,"verb":"promote","user":"alice","time":"2026-01-05T10:02:39Z","step":1,"full":true,"revision":"6f9d","reason":"fine, go","via":"verb","outcome":"applied"}`
	answers := map[string]string{
		"rollouthistories": `{"metadata":{"continue":"next"},"items":[{"metadata":{"namespace":"shop","labels":{"rollouts.kruise.io/release-number":"12"}},` +
			`"spec":{"rollout":{"name":"web"},"workload":{"data":{"template":{"spec":{"containers":[{"image":"web:v8"}]}}}}},"status":{"canaryRevision":"6f9d","decisions":[` +
			`{"id":31,"verb":"jump","user":"=cmd()","time":"2026-01-04T09:00:00Z","step":1,"toStep":3,"reason":"@SUM(1,\"2\")\n-3","via":"verb","outcome":"superseded","overrode":["analysis"],` +
			`"overriddenChecks":[{"name":"successRate","step":1,"result":"Failed"}]},` + shared + `]}}]}`,
		"rollouthistories next": `{"items":[{"metadata":{"namespace":"pay","labels":{"rollouts.kruise.io/release-number":"3"}},` +
			`"spec":{"rollout":{"name":"api"}},"status":{"canaryRevision":"77aa","decisions":[{"id":5,"verb":"abort","user":"bob","time":"2026-01-05T08:00:00Z","step":2,"via":"verb"}]}},` +
			`{"metadata":{"namespace":"pay"},"spec":{"rollout":{"name":"old"}},"status":{"decisions":[]}}]}`,
		"rollouts": `{"items":[{"metadata":{"namespace":"shop","name":"web"},"status":{"releases":[{"number":12,"firstDecision":31},{"number":13,"firstDecision":33}],"decisions":[` + shared +
			`,{"id":33,"verb":"pause","user":"carol","time":"2026-01-05T10:20:00Z","step":1,"revision":"88bb","via":"verb"}]}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		at := q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]
		if at == denied {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"forbidden","code":403}`)
			return
		}
		_, _ = io.WriteString(w, answers[strings.TrimSpace(at+" "+q.URL.Query().Get("continue"))])
	}))
	t.Cleanup(server.Close)
	return &recording{Server: server}
}

// The decisions of the cluster are listed once each, oldest first. A spreadsheet shows all cells as text.
func TestAudit(t *testing.T) {
	t.Parallel()
	out, code := auditServer(t, "").run(t, "history", "-A", "-o", "csv")
	got, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	want := [][]string{
		{"time_utc", "namespace", "rollout", "release", "version", "verb", "user", "step", "toStep", "full", "overrode", "reason", "outcome", "via"},
		{"2026-01-04T09:00:00Z", "shop", "web", "12", "web:v8", "jump", "'=cmd()", "1", "3", "false", "successRate (failed, step 1)", `'@SUM(1,"2") -3`, "superseded", "verb"},
		{"2026-01-05T08:00:00Z", "pay", "api", "3", "77aa", "abort", "bob", "2", "", "false", "", "", "", "verb"},
		{"2026-01-05T10:02:39Z", "shop", "web", "12", "web:v8", "promote", "alice", "1", "", "true", "", "fine, go", "applied", "verb"},
		{"2026-01-05T10:20:00Z", "shop", "web", "13", "88bb", "pause", "carol", "1", "", "false", "", "", "", "verb"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || code != 0 {
		t.Errorf("exit %d (%v), decisions (-want +got):\n%s", code, err, diff)
	}
	out, code = auditServer(t, "").run(t, "history", "-A", "--since=24h")
	if want := `TIME (UTC)           NAMESPACE  ROLLOUT  RELEASE  VERSION  USER   DECISION        STEP  REASON    OUTCOME
2026-01-05 10:02:39  shop       web           12  v8       alice  promote --full     1  fine, go  applied
2026-01-05 10:20:00  shop       web           13  88bb     carol  pause              1
`; code != 0 || !strings.HasSuffix(out, want[strings.Index(want, "2026-01-05 10:02"):]) || strings.Contains(out, "=cmd") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	out, code = auditServer(t, "").run(t, "history", "api", "--since=2d", "-o", "json")
	if want := `[{"timeUTC":"2026-01-05T08:00:00Z","namespace":"pay","rollout":"api","release":3,"version":"77aa","verb":"abort","user":"bob","step":2,"toStep":0,"full":false,"overrode":"","reason":"","outcome":"","via":"verb"}]` + "\n"; code != 0 || out != want {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// A user who may not read the histories sees the decisions of the releases in progress, and what is missing.
func TestAuditWithFewPermissions(t *testing.T) {
	t.Parallel()
	out, code := auditServer(t, "rollouthistories").run(t, "history", "--since=1h")
	if code != 0 || !strings.HasPrefix(out, "Decisions of completed releases in namespace shop are missing: you need permission to list rollouthistories.\n") || !strings.Contains(out, "carol  pause") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if out, code := auditServer(t, "rollouts").run(t, "history"); code != 1 || !strings.Contains(out, "error: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
