// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/admission/workload"
)

// webhookDrainTimeout limits how long the webhook's own port may take to answer its last requests after the
// server was stopped.
const webhookDrainTimeout = 3 * time.Second

// openWebhook reads the authority of the webhook's clients, and opens the webhook's own port if it has one.
func (c *Config) openWebhook() error {
	o, api := c.options, c.Generic.SecureServing
	if !o.servesWebhook() {
		return nil
	}
	if o.WebhookClientCA != "" {
		authority, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-client-ca", o.WebhookClientCA)
		if err != nil {
			return fmt.Errorf("reading --webhook-client-ca-file: %w", err)
		}
		c.webhookClientCA = authority
		// A client sends only certificates of authorities that the server names. The API does not
		// recognise users by certificates of this authority.
		if err := c.Generic.Authentication.ApplyClientCert(authority, api); err != nil {
			return fmt.Errorf("announcing the authority in --webhook-client-ca-file: %w", err)
		}
	}
	if !c.hasWebhookPort {
		return nil
	}
	listener := o.WebhookListener
	if listener == nil {
		address := net.JoinHostPort(o.Recommended.SecureServing.BindAddress.String(), strconv.Itoa(o.WebhookPort))
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("listening for workload admission: %w", err)
		}
	}
	c.Webhook = &genericapiserver.SecureServingInfo{
		Listener: newLimitedListener(listener), Cert: api.Cert, SNICerts: api.SNICerts, MinTLSVersion: api.MinTLSVersion,
		CipherSuites: api.CipherSuites, CurvePreferences: api.CurvePreferences, ClientCA: c.webhookClientCA,
	}
	return nil
}

// serveAdmission answers workload admission before a request reaches the handler of the API. kube-apiserver
// calls a webhook without authentication, and the calls must not wait in the API's fair queues.
func (c *Config) serveAdmission(api http.Handler) http.Handler {
	if !c.options.servesWebhook() {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != workload.Path {
			api.ServeHTTP(w, r)
			return
		}
		admission := c.admission.Load()
		if admission == nil {
			http.Error(w, "workload admission is starting; try again", http.StatusServiceUnavailable)
			return
		}
		(*admission).ServeHTTP(w, r)
	})
}

// requireClientCertificate refuses clients without a certificate that the CA has signed. Without a CA it
// accepts all clients.
func requireClientCertificate(handler http.Handler, authority dynamiccertificates.CAContentProvider) http.Handler {
	if authority == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := verifyClientCertificate(r.TLS, authority); err != nil {
			http.Error(w, "a client certificate of an authority in --webhook-client-ca-file is needed: "+err.Error(), http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func verifyClientCertificate(state *tls.ConnectionState, authority dynamiccertificates.CAContentProvider) error {
	options, ok := authority.VerifyOptions()
	if !ok || state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("there is none")
	}
	options.Intermediates = x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// serveWebhook runs once the API is served. The webhook answers until all requests are drained, so that a
// restart refuses no update that no other replica could receive yet.
func (c *Config) serveWebhook(hook genericapiserver.PostStartHookContext) error {
	index, err := workload.NewIndex(c.rollouts)
	if err != nil {
		return err
	}
	handler := &workload.Handler{Rollouts: index, Controller: c.options.ControllerUser, Clock: clock.RealClock{}}
	drained := c.Generic.DrainedNotify()
	ctx, cancel := context.WithCancel(context.WithoutCancel(hook))
	go func() {
		<-drained
		cancel()
	}()
	go index.Run(ctx)

	admission := requireClientCertificate(handler, c.webhookClientCA)
	c.admission.Store(&admission)
	klog.InfoS("Serving workload admission", "address", c.Generic.SecureServing.Listener.Addr().String())
	if c.Webhook == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle(workload.Path, admission)
	handle := drainConnections(mux, c.Generic.ShutdownInitiatedNotify(), c.Generic.ShutdownDelayDuration)
	stopped, _, err := c.Webhook.Serve(handle, webhookDrainTimeout, drained)
	if err != nil {
		cancel()
		return fmt.Errorf("serving workload admission: %w", err)
	}
	klog.InfoS("Serving workload admission", "address", c.Webhook.Listener.Addr().String())
	c.running.Go(func() {
		<-stopped
		klog.InfoS("Stopped serving workload admission")
	})
	return nil
}
