// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// storeStart is how long the embedded etcd may take to start.
	storeStart = time.Minute
	// storeQuota is how large its database may grow.
	storeQuota = 2 << 30
)

// StoreOptions are the settings of the embedded etcd.
type StoreOptions struct {
	// DataDir keeps the data.
	DataDir string
	// Ephemeral accepts that the data may not survive.
	Ephemeral bool
}

// Validate refuses a directory whose content will not survive a restart.
func (o *StoreOptions) Validate() []error {
	if o.DataDir == "" {
		return []error{errors.New("--data-dir must be set unless --etcd-servers is given")}
	}
	if o.Ephemeral {
		return nil
	}
	volatile, err := inMemory(o.DataDir)
	if err != nil {
		return []error{fmt.Errorf("looking at --data-dir: %w", err)}
	}
	if volatile {
		return []error{fmt.Errorf("--data-dir %s is in memory: every Rollout would be lost at a restart; "+
			"use a persistent volume, --etcd-servers, or --ephemeral if that is what you want", o.DataDir)}
	}
	return nil
}

// inMemory tells whether the nearest directory that exists is kept in memory.
func inMemory(dir string) (bool, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	for errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &fs)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, err
}

// Store is the embedded etcd: one member, reachable through a unix socket only.
type Store struct {
	etcd    *embed.Etcd
	lock    *os.File
	sockets string
	log     zap.AtomicLevel
}

// StartStore starts the embedded etcd and waits until it answers.
func StartStore(ctx context.Context, o StoreOptions) (*Store, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	lock, err := lockDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, log: zap.NewAtomicLevelAt(zap.WarnLevel)}
	if err := s.start(ctx, o); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting the embedded etcd: %w", err)
	}
	return s, nil
}

func (s *Store) start(ctx context.Context, o StoreOptions) error {
	var err error
	if s.sockets, err = socketDir(o.DataDir); err != nil {
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
	case <-time.After(storeStart):
		return fmt.Errorf("it was not ready after %s", storeStart)
	}
}

func (s *Store) config(o StoreOptions) (*embed.Config, error) {
	logger := zap.NewProductionConfig()
	logger.Level = s.log
	log, err := logger.Build()
	if err != nil {
		return nil, fmt.Errorf("creating the logger of etcd: %w", err)
	}
	client := url.URL{Scheme: "unix", Path: s.socket("client")}
	peer := url.URL{Scheme: "unix", Path: s.socket("peer")}
	c := embed.NewConfig()
	c.Name, c.Dir = "weir", o.DataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.WatchProgressNotifyInterval = 5 * time.Second
	// The API server compacts.
	c.AutoCompactionRetention = "0"
	c.QuotaBackendBytes = storeQuota
	c.BootstrapDefragThresholdMegabytes = 100
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
		return nil, errors.Join(fmt.Errorf("locking %s, which another process may use: %w", dir, err), lock.Close())
	}
	return lock, nil
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
func (s *Store) Endpoint() string { return "unix://" + s.socket("client") }

// Failed delivers an error if the store stops by itself.
func (s *Store) Failed() <-chan error { return s.etcd.Err() }

// Close stops the store once its clients are gone.
func (s *Store) Close() {
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
