// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/x509"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Facts are what was observed of a cluster and of the Weir in it.
type Facts struct {
	// Unread says why a part could not be observed. What a part consists of says
	// nothing then.
	Unread map[Part]error
	// Wanted is what the installation consists of.
	Wanted Installation

	// Version and Now are those of the cluster.
	Version string
	Now     time.Time
	// FrontProxy is the ConfigMap in which kube-apiserver says how it shows
	// itself to API servers behind it; nil if there is none.
	FrontProxy map[string]string
	// APIServices are those of our groups, by name.
	APIServices map[string]APIService
	// Access is what the service accounts were asked for.
	Access []Access
	// Webhooks are the configurations of the installation that exist, by name.
	Webhooks map[string]admissionv1.MutatingWebhookConfiguration
	// Served are the certificates that were seen, by place.
	Served map[string]Served
	// PoliciesServed reports whether the cluster knows the policies of Policies.
	PoliciesServed bool
	// Policies are the policies of the installation, and their bindings, that
	// exist, by kind and name.
	Policies map[string]*unstructured.Unstructured
	// Lease is the one that the leading controller holds; nil if there is none.
	Lease *coordinationv1.Lease
	// Definitions are the names of CustomResourceDefinitions of our group.
	Definitions []string
	// Others are Deployments, as namespace/name, and webhook configurations of
	// the OpenKruise Rollouts that is still installed.
	Others []string
	// ReadError is what a read of Rollouts was answered with; nil if it worked.
	ReadError error
	// Lost is how many objects of Weir are in each namespace that does not exist.
	Lost map[string]int
	// Unheld is the number of Rollouts in each namespace where Weir holds no workloads
	// (rollouts.Unheld).
	Unheld map[string]int
	// LostRollouts maps each held workload whose Rollout does not exist to that Rollout, both
	// as "Kind namespace/name".
	LostRollouts map[string]string
	// Members are those of the etcd that was looked at; none if nobody asked to.
	Members []Member
}

// Part is something that is observed at once.
type Part string

// The parts.
const (
	PartCluster      Part = "the version of the cluster"
	PartFrontProxy   Part = "the ConfigMap extension-apiserver-authentication of kube-system"
	PartAPIServices  Part = "APIServices"
	PartAccess       Part = "what the service accounts may do"
	PartWebhooks     Part = "MutatingWebhookConfigurations"
	PartCertificates Part = "served certificates"
	PartPolicies     Part = "MutatingAdmissionPolicies"
	PartLease        Part = "the lease of weir-controller"
	PartDefinitions  Part = "CustomResourceDefinitions"
	PartOthers       Part = "other installations"
	PartRead         Part = "Rollouts"
	PartLost         Part = "what is in namespaces"
	PartHeld         Part = "held workloads"
	PartEtcd         Part = "etcd"
)

// APIService is what matters of one.
type APIService struct {
	// Service is namespace/name of the Service; empty if kube-apiserver serves
	// the version itself.
	Service string
	Port    int32
	// Automanaged reports whether kube-apiserver writes the object for a CRD.
	Automanaged bool
	// SkipsVerification reports whether any certificate will do.
	SkipsVerification bool
	CABundle          []byte
	Available         bool
	// Reason and Message say why it is not available.
	Reason, Message string
}

// Access is the answer to whether a service account may do something.
type Access struct {
	Grant   string
	Account string
	// Action is the verb and the resource, in words.
	Action  string
	Allowed bool
}

// Served is what was shown on a connection.
type Served struct {
	// Host is the name that the certificate must be for.
	Host  string
	Chain []*x509.Certificate
	// Err says why nothing was seen.
	Err error
}

// Member is one of an etcd.
type Member struct {
	Address            string
	Err                error
	Size, InUse, Limit int64
	Alarms             []string
}
