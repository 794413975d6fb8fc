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

// ServeLocal serves the dashboard on the loopback interface, at a free port, until the context ends. It
// admits only requests with the secret in the address, as the user of the cluster configuration. It calls
// ready with the address.
func ServeLocal(ctx context.Context, cluster *rest.Config, about About, ready func(address string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	secret := Secret{Value: rand.Text(), Host: listener.Addr().String()} //nolint:forbidigo // other programs on the machine must not guess the secret
	handler, err := NewProxy(cluster, secret, about)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ready("http://" + secret.Host + Root + "#secret=" + secret.Value)
	return Serve(ctx, handler, listener)
}
