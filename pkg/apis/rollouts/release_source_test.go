// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A release source has the texts of the template before those of the workload, and no text that a reader should not
// see: links are addresses of the web, long texts are cut, and hidden characters are replaced.
func TestReleaseSource(t *testing.T) {
	t.Parallel()
	const revision, source, link, author = "org.opencontainers.image.revision", "org.opencontainers.image.source", "org.opencontainers.image.url", "org.opencontainers.image.authors"
	custom := map[string]string{"commit": "example.com/sha"}
	for name, tc := range map[string]struct {
		keys               map[string]string
		template, workload map[string]string
		want               *rollouts.ReleaseSource
	}{
		"none":                 {want: nil},
		"empty":                {template: map[string]string{revision: " "}, want: nil},
		"of the template":      {template: map[string]string{revision: "4f2c8a1"}, workload: map[string]string{revision: "old", author: "alice"}, want: &rollouts.ReleaseSource{Commit: "4f2c8a1", Author: "alice"}},
		"other annotations":    {keys: custom, template: map[string]string{revision: "a", "example.com/sha": "b"}, want: &rollouts.ReleaseSource{Commit: "b"}},
		"links":                {template: map[string]string{source: "https://example.com/shop/web", link: "http://example.com/pulls/7?tab=1"}, want: &rollouts.ReleaseSource{Repository: "https://example.com/shop/web", Link: "http://example.com/pulls/7?tab=1"}},
		"a script":             {template: map[string]string{link: "javascript:alert(1)"}, want: nil},
		"data":                 {template: map[string]string{link: "data:text/html,x"}, want: nil},
		"another host":         {template: map[string]string{link: "https://example.com@evil.example.org/"}, want: nil},
		"no host":              {template: map[string]string{link: "https:///x", source: "git@example.com:shop/web.git"}, want: nil},
		"a long link":          {template: map[string]string{link: "https://example.com/" + strings.Repeat("a", 1024)}, want: nil},
		"a hidden direction":   {template: map[string]string{link: "https://example.com/\u202egpj", author: "ali\u202ece"}, want: &rollouts.ReleaseSource{Author: "ali\ufffdce"}},
		"a terminal's colours": {template: map[string]string{author: "\x1b[31mroot\nroot"}, want: &rollouts.ReleaseSource{Author: "\ufffd[31mroot\ufffdroot"}},
		"a long text":          {template: map[string]string{author: strings.Repeat("é", 300)}, want: &rollouts.ReleaseSource{Author: strings.Repeat("é", 255) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := tc.keys
			if keys == nil {
				keys = rollouts.DefaultReleaseAnnotations
			}
			got := rollouts.NewReleaseSource(keys, tc.template, tc.workload)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, got.Cleaned()); diff != "" {
				t.Errorf("cleaned again (-first +second):\n%s", diff)
			}
		})
	}
}
