// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcd observes the members of an etcd.
//
// It is not part of pkg/doctor/observe, so that programs without an etcd do not need an etcd client.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/weir-rollouts/weir/pkg/doctor"
)

// dialTimeout limits the requests to one member.
const dialTimeout = 3 * time.Second

// Remote is the address of an etcd, and the files for TLS.
type Remote struct {
	// Servers are the URLs of the members; none if the etcd should not be observed.
	Servers []string
	// CAFile, CertFile and KeyFile configure TLS.
	CAFile, CertFile, KeyFile string
}

// Observe observes each member.
func (e Remote) Observe(ctx context.Context) []doctor.Member {
	var members []doctor.Member
	for _, url := range e.Servers {
		m := doctor.Member{Address: url}
		m.Err = e.observeMember(ctx, &m)
		members = append(members, m)
	}
	return members
}

func (e Remote) observeMember(ctx context.Context, m *doctor.Member) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	config := clientv3.Config{Endpoints: []string{m.Address}, DialTimeout: dialTimeout, Context: ctx, Logger: zap.NewNop()}
	if e.CAFile != "" || e.CertFile != "" {
		var err error
		info := transport.TLSInfo{TrustedCAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}
		if config.TLS, err = info.ClientConfig(); err != nil {
			return fmt.Errorf("reading the files for TLS: %w", err)
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, client.Close()) }()
	status, err := client.Status(ctx, m.Address)
	if err != nil {
		return err
	}
	m.Size, m.InUse, m.Limit = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return err
	}
	for _, a := range alarms.Alarms {
		if a.GetMemberID() == status.Header.GetMemberId() {
			m.Alarms = append(m.Alarms, a.GetAlarm().String())
		}
	}
	return nil
}
