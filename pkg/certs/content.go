// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// servingContent provides the serving certificate of both ports. It can be replaced while the server is running.
type servingContent struct {
	mu        sync.RWMutex
	cert, key []byte
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*servingContent)(nil)

func (c *servingContent) Name() string { return "self-managed-serving-certificate" }

func (c *servingContent) CurrentCertKeyContent() (cert, key []byte) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cert, c.key
}

func (c *servingContent) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// set replaces the certificate, and reports whether it has changed.
func (c *servingContent) set(cert, key []byte) bool {
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
