// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package store answers one question: where are the objects, and how are they
// kept safe? It runs the embedded etcd, keeps it small, and makes and restores
// backups of it, and of an etcd elsewhere. It must not know what the objects are.
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
	// startLimit is how long the embedded etcd may take to start.
	startLimit = time.Minute
	// memberName is that of the one member.
	memberName = "weir"
	// memberDir is where etcd keeps what it has, in the data directory.
	memberDir = "member"
)

var (
	minLimit = resource.MustParse("64Mi")
	// maxLimit is what etcd is made for.
	maxLimit = resource.MustParse("8Gi")
	// DefaultLimit is how large the database may grow.
	DefaultLimit = resource.MustParse("2Gi")
)

// Options are the settings of the embedded etcd.
type Options struct {
	// DataDir keeps the data.
	DataDir string
	// Ephemeral accepts that the data may not survive.
	Ephemeral bool
	// Limit is how large the database may grow; 2Gi if 0.
	Limit resource.QuantityValue
}

// Validate refuses a directory whose content will not survive a restart.
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
	why, err := lostOnRestart(o.DataDir)
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
	// tidying serializes compactions and defragmentations. Requests that wait for it can be
	// cancelled.
	tidying *semaphore.Weighted
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
	s := &Store{lock: lock, log: zap.NewAtomicLevelAt(zap.WarnLevel), clock: clock.RealClock{}, stop: func() {}, tidying: semaphore.NewWeighted(1)}
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
	case <-time.After(startLimit):
		return fmt.Errorf("it was not ready after %s", startLimit)
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
	// The API server compacts.
	c.AutoCompactionRetention = "0"
	c.QuotaBackendBytes = cmp.Or(o.Limit.Value(), DefaultLimit.Value())
	c.BootstrapDefragThresholdMegabytes = 100
	// What the log keeps in memory beyond this is for members that lag behind.
	c.SnapshotCatchUpEntries = 100
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

// lockDir keeps a second process from taking the sockets of the first.
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

// errInUse is the error when another process has the data directory.
var errInUse = errors.New("is in use by another process")

// writeAddress writes to the lock where the sockets are.
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

// AddressIn says where the process that has a data directory is reached.
func AddressIn(dir string) (string, error) {
	sockets, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("reading the lock of the data directory: %w", err)
	}
	return endpoint(string(sockets)), nil
}

// Reach finds the embedded etcd of a data directory: that of the server that runs
// on it, or one that runs until closed is called.
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

func endpoint(sockets string) string {
	return "unix://" + filepath.Join(sockets, "client.sock")
}

// socketDir is the data directory, unless its name is too long: names of
// sockets have at most 107 bytes.
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

// Endpoint is where clients find the store.
func (s *Store) Endpoint() string { return endpoint(s.sockets) }

// Failed delivers an error if the store stops by itself.
func (s *Store) Failed() <-chan error { return s.etcd.Err() }

// Close stops the store once its clients are gone.
func (s *Store) Close() {
	s.stop()
	s.maintenance.Wait()
	if s.etcd != nil {
		// etcd calls it an error that its listeners close.
		s.log.SetLevel(zap.FatalLevel)
		s.etcd.Close()
	}
	if s.sockets != "" && s.sockets != filepath.Dir(s.lock.Name()) {
		if err := os.RemoveAll(s.sockets); err != nil {
			klog.ErrorS(err, "Leaving a directory of sockets behind")
		}
	}
	// The lock goes with the file.
	if err := s.lock.Close(); err != nil {
		klog.ErrorS(err, "Leaving the data directory locked")
	}
}
