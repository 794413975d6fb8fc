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
	// headerTimeout is how long a client may take to say what it wants.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection stays open without a request. Streams are requests.
	idleTimeout = 2 * time.Minute
)

// Serve serves until the context ends. Streams end with it.
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

// ReloadTLS serves with a certificate from files and, where clients names a file, asks for
// client certificates of the authorities in it. The files are read again when they change,
// until the context ends. A certificate and a key that do not match, because one of them is
// replaced already and the other is not, are read again; meanwhile the pair before serves.
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
