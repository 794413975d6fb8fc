// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
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
