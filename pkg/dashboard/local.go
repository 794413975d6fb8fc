// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"

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
	return Serve(ctx, handler, listener)
}
