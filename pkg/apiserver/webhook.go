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

	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/weir-rollouts/weir/pkg/admission/workload"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
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

// serveWebhook runs once the API is served, since it watches Rollouts there. It
// answers until all requests are drained, so that a restart refuses no update
// which another replica could not see yet.
func (c CompletedConfig) serveWebhook(hook genericapiserver.PostStartHookContext) error {
	client, err := c.rolloutClient(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	index, err := workload.NewIndex(client, c.options.scheme)
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

// rolloutClient reads our own API in this process.
func (c CompletedConfig) rolloutClient(loopback *restclient.Config) (restclient.Interface, error) {
	config := restclient.CopyConfig(loopback)
	gv := v1beta1.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &gv, "/apis"
	config.QPS = -1 // an update of a workload waits for the answer
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: c.options.codecs}
	client, err := restclient.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client of the loopback: %w", err)
	}
	return client, nil
}
