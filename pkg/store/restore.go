// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	etcd "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/weir-rollouts/weir/internal/disk"
)

// minRevisionBump is the minimum distance between the last revision of the snapshot and the first revision after a
// restore. Clients may know revisions that are newer than the snapshot. The new revisions must be larger
// than those: otherwise a watch from a known revision would get no events until the store reaches that
// revision.
const minRevisionBump = 1_000_000_000

// Restore creates a data directory from a snapshot whose keys have the prefix. After a failure, the
// directory contains no data.
func Restore(in io.Reader, dir, prefix string, now time.Time) (_ Content, failed error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Content{}, fmt.Errorf("creating --data-dir: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return Content{}, fmt.Errorf("%w; stop weir-apiserver first", err)
	}
	defer lock.Close()
	if _, err := os.Lstat(filepath.Join(dir, memberDir)); !errors.Is(err, os.ErrNotExist) {
		return Content{}, fmt.Errorf("--data-dir %s has data already (%w), which a restore does not replace; "+
			"move %s away, or name another directory", dir, errors.Join(err, os.ErrExist), filepath.Join(dir, memberDir))
	}
	scratch, err := os.MkdirTemp(dir, ".restoring-")
	if err != nil {
		return Content{}, fmt.Errorf("making a directory: %w", err)
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(scratch)) }()

	file := filepath.Join(scratch, "snapshot")
	content, err := copySnapshot(in, file, prefix)
	if err != nil {
		return content, err
	}
	bump := max(minRevisionBump, now.UnixMicro()-content.Revision)
	if err := unpackSnapshot(file, filepath.Join(scratch, "etcd"), uint64(bump)); err != nil {
		return content, err
	}
	content.Revision += bump
	if err := os.Rename(filepath.Join(scratch, "etcd", memberDir), filepath.Join(dir, memberDir)); err != nil {
		return content, fmt.Errorf("putting the data in its place: %w", err)
	}
	return content, disk.SyncDir(dir)
}

// copySnapshot copies a snapshot, and verifies that it is complete and contains only keys with the prefix.
func copySnapshot(in io.Reader, path, prefix string) (Content, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Content{}, fmt.Errorf("copying the snapshot: %w", err)
	}
	sum := newChecksumWriter(file)
	_, err = io.Copy(sum, in)
	if err = errors.Join(err, file.Close()); err != nil {
		return Content{}, fmt.Errorf("copying the snapshot: %w", err)
	}
	if err := sum.verify(); err != nil {
		return Content{}, err
	}
	status, err := etcd.NewV3(zap.NewNop()).Status(path)
	if err != nil {
		return Content{}, fmt.Errorf("its checksum is right, but it is no database of etcd: %w", err)
	}
	objects, foreign, err := countKeys(path, prefix+"/")
	switch {
	case err != nil:
	case foreign != "":
		err = fmt.Errorf("it is a snapshot of another etcd, which has %s: weir-apiserver stores under %s only; "+
			"if they share an etcd, restore that with etcdutl", foreign, prefix)
	case objects == 0:
		err = errors.New("nothing is stored in it; to begin with nothing, start weir-apiserver with an empty --data-dir")
	}
	return Content{Revision: status.Revision, Objects: objects, Bytes: sum.size}, err
}

// compactRevisionKey is the key that every kube-apiserver writes for its compactions.
const compactRevisionKey = "compact_rev_key"

// countKeys counts the keys with the prefix, and returns one key without the prefix if there is one.
func countKeys(path, prefix string) (n int64, foreign string, _ error) {
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, "", fmt.Errorf("opening the snapshot: %w", err)
	}
	defer func() { _ = db.Close() }() // it was only read
	keys := map[string]bool{}
	err = db.View(func(tx *bbolt.Tx) error {
		revisions := tx.Bucket([]byte("key"))
		if revisions == nil {
			return errors.New("it has no keys")
		}
		return revisions.ForEach(func(revision, value []byte) error {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(value, &kv); err != nil {
				return fmt.Errorf("reading a key: %w", err)
			}
			keys[string(kv.Key)] = !mvcc.IsTombstone(revision)
			return nil
		})
	})
	for key, there := range keys {
		switch {
		case !there || key == compactRevisionKey || key == "": // a restore leaves a key with an empty name
		case strings.HasPrefix(key, prefix):
			n++
		default:
			foreign = max(foreign, key)
		}
	}
	return n, foreign, err
}

// unpackSnapshot creates the directory of an etcd member from a snapshot. Its next revision is larger than any that
// a client may know, and all earlier revisions count as compacted.
func unpackSnapshot(file, dir string, bump uint64) error {
	// Each start of the embedded etcd replaces this address.
	const address = "unix://weir:0"
	err := etcd.NewV3(zap.NewNop()).Restore(etcd.RestoreConfig{
		SnapshotPath: file, OutputDataDir: dir,
		Name: memberName, PeerURLs: []string{address}, InitialCluster: memberName + "=" + address,
		InitialClusterToken: memberName,
		RevisionBump:        bump, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("unpacking the snapshot: %w", err)
	}
	return nil
}
