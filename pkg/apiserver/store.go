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
	sockets string
}

// StartStore starts the embedded etcd and waits until it answers.
func StartStore(ctx context.Context, o StoreOptions) (*Store, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	// Names of sockets are short by law; the data directory may be deep.
	sockets, err := os.MkdirTemp("", "weir-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for sockets: %w", err)
	}
	s := &Store{sockets: sockets}
	config, err := s.config(o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(sockets))
	}
	if s.etcd, err = embed.StartEtcd(config); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the embedded etcd: %w", err), os.RemoveAll(sockets))
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return s, nil
	case err = <-s.etcd.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(storeStart):
		err = fmt.Errorf("it was not ready after %s", storeStart)
	}
	return nil, errors.Join(fmt.Errorf("starting the embedded etcd: %w", err), s.Close())
}

func (s *Store) config(o StoreOptions) (*embed.Config, error) {
	logger := zap.NewProductionConfig()
	logger.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
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

func (s *Store) socket(name string) string {
	return filepath.Join(s.sockets, name+".sock")
}

// Endpoint is where clients find the store.
func (s *Store) Endpoint() string { return "unix://" + s.socket("client") }

// Failed delivers an error if the store stops by itself.
func (s *Store) Failed() <-chan error { return s.etcd.Err() }

// Close stops the store once its clients are gone.
func (s *Store) Close() error {
	s.etcd.Close()
	return os.RemoveAll(s.sockets)
}
