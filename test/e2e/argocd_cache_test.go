// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && replicas && argocd

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/test/cluster"
)

// argoCDCache is a running cluster cache of Argo CD (hack/argocdcache).
type argoCDCache struct {
	t     *testing.T
	lines io.Writer
	out   *json.Decoder
}

// cacheState is what the cache knows. While it has an error, Argo CD shows every application of the cluster as Unknown.
type cacheState struct {
	Error string
	Kinds map[string]int
}

func startArgoCDCache(t *testing.T, args ...string) *argoCDCache {
	t.Helper()
	program := filepath.Join(testEnv.cluster.Bin(), "..", "argocdcache", "argocdcache")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-kubeconfig=" + testEnv.cluster.Kubeconfig()}, args...)...)
	log, err := os.Create(filepath.Join(t.TempDir(), "argocdcache.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	lines, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make argocdcache builds it)", err)
	}
	t.Cleanup(func() {
		_ = lines.Close() // the program ends at the end of its input
		if err := errors.Join(cmd.Wait(), log.Close()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return &argoCDCache{t: t, lines: lines, out: json.NewDecoder(out)}
}

func (c *argoCDCache) ask(line string) cacheState {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.lines, line); err != nil {
		c.t.Fatal(err)
	}
	var s cacheState
	if err := c.out.Decode(&s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// sync discards the cache and fills it again. look only reads it.
func (c *argoCDCache) sync() cacheState { return c.ask("sync") }
func (c *argoCDCache) look() cacheState { return c.ask("look") }

// knows returns what is wrong if the cache has an error or lacks the objects of other kinds, and if it has Rollouts or not as
// wanted.
func (s cacheState) knows(before cacheState, wantRollouts bool) error {
	if s.Error != "" {
		return errors.New(s.Error)
	}
	for _, kind := range []string{"apps/Deployment", "apps/ReplicaSet", "/Service", "/Namespace", "networking.k8s.io/Ingress"} {
		if s.Kinds[kind] != before.Kinds[kind] {
			return fmt.Errorf("the cache has %d of %s, and had %d", s.Kinds[kind], kind, before.Kinds[kind])
		}
	}
	if has := s.Kinds["rollouts.kruise.io/Rollout"] > 0; has != wantRollouts {
		return fmt.Errorf("the cache has Rollouts: %t, want %t", has, wantRollouts)
	}
	return nil
}

// TestArgoCDCache runs the cluster cache of Argo CD on a cluster with replicas of Weir. While the etcd of Weir or all of Weir is
// down, the cache can be filled again and has all objects of other kinds, so Argo CD shows the other applications as before. A
// cache that was filled earlier keeps its objects. While one replica after the other restarts, the cache misses nothing.
func TestArgoCDCache(t *testing.T) {
	startReplicatedCluster(t, cluster.Options{})
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	earlier, again := startArgoCDCache(t), startArgoCDCache(t)
	before := earlier.sync()
	if err := again.sync().knows(before, true); err != nil {
		t.Fatal(err)
	}

	for _, outage := range []struct {
		name       string
		begin, end func() error
	}{
		{"the etcd of Weir is killed", killEach(cluster.WeirEtcd), startEach(cluster.WeirEtcd)},
		{"all of Weir is killed", killEach(servers()...), startEach(servers()...)},
	} {
		t.Run(outage.name, func(t *testing.T) {
			if err := outage.begin(); err != nil {
				t.Fatal(err)
			}
			failed := 0
			testEnv.eventually(t, "the cache is filled without the kinds of Weir", func(context.Context) error {
				err := again.sync().knows(before, false)
				if err != nil {
					failed++
				}
				return err
			})
			t.Logf("%d attempts failed until discovery showed that the API is unavailable", failed)
			for range 10 {
				if err := again.sync().knows(before, false); err != nil {
					t.Errorf("filled again: %v", err)
				}
				if err := earlier.look().knows(before, true); err != nil {
					t.Errorf("filled earlier: %v", err)
				}
			}
			if err := outage.end(); err != nil {
				t.Fatal(err)
			}
			testEnv.eventually(t, "the cache is filled with the kinds of Weir", func(context.Context) error {
				return again.sync().knows(before, true)
			})
		})
	}
	t.Run("the replicas restart one after the other", func(t *testing.T) {
		for _, name := range servers() {
			restarted := make(chan error, 1)
			go func() { restarted <- errors.Join(terminateEach(name)(), startEach(name)()) }()
			for done := false; !done; {
				select {
				case err := <-restarted:
					if done = true; err != nil {
						t.Fatal(err)
					}
				default:
				}
				if err := again.sync().knows(before, true); err != nil {
					t.Errorf("filled while %s restarts: %v", name, err)
				}
			}
		}
	})
	t.Run("kinds are excluded", func(t *testing.T) {
		var flags []string
		for _, kind := range excludedKinds(t) {
			flags = append(flags, "-exclude="+kind)
		}
		s := startArgoCDCache(t, flags...).sync()
		if err := s.knows(before, true); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"rollouts.kruise.io/BatchRelease", "rollouts.kruise.io/RolloutHistory"} {
			if s.Kinds[kind] > 0 {
				t.Errorf("the cache has %d of %s", s.Kinds[kind], kind)
			}
		}
		if before.Kinds["rollouts.kruise.io/BatchRelease"] == 0 {
			t.Error("there is no BatchRelease to exclude")
		}
	})
}

// excludedKinds returns the group/Kinds that artifacts/argocd excludes.
func excludedKinds(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "argocd", "argocd-cm-exclusions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var exclusions []struct{ APIGroups, Kinds []string }
	if err := yaml.Unmarshal([]byte(file.Data["resource.exclusions"]), &exclusions); err != nil {
		t.Fatal(err)
	}
	for _, e := range exclusions {
		for _, group := range e.APIGroups {
			for _, kind := range e.Kinds {
				all = append(all, group+"/"+kind)
			}
		}
	}
	return all
}
