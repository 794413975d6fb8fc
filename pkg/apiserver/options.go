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
	// storagePrefix is where everything is stored; it never changes.
	storagePrefix = "/registry/rollouts.kruise.io"
	// defaultDataDir is where the embedded etcd keeps its data.
	defaultDataDir = "/var/lib/weir"
	// defaultController is the service account of weir-controller.
	defaultController = "system:serviceaccount:weir-system:weir-controller"
)

// Values of the option LegacyApprovals.
const (
	LegacyCheck = "check"
	LegacyAllow = "allow"
)

// Options are the settings of the server as its flags give them.
type Options struct {
	// Recommended are the options of any aggregated API server.
	Recommended *genericoptions.RecommendedOptions
	// Run are limits and the shutdown.
	Run *genericoptions.ServerRunOptions
	// Store is the embedded etcd, which runs unless --etcd-servers is given.
	Store store.Options
	// NamespaceLimit is how many bytes the objects of one namespace may use, and ObjectsLimit
	// those of all namespaces together; 0 means what objectLimits derives.
	NamespaceLimit, ObjectsLimit resource.QuantityValue
	// ExternalLimit is the size limit of an external etcd that does not report its own (before
	// 3.6); 0 if unknown.
	ExternalLimit resource.QuantityValue
	// TLS is where certificates come from.
	TLS TLSOptions
	// WebhookPort is where workload admission is served; 0 serves none.
	WebhookPort int
	// WebhookClientCA is a file with the authorities whose clients may use that port;
	// empty lets anybody.
	WebhookClientCA string
	// WebhookListener is used instead of the port when it is set.
	WebhookListener net.Listener
	// ControllerUser is the name of the user that drives releases.
	ControllerUser string
	// LegacyApprovals says whether decisions of older clients need the
	// permission of the verb: LegacyCheck or LegacyAllow.
	LegacyApprovals string
	// Rules are what an administrator decides about validation.
	Rules validation.Options
	// Views are the reads that are not stored.
	Views ViewOptions
	// Standalone is for developers of clients: the server without a cluster.
	Standalone StandaloneOptions

	// Pages are served to browsers.
	Pages bool

	// Beside runs in the same process; nil if nothing can.
	Beside Beside

	// fail ends the server.
	fail func(error)
	// embedded is the store once it runs.
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
		WebhookPort:     9443,
		ControllerUser:  defaultController,
		LegacyApprovals: LegacyCheck,
		Views:           newViewOptions(),
		Pages:           true,
		Rules:           validation.Options{PartitionPercentLimit: validation.DefaultPartitionPercentLimit},
		scheme:          scheme,
		codecs:          codecs,
	}
	o.Recommended.SecureServing.BindPort = 6443
	o.Recommended.Features.EnableProfiling = false
	o.enforceQuotas()
	// GoawayChance stays 0. It would spread the aggregator's one connection over
	// replicas, but the aggregator answers 503 to a verb that meets a GOAWAY,
	// since it cannot send the body again. Who runs replicas may set the flag.
	o.Run.ShutdownSendRetryAfter = true
	o.Run.ShutdownWatchTerminationGracePeriod = 2 * time.Second
	return o
}

// external reports whether etcd runs elsewhere.
func (o *Options) external() bool {
	return len(o.Recommended.Etcd.StorageConfig.Transport.ServerList) > 0
}

// refusal is a rule about options, and what breaks it is told.
type refusal struct {
	broken  bool
	message string
}

// besides reports whether something runs beside the server.
func (o *Options) besides() bool { return o.Beside != nil && o.Beside.Enabled() }

// Validate checks the options before anything is started.
func (o *Options) Validate() error {
	errs := append(o.Run.Validate(), o.validateGeneric()...)
	limit := o.Rules.PartitionPercentLimit
	for _, r := range append(o.tlsRefusals(),
		refusal{o.WebhookPort < 0 || o.WebhookPort > 65535, fmt.Sprintf("--webhook-port %d must be between 0 and 65535", o.WebhookPort)},
		refusal{limit < 1 || limit > 100, fmt.Sprintf("--partition-percent-limit %d must be between 1 and 100", limit)},
		refusal{
			o.LegacyApprovals != LegacyCheck && o.LegacyApprovals != LegacyAllow,
			fmt.Sprintf("--legacy-approvals %q must be %s or %s", o.LegacyApprovals, LegacyCheck, LegacyAllow),
		},
		refusal{o.Views.MaxOpenTrees < 0, fmt.Sprintf("--max-open-trees %d must not be negative", o.Views.MaxOpenTrees)},
		refusal{o.NamespaceLimit.Sign() < 0, fmt.Sprintf("--namespace-data-limit %s must not be negative", o.NamespaceLimit.String())},
		refusal{o.ObjectsLimit.Sign() < 0, fmt.Sprintf("--objects-data-limit %s must not be negative", o.ObjectsLimit.String())},
		refusal{o.ExternalLimit.Sign() < 0, fmt.Sprintf("--etcd-data-limit %s must not be negative", o.ExternalLimit.String())},
		refusal{o.ControllerUser == "", "--controller-user must not be empty"},
		refusal{o.besides() && o.Standalone.Enabled, "--controllers needs a cluster, which --standalone does without"},
	) {
		if r.broken {
			errs = append(errs, errors.New(r.message))
		}
	}
	if o.besides() {
		errs = append(errs, o.Beside.Validate())
	}
	return errors.Join(errs...)
}

// validateGeneric checks the options of every API server, and the storage.
func (o *Options) validateGeneric() []error {
	if o.external() {
		return o.Recommended.Validate()
	}
	recommended := *o.Recommended
	recommended.Etcd = nil // it would miss --etcd-servers
	errs := recommended.Validate()
	if o.Standalone.Enabled && o.Store.DataDir == "" {
		return errs // a temporary directory is made
	}
	return append(errs, o.Store.Validate()...)
}
