// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcd answers: how are the members of an etcd?
//
// It is apart from pkg/doctor/observe, so that a program without an etcd needs no client
// of one.
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

// dialLimit is how long a member may take.
const dialLimit = 3 * time.Second

// Remote says how to reach the members of one.
type Remote struct {
	// Servers are its members, as URLs; none if it is not to be looked at.
	Servers []string
	// CAFile, CertFile and KeyFile are for TLS.
	CAFile, CertFile, KeyFile string
}

// Look asks each member.
func (e Remote) Look(ctx context.Context) []doctor.Member {
	var members []doctor.Member
	for _, url := range e.Servers {
		m := doctor.Member{Address: url}
		m.Err = e.look(ctx, &m)
		members = append(members, m)
	}
	return members
}

func (e Remote) look(ctx context.Context, m *doctor.Member) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	config := clientv3.Config{Endpoints: []string{m.Address}, DialTimeout: dialLimit, Context: ctx, Logger: zap.NewNop()}
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
