// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

const (
	// headerTimeout is how long a client may take to send the header of a request.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection stays open without a request. An open stream is a request.
	idleTimeout = 2 * time.Minute
)

// Serve serves HTTP requests until the context ends, and then closes all connections, streams
// included.
func Serve(ctx context.Context, handler http.Handler, listener net.Listener) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		err := server.Close()
		if last := <-ended; !errors.Is(last, http.ErrServerClosed) {
			err = errors.Join(err, last)
		}
		return err
	}
}

// ReloadTLS returns a TLS configuration with the serving certificate of two files. If clients is not empty,
// it names a file with CAs, and client certificates of these CAs are required. Until the context ends,
// changed files are reloaded. If certificate and key do not match, because only one has been replaced yet,
// the previous pair stays in use and both are read again.
func ReloadTLS(ctx context.Context, certificate, key, clients string) (*tls.Config, error) {
	serving, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving", certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	var authority dynamiccertificates.CAContentProvider
	if clients != "" {
		files, err := dynamiccertificates.NewDynamicCAContentFromFile("clients", clients)
		if err != nil {
			return nil, fmt.Errorf("reading the authority of clients: %w", err)
		}
		base.ClientAuth, authority = tls.RequireAndVerifyClientCert, files
		defer func() { go files.Run(ctx, 1) }()
	}
	current := dynamiccertificates.NewDynamicServingCertificateController(base, authority, serving, nil, nil)
	if err := current.RunOnce(); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	serving.AddListener(current)
	if authority != nil {
		authority.AddListener(current)
	}
	go serving.Run(ctx, 1)
	go current.Run(1, ctx.Done())
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: current.GetConfigForClient}, nil
}
