// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster answers: how does Weir behave in a real control plane?
//
// It runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
// processes on loopback, with kwok in the place of kubelets, and, if asked to,
// weir-apiserver and weir-controller registered as an installation registers
// them. Nothing is a stand-in but the nodes: Deployments roll because the
// native controller rolls them.
//
// envtest is not used, because it has no controller manager, no scheduler and
// no front-proxy certificates, so neither rolling updates nor aggregation would
// happen. Kill, Signal and Start of single processes are there for tests of
// what happens when something is down.
//
// It must not know what Weir does: no test's expectation belongs here.
//
//	etcd <- kube-apiserver <- kube-controller-manager, kube-scheduler, kwok
//	              |    ^
//	              v    |
//	       weir-apiserver, weir-controller
package cluster
