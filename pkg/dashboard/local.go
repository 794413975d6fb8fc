// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// ServeLocal serves the dashboard to the user of this machine who has the address, until the
// context ends: on the loopback interface, at a port that is free, as the user of the
// configuration. ready is told the address.
func ServeLocal(ctx context.Context, cluster *rest.Config, ready func(address string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	secret := Secret{Value: rand.Text(), Host: listener.Addr().String()} //nolint:forbidigo // no other program of the machine may guess it
	handler, err := Proxy(cluster, secret)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ready("http://" + secret.Host + Root + "#secret=" + secret.Value)
	return Serve(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}, listener)
}

// Serve serves until the context ends. Streams end with it.
func Serve(ctx context.Context, server *http.Server, listener net.Listener) error {
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
