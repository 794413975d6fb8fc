// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package store runs the embedded etcd, which stores the objects, and limits its size. It also makes and
// restores backups of the embedded etcd and of an external etcd. The package does not depend on the kinds
// of the objects.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// startTimeout is how long the embedded etcd may take to start.
	startTimeout = time.Minute
	// memberName is the name of the only member of the embedded etcd.
	memberName = "weir"
	// memberDir is the directory of etcd's data within the data directory.
	memberDir = "member"
)

var (
	minLimit = resource.MustParse("64Mi")
	// maxLimit is the largest database that etcd supports.
	maxLimit = resource.MustParse("8Gi")
	// DefaultLimit is the default of the maximum size of the database.
	DefaultLimit = resource.MustParse("2Gi")
)

// Options are the settings of the embedded etcd.
type Options struct {
	// DataDir is the directory of the data.
	DataDir string
	// Ephemeral accepts a data directory whose content does not survive a restart.
	Ephemeral bool
	// Limit is the maximum size of the database; 0 means DefaultLimit.
	Limit resource.QuantityValue
}

// Validate returns an error if the limit is out of range, or if the data directory does not survive a
// restart.
func (o *Options) Validate() []error {
	if !o.Limit.IsZero() && (o.Limit.Cmp(minLimit) < 0 || o.Limit.Cmp(maxLimit) > 0) {
		return []error{fmt.Errorf("--data-limit %s must be between %s and %s", o.Limit.String(), minLimit.String(), maxLimit.String())}
	}
	if o.DataDir == "" {
		return []error{errors.New("--data-dir must be set unless --etcd-servers is given")}
	}
	if o.Ephemeral {
		return nil
	}
	why, err := volatileReason(o.DataDir)
	if err != nil {
		return []error{fmt.Errorf("looking at --data-dir: %w", err)}
	}
	if why != "" {
		return []error{fmt.Errorf("--data-dir %s is %s: every Rollout would be lost at a restart; "+
			"use a persistent volume, --etcd-servers, or --ephemeral if that is what you want", o.DataDir, why)}
	}
	return nil
}

// Store is the embedded etcd: one member, reachable through a unix socket only.
type Store struct {
	etcd        *embed.Etcd
	lock        *os.File
	sockets     string
	log         zap.AtomicLevel
	clock       clock.PassiveClock
	maintenance sync.WaitGroup
	// stop ends the maintenance.
	stop context.CancelFunc
	// maintaining serializes compactions and defragmentations. Requests that wait for it can be
	// cancelled.
	maintaining *semaphore.Weighted
}

// Start starts the embedded etcd and waits until it answers.
func Start(ctx context.Context, o Options) (*Store, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	lock, err := lockDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, log: zap.NewAtomicLevelAt(zap.WarnLevel), clock: clock.RealClock{}, stop: func() {}, maintaining: semaphore.NewWeighted(1)}
	if err := s.start(ctx, o); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting the embedded etcd: %w", err)
	}
	return s, nil
}

func (s *Store) start(ctx context.Context, o Options) error {
	var err error
	if s.sockets, err = socketDir(o.DataDir); err != nil {
		return err
	}
	if err := writeAddress(s.lock, s.sockets); err != nil {
		return err
	}
	config, err := s.config(o)
	if err != nil {
		return err
	}
	if s.etcd, err = embed.StartEtcd(config); err != nil {
		return err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case err := <-s.etcd.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(startTimeout):
		return fmt.Errorf("it was not ready after %s", startTimeout)
	}
}

func (s *Store) config(o Options) (*embed.Config, error) {
	logger := zap.NewProductionConfig()
	logger.Level = s.log
	log, err := logger.Build()
	if err != nil {
		return nil, fmt.Errorf("creating the logger of etcd: %w", err)
	}
	client := url.URL{Scheme: "unix", Path: s.socket("client")}
	peer := url.URL{Scheme: "unix", Path: s.socket("peer")}
	c := embed.NewConfig()
	c.Name, c.Dir = memberName, o.DataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.WatchProgressNotifyInterval = 5 * time.Second
	// The API server compacts, so etcd must not.
	c.AutoCompactionRetention = "0"
	c.QuotaBackendBytes = cmp.Or(o.Limit.Value(), DefaultLimit.Value())
	c.BootstrapDefragThresholdMegabytes = 100
	// More entries of the raft log would only serve members that lag behind, and there is only one member.
	c.SnapshotCatchUpEntries = 100
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

// lockDir locks the data directory, so that a second process cannot use it.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w: %w", dir, errInUse, err), lock.Close())
	}
	return lock, nil
}

// errInUse is the error if another process uses the data directory.
var errInUse = errors.New("is in use by another process")

// writeAddress writes the directory of the sockets into the lock file.
func writeAddress(lock *os.File, sockets string) error {
	err := lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(sockets), 0)
	}
	if err != nil {
		return fmt.Errorf("writing the lock of the data directory: %w", err)
	}
	return nil
}

// EndpointIn returns the endpoint of the process that uses a data directory.
func EndpointIn(dir string) (string, error) {
	sockets, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("reading the lock of the data directory: %w", err)
	}
	return endpointURL(string(sockets)), nil
}

// FindOrStart returns the endpoint of the embedded etcd of a data directory. If no server uses the directory,
// FindOrStart starts an etcd, which runs until closed is called.
func FindOrStart(ctx context.Context, dir string) (endpoint string, closed func(), _ error) {
	s, err := Start(ctx, Options{DataDir: dir})
	switch {
	case err == nil:
		return s.Endpoint(), s.Close, nil
	case errors.Is(err, errInUse):
		endpoint, err = EndpointIn(dir)
		return endpoint, func() {}, err
	default:
		return "", nil, err
	}
}

func endpointURL(sockets string) string {
	return "unix://" + filepath.Join(sockets, "client.sock")
}

// socketDir returns the directory of the sockets: the data directory, unless its name is too long. The path
// of a unix socket has at most 107 bytes.
func socketDir(dataDir string) (string, error) {
	if len(filepath.Join(dataDir, "client.sock")) <= 107 {
		return dataDir, nil
	}
	dir, err := os.MkdirTemp("", "weir-")
	if err != nil {
		return "", fmt.Errorf("creating a directory for sockets: %w", err)
	}
	return dir, nil
}

func (s *Store) socket(name string) string {
	return filepath.Join(s.sockets, name+".sock")
}

// Endpoint returns the URL of the store for clients.
func (s *Store) Endpoint() string { return endpointURL(s.sockets) }

// Failed returns a channel that receives an error if the store stops unexpectedly.
func (s *Store) Failed() <-chan error { return s.etcd.Err() }

// Close stops the store. All clients must be closed before.
func (s *Store) Close() {
	s.stop()
	s.maintenance.Wait()
	if s.etcd != nil {
		// etcd logs the closing of its listeners as an error.
		s.log.SetLevel(zap.FatalLevel)
		s.etcd.Close()
	}
	if s.sockets != "" && s.sockets != filepath.Dir(s.lock.Name()) {
		if err := os.RemoveAll(s.sockets); err != nil {
			klog.ErrorS(err, "Leaving a directory of sockets behind")
		}
	}
	// Closing the file releases the lock.
	if err := s.lock.Close(); err != nil {
		klog.ErrorS(err, "Leaving the data directory locked")
	}
}
