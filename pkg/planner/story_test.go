// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what happened")

// TestStories plays every script in testdata and compares the output. A script consists of blocks
// of commands. Each block is followed by a line of four dashes and the expected output, up to an
// empty line.
func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if *update && !t.Failed() {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(data), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("story (-want +got), rewrite with -update:\n%s", diff)
			}
		})
	}
}

const dashes = "----"

// play runs a script and returns the script with its actual output. It replaces the output between
// the dashes and the next empty line.
func play(t *testing.T, script string) string {
	t.Helper()
	s := newStory(t)
	var out strings.Builder
	var block []string
	happened := false
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case happened && line != "":
		case happened:
			happened = false
			out.WriteString("\n")
		case line == dashes:
			out.WriteString(dashes + "\n" + s.run(block))
			block, happened = nil, true
		default:
			block = append(block, line)
			out.WriteString(line + "\n")
		}
	}
	if len(block) > 0 && strings.TrimSpace(strings.Join(block, "")) != "" {
		t.Errorf("the last block has no %s", dashes)
	}
	return out.String()
}

// story is one script with its world.
type story struct {
	*testing.T
	w *world
	t *transcript
	// exported is a workload as it was stored at an export.
	exported object.Object
	// saved is a backup of the objects that weir-apiserver stores.
	saved snapshot
}

func newStory(t *testing.T) *story {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := &story{T: t, t: &transcript{start: start}}
	s.w = newWorld(start, s.t, newChecks())
	s.t.w = s.w
	return s
}

// run runs the commands of one block and returns their output.
func (s *story) run(lines []string) string {
	s.Helper()
	s.t.out.Reset()
	for i := 0; i < len(lines); i++ {
		text, _, _ := strings.Cut(lines[i], "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		c := command{words: words}
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ") {
			i++
			c.more = append(c.more, strings.Fields(lines[i]))
		}
		verb, ok := verbs[words[0]]
		if !ok {
			s.Fatalf("no command %q", words[0])
		}
		verb(s, c)
	}
	for _, broken := range s.w.check.broken {
		s.Errorf("%s", broken)
	}
	s.w.check.broken = nil
	return s.t.out.String()
}

// explain prints the decision of the next pass over a Rollout without running the pass.
func (s *story) explain(name string) {
	o, err := rollout.Observe(quietContext, cachedCluster{s.w}, s.w.now, rollout.Options{}, types.NamespacedName{Name: name})
	if err != nil || o == nil {
		s.t.printUnder("explain", "not found")
		return
	}
	for line := range strings.Lines(planner.Decide(o.Facts).String()) {
		s.t.printUnder("explain", "%s", strings.TrimSuffix(line, "\n"))
	}
}
