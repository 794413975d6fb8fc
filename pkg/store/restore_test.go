// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/weir-rollouts/weir/internal/disk"
)

const prefix = "/registry/test"

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func begin(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func clientOf(t *testing.T, s *Store) *clientv3.Client {
	t.Helper()
	c, err := Remote{}.newClient(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its server may be gone
	return c
}

func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	r, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func snapshotOf(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := SnapshotDir(t.Context(), dir, prefix, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A snapshot contains the objects that were stored when it was made, whether the server runs or not, and
// even if the name of its directory is long.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"short": "data", "long": strings.Repeat("long", 30)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), dir)
			s, err := Start(t.Context(), Options{DataDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			c := clientOf(t, s)
			put(t, c, prefix+"/a", "1")
			put(t, c, prefix+"/gone", "1")
			if _, err := c.Delete(t.Context(), prefix+"/gone"); err != nil {
				t.Fatal(err)
			}
			running := snapshotOf(t, dir)
			put(t, c, prefix+"/b", "2")
			_ = c.Close() // its server goes next
			s.Close()
			stopped := snapshotOf(t, dir)

			has(t, running, 1, map[string]string{"a": "1"})
			has(t, stopped, 2, map[string]string{"a": "1", "b": "2"})
		})
	}
}

func has(t *testing.T, snapshot []byte, objects int64, want map[string]string) {
	t.Helper()
	dir := t.TempDir()
	content, err := Restore(bytes.NewReader(snapshot), dir, prefix, noon)
	if err != nil {
		t.Fatal(err)
	}
	if content.Objects != objects {
		t.Errorf("%d objects were restored, want %d", content.Objects, objects)
	}
	got, err := clientOf(t, begin(t, Options{DataDir: dir})).Get(t.Context(), prefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, kv := range got.Kvs {
		found[strings.TrimPrefix(string(kv.Key), prefix+"/")] = string(kv.Value)
	}
	if fmt.Sprint(found) != fmt.Sprint(want) || got.Header.Revision != content.Revision {
		t.Errorf("at revision %d there is %v, want %v at %d", got.Header.Revision, found, want, content.Revision)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// No client knows a revision as new as that of a restored server, even if the same snapshot was restored
// before, or the clock is wrong. So a watch from a known revision gets the error that the revision was
// compacted.
func TestRestoreLeaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := clientOf(t, begin(t, Options{DataDir: dir}))
	put(t, c, prefix+"/a", "1")
	snapshot := snapshotOf(t, dir)
	known := put(t, c, prefix+"/a", "2")
	for _, now := range []time.Time{noon, noon.Add(time.Minute), time.Unix(0, 0)} {
		dir := t.TempDir()
		content, err := Restore(bytes.NewReader(snapshot), dir, prefix, now)
		if err != nil {
			t.Fatal(err)
		}
		if now.Before(noon) {
			known = 2 + 1000
		}
		if content.Revision <= known {
			t.Errorf("restored at %s it is at revision %d, and clients know %d", now, content.Revision, known)
		}
		c := clientOf(t, begin(t, Options{DataDir: dir}))
		watch := <-c.Watch(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(known+1))
		if !errors.Is(watch.Err(), rpctypes.ErrCompacted) {
			t.Errorf("a watch from what is known gets %v, want %v", watch.Err(), rpctypes.ErrCompacted)
		}
		known = content.Revision
		for range 10 {
			known = put(t, c, prefix+"/a", "3")
		}
	}
}

// A file that is not a valid snapshot is refused. The error tells the user what to do, and the directory
// stays empty.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := begin(t, Options{DataDir: dir})
	c := clientOf(t, s)
	put(t, c, compactRevisionKey, "1")
	nothing := snapshotOf(t, dir)
	put(t, c, prefix+"/a", "1")
	good := snapshotOf(t, dir)
	put(t, c, "/registry/pods/web", "another's")
	foreign := snapshotOf(t, dir)
	damaged := slices.Clone(good)
	damaged[len(damaged)/2] ^= 1

	used, full := dir, t.TempDir()
	if _, err := Restore(bytes.NewReader(good), full, prefix, noon); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		snapshot []byte
		dir      string
		says     string
	}{
		"damaged":   {damaged, "", "its checksum is wrong; use another copy"},
		"cut":       {good[:len(good)/2+7], "", "only a part of one"},
		"empty":     {nil, "", "it is empty"},
		"a text":    {[]byte("apiVersion: v1"), "", "it is no snapshot"},
		"copied":    {good[:len(good)-32], "", "make it with `weir-apiserver snapshot`"},
		"another's": {foreign, "", "snapshot of another etcd, which has /registry/pods/web"},
		"nothing":   {nothing, "", "empty --data-dir"},
		"has data":  {good, full, "move " + filepath.Join(full, "member") + " away"},
		"in use":    {good, used, "stop weir-apiserver first"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := tt.dir
			if dir == "" {
				dir = t.TempDir()
			}
			_, err := Restore(bytes.NewReader(tt.snapshot), dir, prefix, noon)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q in it", err, tt.says)
			}
			if tt.dir != "" {
				return
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 1 || left[0].Name() != "lock" {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

// A snapshot of a directory without data creates nothing, and the error of an etcd that does not answer
// contains its address.
func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nothing")
	if _, err := SnapshotDir(t.Context(), dir, prefix, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	nobody := "unix://" + filepath.Join(t.TempDir(), "nobody.sock")
	if _, err := (Remote{Servers: []string{nobody}}).Snapshot(t.Context(), prefix, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("without an etcd: %v", err)
	}
	if _, err := (Remote{Servers: []string{nobody}, CertFile: "a"}).Snapshot(t.Context(), prefix, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--etcd-keyfile") {
		t.Errorf("with half a certificate: %v", err)
	}
}

// A file is replaced completely or not at all.
func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	write := func(text string, err error) error {
		return disk.Replace(path, func(out io.Writer) error {
			_, e := out.Write([]byte(text))
			return errors.Join(e, err)
		})
	}
	if err := write("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	want := func(text string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("the file has %q (%v), want %q", got, err, text)
		}
	}
	want("before")
	if err := write("after", nil); err != nil {
		t.Error(err)
	}
	want("after")
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 { // that it can be read is tested above
		t.Errorf("left behind: %v", left)
	}
}
