// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// answerTimeout limits how long to wait for an etcd that does not answer.
const answerTimeout = 10 * time.Second

// Remote is the address of an etcd in another process, and the files for TLS.
type Remote struct {
	// Servers are the URLs of its members.
	Servers []string
	// CAFile, CertFile and KeyFile configure TLS.
	CAFile, CertFile, KeyFile string
}

// newClient returns a client of the given members.
func (r Remote) newClient(servers ...string) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: servers, DialTimeout: answerTimeout, DialKeepAliveTime: answerTimeout, DialKeepAliveTimeout: answerTimeout, Logger: zap.NewNop(),
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		return nil, errors.New("--etcd-certfile and --etcd-keyfile go together")
	}
	if r.CAFile != "" || r.CertFile != "" {
		var err error
		info := transport.TLSInfo{TrustedCAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile}
		if config.TLS, err = info.ClientConfig(); err != nil {
			return nil, fmt.Errorf("reading the files of --etcd-cafile, --etcd-certfile and --etcd-keyfile: %w", err)
		}
	}
	c, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("reaching etcd at %s: %w", strings.Join(servers, ", "), err)
	}
	return c, nil
}
