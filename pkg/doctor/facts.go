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

// Facts are the observed state of a cluster and of Weir in it.
type Facts struct {
	// Unread are the parts that could not be observed, with the reason. The fields of such a part are
	// meaningless.
	Unread map[Part]error
	// Wanted are the objects of the installation.
	Wanted Installation

	// Version and Now are the version and the time of the cluster.
	Version string
	Now     time.Time
	// FrontProxy is the ConfigMap in which kube-apiserver publishes how it authenticates to aggregated API
	// servers; nil if there is none.
	FrontProxy map[string]string
	// APIServices are the APIServices of Weir's groups, by name.
	APIServices map[string]APIService
	// Claims are the PersistentVolumeClaims in Weir's namespace that have no volume. StorageClasses are the names of all
	// StorageClasses, and HasDefaultClass reports whether one of them is the default.
	Claims          []Claim
	StorageClasses  []string
	HasDefaultClass bool
	// Access are the permissions of the service accounts.
	Access []Access
	// Webhooks are the existing webhook configurations of the installation, by name.
	Webhooks map[string]admissionv1.MutatingWebhookConfiguration
	// Server are the network settings of weir-apiserver.
	Server ServerPod
	// WebhookError is the error of kube-apiserver when it called the webhook; empty if it called the webhook
	// successfully, or if no workload could be used to try it.
	WebhookError string
	// Served are the observed serving certificates, by the object whose caBundle verifies them.
	Served map[string]Served
	// PoliciesServed reports whether the cluster serves MutatingAdmissionPolicies.
	PoliciesServed bool
	// Policies are the existing policies and bindings of the installation, by kind and name.
	Policies map[string]*unstructured.Unstructured
	// Lease is the leader election lease of the controllers; nil if there is none.
	Lease *coordinationv1.Lease
	// Definitions are the names of CustomResourceDefinitions of Weir's groups.
	Definitions []string
	// Others are the Deployments and webhook configurations of an installed OpenKruise Rollouts.
	Others []string
	// ReadError is the error of a read of Rollouts; nil if the read succeeded.
	ReadError error
	// Lost is the number of objects of Weir in each namespace that does not exist.
	Lost map[string]int
	// Unheld is the number of Rollouts in each namespace where Weir holds no workloads
	// (rollouts.Unheld).
	Unheld map[string]int
	// LostRollouts maps each held workload whose Rollout does not exist to that Rollout, both
	// as "Kind namespace/name".
	LostRollouts map[string]string
	// Members are the members of the etcd; none if the etcd was not observed.
	Members []Member
}

// Part is a part of the facts that is observed in one step.
type Part string

// The parts.
const (
	PartCluster      Part = "the version of the cluster"
	PartFrontProxy   Part = "the ConfigMap extension-apiserver-authentication of kube-system"
	PartVolumes      Part = "PersistentVolumeClaims and StorageClasses"
	PartAPIServices  Part = "APIServices"
	PartAccess       Part = "what the service accounts may do"
	PartWebhooks     Part = "MutatingWebhookConfigurations"
	PartServer       Part = "the Deployment weir-apiserver"
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

// APIService contains the relevant fields of an APIService.
type APIService struct {
	// Service is the namespace/name of the Service; empty if kube-apiserver serves the version itself.
	Service string
	Port    int32
	// Automanaged reports whether kube-apiserver manages the object for a CRD.
	Automanaged bool
	// SkipsVerification reports whether kube-apiserver does not verify the certificate.
	SkipsVerification bool
	CABundle          []byte
	Available         bool
	// Reason and Message explain why the APIService is not available.
	Reason, Message string
}

// Claim is a PersistentVolumeClaim that has no volume.
type Claim struct {
	Name string
	// Class is the name of the StorageClass; empty for the default one.
	Class string
}

// Access reports whether a service account has a permission.
type Access struct {
	Grant   string
	Account string
	// Action is the verb and the resource, as text.
	Action  string
	Allowed bool
}

// Served is the serving certificate of an endpoint.
type Served struct {
	// Host is the host name for which the certificate must be valid.
	Host  string
	Chain []*x509.Certificate
	// Err is the error if no certificate could be read.
	Err error
}

// Member is a member of an etcd.
type Member struct {
	Address            string
	Err                error
	Size, InUse, Limit int64
	Alarms             []string
}
