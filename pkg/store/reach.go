// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
)

// Reach finds the embedded etcd of a data directory: that of the server that has
// it, or one that runs until close is called.
func Reach(ctx context.Context, dir string) (endpoint string, closed func(), _ error) {
	s, err := Start(ctx, Options{DataDir: dir})
	switch {
	case err == nil:
		return s.Endpoint(), s.Close, nil
	case errors.Is(err, errInUse):
		endpoint, err = AddressIn(dir)
		return endpoint, func() {}, err
	default:
		return "", nil, err
	}
}
