// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/weir-rollouts/weir/internal/disk"
)

// content is the certificate that both ports show, replaced while they serve.
type content struct {
	mu        sync.RWMutex
	cert, key []byte
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*content)(nil)

func (c *content) Name() string { return "self-managed-serving-certificate" }

func (c *content) CurrentCertKeyContent() (cert, key []byte) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cert, c.key
}

func (c *content) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// set replaces the certificate, and reports whether it is another one.
func (c *content) set(cert, key []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(c.cert, cert) && bytes.Equal(c.key, key) {
		return false
	}
	c.cert, c.key = cert, key
	for _, l := range c.listeners {
		l.Enqueue()
	}
	return true
}

// writeFiles puts data into files of a directory. Each is replaced as a whole.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of certificates: %w", err)
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
			continue
		}
		err := disk.Replace(path, func(out io.Writer) error {
			_, err := out.Write(data)
			return err
		})
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}
