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

// Content describes the content of a snapshot.
type Content struct {
	// Revision is the revision of the last write.
	Revision int64
	// Objects is the number of objects.
	Objects int64
	// Bytes is the size of the file.
	Bytes int64
}

func (c Content) String() string {
	return fmt.Sprintf("%d objects at revision %d in %d bytes", c.Objects, c.Revision, c.Bytes)
}

// Snapshot writes all keys with the prefix, as they are at one moment, in the format of etcd: a database
// and a checksum. The snapshot includes all writes that were completed before the call.
func (r Remote) Snapshot(ctx context.Context, prefix string, out io.Writer) (Content, error) {
	var errs []error
	for _, server := range r.Servers {
		client, err := r.newClient(server)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		content, err := snapshot(ctx, client, prefix, out)
		err = errors.Join(err, client.Close())
		if err == nil || content.Bytes > 0 { // the output contains a part of the snapshot, so another member cannot be tried
			return content, err
		}
		errs = append(errs, fmt.Errorf("asking %s: %w", server, err))
	}
	return Content{}, errors.Join(errs...)
}

func snapshot(ctx context.Context, client *clientv3.Client, prefix string, out io.Writer) (Content, error) {
	// This read makes a member that lags behind catch up before it answers.
	soon, cancel := context.WithTimeout(ctx, answerTimeout)
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
	return content, sum.verify()
}

// SnapshotDir writes a snapshot of a data directory. The server of the directory may be running.
func SnapshotDir(ctx context.Context, dir, prefix string, out io.Writer) (_ Content, failed error) {
	if _, err := os.Stat(filepath.Join(dir, memberDir)); err != nil {
		return Content{}, fmt.Errorf("there is no data in %s (%w): --data-dir must be the directory of the server, on the server's machine; "+
			"for an etcd elsewhere give --etcd-servers", dir, err)
	}
	server, closed, err := FindOrStart(ctx, dir)
	if err != nil {
		return Content{}, err
	}
	defer closed()
	return Remote{Servers: []string{server}}.Snapshot(ctx, prefix, out)
}
