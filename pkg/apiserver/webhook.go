// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"github.com/weir-rollouts/weir/pkg/admission/workload"
)

// webhookDrain is how long answers under way may take once the server stops.
const webhookDrain = 3 * time.Second

// setWebhook opens the port of workload admission. It has a listener and a mux
// of its own: kube-apiserver calls it without a name, so it must neither share
// the authentication nor the fair queues of the API.
func (c *Config) setWebhook() error {
	o := c.options
	listener := o.WebhookListener
	if listener == nil {
		if o.WebhookPort == 0 {
			return nil
		}
		address := net.JoinHostPort(o.Recommended.SecureServing.BindAddress.String(), strconv.Itoa(o.WebhookPort))
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("listening for workload admission: %w", err)
		}
	}
	api := c.Generic.SecureServing
	c.Webhook = &genericapiserver.SecureServingInfo{
		Listener: listener, Cert: api.Cert, SNICerts: api.SNICerts, MinTLSVersion: api.MinTLSVersion,
		CipherSuites: api.CipherSuites, CurvePreferences: api.CurvePreferences,
	}
	return nil
}

// serveWebhook runs once the API is served. It answers until all requests are
// drained, so that a restart refuses no update which another replica could not
// see yet.
func (c CompletedConfig) serveWebhook(hook genericapiserver.PostStartHookContext) error {
	index, err := workload.NewIndex(c.rollouts)
	if err != nil {
		return err
	}
	handler := &workload.Handler{Rollouts: index, Controller: c.ControllerUser, Clock: c.Clock}
	drained := c.Generic.DrainedNotify()
	ctx, cancel := context.WithCancel(context.WithoutCancel(hook))
	go func() {
		<-drained
		cancel()
	}()
	go index.Run(ctx)

	mux := http.NewServeMux()
	mux.Handle(workload.Path, handler)
	handle := leaving(mux, c.Generic.ShutdownInitiatedNotify(), c.Generic.ShutdownDelayDuration)
	stopped, _, err := c.Webhook.Serve(handle, webhookDrain, drained)
	if err != nil {
		cancel()
		return fmt.Errorf("serving workload admission: %w", err)
	}
	klog.InfoS("Serving workload admission", "address", c.Webhook.Listener.Addr().String())
	c.webhooks.Go(func() {
		<-stopped
		klog.InfoS("Stopped serving workload admission")
	})
	return nil
}
