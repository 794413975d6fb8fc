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

// sectorSize is the size of a sector. The size of every etcd database is a multiple of it.
const sectorSize = 512

// checksumWriter copies a snapshot and verifies its checksum. The last bytes of a snapshot are the checksum
// of all bytes before them.
type checksumWriter struct {
	out  io.Writer
	hash hash.Hash
	// tail contains the latest bytes, which may be the checksum.
	tail []byte
	size int64
}

func newChecksumWriter(out io.Writer) *checksumWriter {
	return &checksumWriter{out: out, hash: sha256.New()}
}

func (s *checksumWriter) Write(p []byte) (int, error) {
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - sha256.Size; over > 0 {
		s.hash.Write(s.tail[:over]) // a hash never returns an error
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
	n, err := s.out.Write(p)
	s.size += int64(n)
	return n, err
}

// verify verifies the size and the checksum after the whole snapshot was written.
func (s *checksumWriter) verify() error {
	switch {
	case s.size == 0:
		return errors.New("it is empty")
	case s.size%sectorSize == 0:
		return errors.New("it is no snapshot but perhaps a database copied from a data directory, which has no checksum; " +
			"make it with `weir-apiserver snapshot`, which also works on a data directory whose server does not run")
	case s.size%sectorSize != sha256.Size:
		return errors.New("it is no snapshot, or only a part of one, by its size; use another copy")
	case !bytes.Equal(s.tail, s.hash.Sum(nil)):
		return errors.New("it is no snapshot, or a damaged one: its checksum is wrong; use another copy")
	}
	return nil
}
