// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
)

// sector divides the size of every database of etcd.
const sector = 512

// checksumWriter copies a snapshot and checks it: a snapshot ends with the
// checksum of everything before.
type checksumWriter struct {
	out  io.Writer
	hash hash.Hash
	// tail has the latest bytes, which may be the checksum.
	tail []byte
	size int64
}

func newChecksumWriter(out io.Writer) *checksumWriter {
	return &checksumWriter{out: out, hash: sha256.New()}
}

func (s *checksumWriter) Write(p []byte) (int, error) {
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - sha256.Size; over > 0 {
		s.hash.Write(s.tail[:over]) // it never fails
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
	n, err := s.out.Write(p)
	s.size += int64(n)
	return n, err
}

// check verifies the size and the checksum once the snapshot is written.
func (s *checksumWriter) check() error {
	switch {
	case s.size == 0:
		return errors.New("it is empty")
	case s.size%sector == 0:
		return errors.New("it is no snapshot but perhaps a database copied from a data directory, which has no checksum; " +
			"make it with `weir-apiserver snapshot`, which also works on a data directory whose server does not run")
	case s.size%sector != sha256.Size:
		return errors.New("it is no snapshot, or only a part of one, by its size; use another copy")
	case !bytes.Equal(s.tail, s.hash.Sum(nil)):
		return errors.New("it is no snapshot, or a damaged one: its checksum is wrong; use another copy")
	}
	return nil
}
