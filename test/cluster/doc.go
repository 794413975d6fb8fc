// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane for tests.
//
// It starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on
// loopback, kwok instead of kubelets, and optionally weir-apiserver and weir-controller, registered
// as in an installation. Only the nodes are simulated: the native controllers roll out Deployments.
//
// envtest is not used, because it has no controller manager, no scheduler and no front-proxy
// certificates, so neither rolling updates nor aggregation would work. Kill, Signal and Start act
// on single processes, for tests of failures.
//
// The package must not contain expectations of tests about Weir.
//
//	etcd <- kube-apiserver <- kube-controller-manager, kube-scheduler, kwok
//	              |    ^
//	              v    |
//	       weir-apiserver, weir-controller
package cluster
