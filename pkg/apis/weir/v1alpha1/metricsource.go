// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// DefaultSource is the MetricSource of checks that name none.
	DefaultSource = "default"
	// SecretNamespace is where the Secrets of sources are.
	SecretNamespace = "weir-sources"
)

// The keys of a Secret of a source. A user name, a token and a client exclude each other.
const (
	SecretUsername     = "username"
	SecretPassword     = "password"
	SecretToken        = "token"
	SecretClientID     = "clientID"
	SecretClientSecret = "clientSecret"
	SecretTokenURL     = "tokenURL"
	SecretCA           = "ca"
	SecretCertificate  = "cert"
	SecretKey          = "key"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MetricSource says where the metrics of checks are, and who may use it. Checks that
// name none use the one with the name default. Administrators write it.
type MetricSource struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says where the metrics are.
	Spec MetricSourceSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MetricSourceList is a list of MetricSources.
type MetricSourceList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the MetricSources.
	Items []MetricSource `json:"items"`
}

// MetricSourceSpec says where metrics are, and who may use the source.
type MetricSourceSpec struct {
	// Prometheus is a server that speaks the API of Prometheus.
	// +optional
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// Namespaces selects by labels the namespaces whose checks may use the source.
	// Default: all.
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
	// LagSeconds is how old metrics must be before they are judged. Default: 15.
	// +optional
	LagSeconds *int32 `json:"lagSeconds,omitempty"`
	// Labels is the form of a metric's labels that its target also has: Plain, such as
	// service, Exported, such as exported_service, or Auto, which tries both. Default: Auto.
	// +optional
	Labels LabelSpelling `json:"labels,omitempty"`
	// Newborn is how a new time series is counted. Zero counts from 0. Known counts from 0
	// only if its target was up before. Skip does not count it. Default: Known.
	// +optional
	Newborn Newborn `json:"newborn,omitempty"`
	// RawQueries allows PromQL in Rollouts and Checks. If false, only a ClusterCheck may
	// use PromQL. Default: false.
	// +optional
	RawQueries *bool `json:"rawQueries,omitempty"`
	// QueriesPerSecond is the maximum number of queries per second. Default: 20.
	// +optional
	QueriesPerSecond *int32 `json:"queriesPerSecond,omitempty"`
}

// Prometheus is a server that speaks the API of Prometheus.
type Prometheus struct {
	// URL of the server, such as https://prometheus.monitoring.svc:9090.
	URL string `json:"url"`
	// Auth has the credentials.
	// +optional
	Auth *SourceAuth `json:"auth,omitempty"`
	// Headers are sent with each query. $namespace in a value is the namespace of the Rollout.
	// Everybody with the role view can read them, so put secrets into auth.
	// +optional
	Headers map[string]string `json:"headers,omitempty"`
	// ServerName that the certificate of the server must have. Default: the host of the URL.
	// +optional
	ServerName string `json:"serverName,omitempty"`
}

// SourceAuth has the credentials for a source.
type SourceAuth struct {
	// Secret in the namespace weir-sources. Its keys are username and password; or token; or
	// clientID, clientSecret and tokenURL, for OAuth2. Besides, all in PEM: ca, which signs
	// the certificate of the server; cert and key, for mutual TLS.
	Secret string `json:"secret"`
}

// LabelSpelling is how labels are spelled.
type LabelSpelling string

// How labels are spelled.
const (
	LabelsAuto     LabelSpelling = "Auto"
	LabelsPlain    LabelSpelling = "Plain"
	LabelsExported LabelSpelling = "Exported"
)

// Newborn is how a new time series is counted.
type Newborn string

// The ways to count a new time series.
const (
	NewbornKnown Newborn = "Known"
	NewbornZero  Newborn = "Zero"
	NewbornSkip  Newborn = "Skip"
)

// Lag is how old metrics must be before they are judged.
func (s *MetricSourceSpec) Lag() time.Duration {
	return time.Duration(ptr.Deref(s.LagSeconds, 15)) * time.Second
}

// Spelling is how labels are spelled.
func (s *MetricSourceSpec) Spelling() LabelSpelling {
	if s.Labels == "" {
		return LabelsAuto
	}
	return s.Labels
}

// CountsNewborn returns how a new time series is counted.
func (s *MetricSourceSpec) CountsNewborn() Newborn {
	if s.Newborn == "" {
		return NewbornKnown
	}
	return s.Newborn
}

// AllowsRawQueries reports whether Rollouts and Checks may have PromQL.
func (s *MetricSourceSpec) AllowsRawQueries() bool { return ptr.Deref(s.RawQueries, false) }

// Rate is how often the source is asked at most, in a second.
func (s *MetricSourceSpec) Rate() float64 { return float64(ptr.Deref(s.QueriesPerSecond, 20)) }
