// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/lease"
)

const leaseName = "weir-controller"

// guardByLease creates the lock of the leader election. It changes the configuration so that writes
// are refused unless the lease was renewed recently. Without leader election it returns no lock,
// and writes are not limited.
func guardByLease(ctx context.Context, config *rest.Config, o Options) (*lease.Lease, error) {
	if !o.LeaderElect {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for the lease: %w", err)
	}
	who := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	// The lock has its own client, whose writes are not limited.
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.LeaderNamespace, leaseName, who, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lock of the lease: %w", err)
	}
	held := &lease.Lease{Interface: lock, MaxAge: renewDeadline, Clock: clock.RealClock{}}
	// Start the expiry time of a former holder now instead of after all caches have synced. The
	// election reads the lease again.
	if _, _, err := held.Get(ctx); err != nil {
		logf.FromContext(ctx).Info("The lease is not read yet", "error", err.Error())
	}
	config.Wrap(held.Guard)
	return held, nil
}
