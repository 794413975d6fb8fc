// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Content is what a snapshot has.
type Content struct {
	// Revision is that of its last write.
	Revision int64
	// Objects are counted.
	Objects int64
	// Bytes is the size of the file.
	Bytes int64
}

func (c Content) String() string {
	return fmt.Sprintf("%d objects at revision %d in %d bytes", c.Objects, c.Revision, c.Bytes)
}

// Snapshot writes all that is stored under the prefix, as it is at one moment,
// in the format of etcd: its database and a checksum. Everything is in it that
// was written before.
func (r Remote) Snapshot(ctx context.Context, prefix string, out io.Writer) (Content, error) {
	var errs []error
	for _, server := range r.Servers {
		client, err := r.client(server)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		content, err := snapshot(ctx, client, prefix, out)
		err = errors.Join(err, client.Close())
		if err == nil || content.Bytes > 0 { // part of it is written
			return content, err
		}
		errs = append(errs, fmt.Errorf("asking %s: %w", server, err))
	}
	return Content{}, errors.Join(errs...)
}

func snapshot(ctx context.Context, client *clientv3.Client, prefix string, out io.Writer) (Content, error) {
	// To answer, a member that lags behind catches up first.
	soon, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	stored, err := client.Get(soon, prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return Content{}, err
	}
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return Content{}, err
	}
	sum := newChecksumWriter(out)
	_, err = io.Copy(sum, stream.Snapshot)
	content := Content{Revision: stored.Header.Revision, Objects: stored.Count, Bytes: sum.size}
	if err = errors.Join(err, stream.Snapshot.Close()); err != nil {
		return content, fmt.Errorf("copying: %w", err)
	}
	return content, sum.check()
}

// SnapshotDir makes a snapshot of a data directory, whose server may run.
func SnapshotDir(ctx context.Context, dir, prefix string, out io.Writer) (_ Content, failed error) {
	if _, err := os.Stat(filepath.Join(dir, memberDir)); err != nil {
		return Content{}, fmt.Errorf("there is no data in %s (%w): --data-dir must be the directory of the server, on the server's machine; "+
			"for an etcd elsewhere give --etcd-servers", dir, err)
	}
	server, closed, err := Reach(ctx, dir)
	if err != nil {
		return Content{}, err
	}
	defer closed()
	return Remote{Servers: []string{server}}.Snapshot(ctx, prefix, out)
}
