// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/store"
)

const (
	// storagePrefix is the prefix of all keys in etcd; it never changes.
	storagePrefix = "/registry/rollouts.kruise.io"
	// defaultDataDir is where the embedded etcd keeps its data.
	defaultDataDir = "/var/lib/weir"
	// defaultController is the service account of weir-controller.
	defaultController = "system:serviceaccount:weir-system:weir-controller"
)

// DefaultPort is the port of the API and of workload admission. The firewall of a private GKE cluster lets the
// control plane connect to nodes and pods only on ports 443 and 10250.
const DefaultPort = 10250

// Values of the option LegacyApprovals.
const (
	LegacyCheck = "check"
	LegacyAllow = "allow"
)

// Options are the settings of the server.
type Options struct {
	// Recommended are the options of any aggregated API server.
	Recommended *genericoptions.RecommendedOptions
	// Run are request limits and settings of the shutdown.
	Run *genericoptions.ServerRunOptions
	// Store are the settings of the embedded etcd, which runs unless --etcd-servers is given.
	Store store.Options
	// NamespaceLimit is how many bytes the objects of one namespace may use, and ObjectsLimit those of all
	// namespaces together; 0 means the value that objectLimits derives.
	NamespaceLimit, ObjectsLimit resource.QuantityValue
	// ExternalLimit is the size limit of an external etcd that does not report its own (before
	// 3.6); 0 if unknown.
	ExternalLimit resource.QuantityValue
	// TLS are the settings of certificates.
	TLS TLSOptions
	// WebhookPort is the port of workload admission; 0 disables it. The port of the API always serves it, too,
	// so that the port can be changed while replicas of both settings run.
	WebhookPort int
	// WebhookClientCA is a file with the CAs of the client certificates that workload admission requires. If
	// it is empty, workload admission requires none.
	WebhookClientCA string
	// WebhookListener replaces the port if it is set.
	WebhookListener net.Listener
	// ControllerUser is the user name of weir-controller.
	ControllerUser string
	// LegacyApprovals decides whether decisions by writes of the status need the permission of the verb:
	// LegacyCheck or LegacyAllow.
	LegacyApprovals string
	// Rules are the administrator's options for validation.
	Rules validation.Options
	// Views are the settings of the computed endpoints.
	Views ViewOptions
	// Standalone are the settings of a server without a cluster, for developers of clients.
	Standalone StandaloneOptions

	// Pages enables the dashboard.
	Pages bool

	// InProcess runs in the same process; nil if there is nothing to run.
	InProcess InProcessProgram

	// fail stops the server with an error.
	fail func(error)
	// embedded is the embedded etcd while it runs.
	embedded *store.Store
	scheme   *runtime.Scheme
	codecs   serializer.CodecFactory
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	scheme := NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	o := &Options{
		Recommended:     genericoptions.NewRecommendedOptions(storagePrefix, codecs.LegacyCodec(v1beta1.SchemeGroupVersion)),
		Run:             genericoptions.NewServerRunOptions(),
		Store:           store.Options{DataDir: defaultDataDir, Limit: resource.QuantityValue{Quantity: store.DefaultLimit}},
		TLS:             newTLSOptions(),
		WebhookPort:     DefaultPort,
		ControllerUser:  defaultController,
		LegacyApprovals: LegacyCheck,
		Views:           newViewOptions(),
		Pages:           true,
		Rules:           validation.Options{PartitionPercentLimit: validation.DefaultPartitionPercentLimit},
		scheme:          scheme,
		codecs:          codecs,
	}
	o.Recommended.SecureServing.BindPort = DefaultPort
	o.Recommended.Features.EnableProfiling = false
	o.enforceQuotas()
	// GoawayChance stays 0. With it, the aggregator would spread its connections over the replicas. But the
	// aggregator answers 503 to a verb that meets a GOAWAY, because it cannot send the body again.
	// Administrators of several replicas may set the flag.
	o.Run.ShutdownSendRetryAfter = true
	o.Run.ShutdownWatchTerminationGracePeriod = 2 * time.Second
	return o
}

