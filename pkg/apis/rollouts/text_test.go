// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func TestText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, clean string }{
		"words":               {"Grüße, 你好, שלום", "Grüße, 你好, שלום"},
		"joiners":             {"👩\u200d🚀 می\u200cخواهم", "👩\u200d🚀 می\u200cخواهم"},
		"an escape":           {"a\x1b[31mb", "a\ufffd[31mb"},
		"a line":              {"a\r\nb", "a\ufffd\ufffdb"},
		"a tab":               {"a\tb", "a\ufffdb"},
		"a control of C1":     {"a\u009bb", "a\ufffdb"},
		"a line separator":    {"a\u2028b\u2029", "a\ufffdb\ufffd"},
		"an override":         {"a\u202eb", "a\ufffdb"},
		"an isolate":          {"a\u2066b\u2069", "a\ufffdb\ufffd"},
		"a mark":              {"a\u200fb\u061c", "a\ufffdb\ufffd"},
		"nothing to be seen":  {"ad\u200bmin\ufeff\u00ad", "ad\ufffdmin\ufffd\ufffd"},
		"tags":                {"a\U000e0041", "a\ufffd"},
		"emoji":               {"❤\ufe0f 👁\ufe0f\u200d🗨\ufe0f ☎\ufe0e", "❤\ufe0f 👁\ufe0f\u200d🗨\ufe0f ☎\ufe0e"},
		"scripts with marks":  {"Tiếng Việt, नमस्ते, שָׁלוֹם, ภาษาไทยที่", "Tiếng Việt, नमस्ते, שָׁלוֹם, ภาษาไทยที่"},
		"fillers":             {"a\u3164\u115f\uffa0", "a\ufffd\ufffd\ufffd"},
		"a braille of no dot": {"a\u2800", "a\ufffd"},
		"ignorable":           {"a\u034f\u17b4\u180b\u2065\ufff0", "a\ufffd\ufffd\ufffd\ufffd\ufffd"},
		"ignorable, far":      {"a\U000e0fff\U000e0100\U0001d173", "a\ufffd\ufffd\ufffd"},
		"noncharacters":       {"a\uffff\ufdd0\U0001fffe", "a\ufffd\ufffd\ufffd"},
		"unassigned":          {"a\u0378", "a\ufffd"},
		"blanks":              {" \u00a0\u3000", "\ufffd\ufffd\ufffd"},
		"joiners only":        {"\u200d\ufe0f", "\ufffd\ufffd"},
		"nothing":             {"", ""},
		"many marks":          {"a" + strings.Repeat("\u0300", 10), "a" + strings.Repeat("\u0300", 8) + "\ufffd\ufffd"},
		"no character":        {"a\xff\xfe", "a\ufffd\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rollouts.Clean(tt.text, 40)
			if _, hidden := rollouts.Hidden(tt.text); got != tt.clean || hidden != (tt.text != tt.clean) {
				t.Errorf("%q is hidden: %v, and clean as %q, want %q", tt.text, hidden, got, tt.clean)
			}
			if again := rollouts.Clean(got, 40); again != got {
				t.Errorf("cleaned twice: %q", again)
			}
			if _, hidden := rollouts.Hidden(got); hidden {
				t.Errorf("%q is not clean", got)
			}
		})
	}
	if got := rollouts.Clean(strings.Repeat("ü", 11), 10); got != strings.Repeat("ü", 9)+"…" {
		t.Errorf("cut as %q", got)
	}
}

// The size of a decision is close to that of its JSON.
func TestDecisionSize(t *testing.T) {
	t.Parallel()
	for _, d := range []v1beta1.Decision{
		{ID: 1, Verb: "promote", User: "alice", Via: "verb", Time: metav1.NewTime(time.Unix(1e9, 0))},
		{ID: 123456, Verb: "pause", User: strings.Repeat("u", 256), UID: "3f4c", Reason: strings.Repeat(`<"\`, 300), Via: "status", Step: 12, Revision: "5f8c", Time: metav1.NewTime(time.Unix(1e9, 0))},
		{ID: 7, Verb: "abort", User: "bob", Reason: strings.Repeat("\U0001f600", 1024), RequestID: "ci-7", UserAgent: "kubectl", Outcome: "superseded", Time: metav1.NewTime(time.Unix(1e9, 0))},
		{ID: 123456, Verb: "jump", User: "bob", UID: "3f4c", UserAgent: "kubectl", Time: metav1.NewTime(time.Unix(1e9, 0)), Step: 499, ToStep: 500, Revision: "5f8c", UpdateTemplate: "d", Reason: "r", RequestID: "1", Via: "annotation", Outcome: "superseded"},
		{ID: 123456, Verb: "promote", User: "bob", UID: "3f4c", UserAgent: "kubectl", Time: metav1.NewTime(time.Unix(1e9, 0)), Step: 499, Full: true, Revision: "5f8c", UpdateTemplate: "d", Reason: "r", RequestID: "1", Via: "annotation", Outcome: "superseded"},
	} {
		encoded, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		hub := rollouts.Decision{
			ID: d.ID, Verb: rollouts.Verb(d.Verb), User: d.User, UID: d.UID, UserAgent: d.UserAgent, Time: d.Time, Step: d.Step, ToStep: d.ToStep, Full: d.Full,
			Revision: d.Revision, UpdateTemplate: d.UpdateTemplate, Reason: d.Reason, RequestID: d.RequestID, Via: rollouts.Via(d.Via), Outcome: rollouts.Outcome(d.Outcome),
		}
		if got, most := hub.Size()-len(encoded), 128; got < 0 || got > most {
			t.Errorf("decision %d: %d bytes more than its %d, want 0 to %d", d.ID, got, len(encoded), most)
		}
	}
}