// usesExternalEtcd reports whether the server uses an external etcd.
func (o *Options) usesExternalEtcd() bool {
	return len(o.Recommended.Etcd.StorageConfig.Transport.ServerList) > 0
}

const webhookPortFlag = "webhook-port"

// setWebhookPort makes workload admission use the port of the API unless the user names another port.
func (o *Options) setWebhookPort(given func(flag string) bool) {
	if !given(webhookPortFlag) {
		o.WebhookPort = o.Recommended.SecureServing.BindPort
	}
}

// servesWebhook reports whether the server serves workload admission.
func (o *Options) servesWebhook() bool { return o.WebhookPort != 0 || o.WebhookListener != nil }

// hasWebhookListener reports whether workload admission has a port of its own, in addition to the port of the API.
func (o *Options) hasWebhookListener() bool {
	return o.WebhookListener != nil || o.WebhookPort != 0 && o.WebhookPort != o.Recommended.SecureServing.BindPort
}

// optionRule is a rule about options, and the error message if the rule is broken.
type optionRule struct {
	broken  bool
	message string
}

// hasInProcessProgram reports whether another program runs in this process.
func (o *Options) hasInProcessProgram() bool { return o.InProcess != nil && o.InProcess.Enabled() }

// Validate checks the options before the server starts.
func (o *Options) Validate() error {
	errs := append(o.Run.Validate(), o.validateGeneric()...)
	limit := o.Rules.PartitionPercentLimit
	for _, r := range append(o.tlsRules(),
		optionRule{o.WebhookPort < 0 || o.WebhookPort > 65535, fmt.Sprintf("--"+webhookPortFlag+" %d must be between 0 and 65535", o.WebhookPort)},
		optionRule{limit < 1 || limit > 100, fmt.Sprintf("--partition-percent-limit %d must be between 1 and 100", limit)},
		optionRule{
			o.LegacyApprovals != LegacyCheck && o.LegacyApprovals != LegacyAllow,
			fmt.Sprintf("--legacy-approvals %q must be %s or %s", o.LegacyApprovals, LegacyCheck, LegacyAllow),
		},
		optionRule{o.Views.MaxOpenTrees < 0, fmt.Sprintf("--max-open-trees %d must not be negative", o.Views.MaxOpenTrees)},
		optionRule{o.NamespaceLimit.Sign() < 0, fmt.Sprintf("--namespace-data-limit %s must not be negative", o.NamespaceLimit.String())},
		optionRule{o.ObjectsLimit.Sign() < 0, fmt.Sprintf("--objects-data-limit %s must not be negative", o.ObjectsLimit.String())},
		optionRule{o.ExternalLimit.Sign() < 0, fmt.Sprintf("--etcd-data-limit %s must not be negative", o.ExternalLimit.String())},
		optionRule{o.ControllerUser == "", "--controller-user must not be empty"},
		optionRule{o.hasInProcessProgram() && o.Standalone.Enabled, "--controllers needs a cluster, which --standalone does without"},
	) {
		if r.broken {
			errs = append(errs, errors.New(r.message))
		}
	}
	if o.hasInProcessProgram() {
		errs = append(errs, o.InProcess.Validate())
	}
	return errors.Join(errs...)
}

// validateGeneric checks the options of the generic API server, and of the storage.
func (o *Options) validateGeneric() []error {
	if o.usesExternalEtcd() {
		return o.Recommended.Validate()
	}
	recommended := *o.Recommended
	recommended.Etcd = nil // its validation requires --etcd-servers
	errs := recommended.Validate()
	if o.Standalone.Enabled && o.Store.DataDir == "" {
		return errs // openStandalone creates a temporary directory
	}
	return append(errs, o.Store.Validate()...)
}
