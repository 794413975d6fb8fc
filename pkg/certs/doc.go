// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs issues the certificates that Weir needs, renews them, and publishes the CA bundle to their
// clients:
//
//	Secrets -> Plan (pure) -> Secrets -> both ports of each replica,
//	                                     caBundle of APIServices and webhook
//
// Every replica runs the whole loop. Each write of a Secret has the resourceVersion from which it was
// planned. If two replicas write at once, one write fails with a conflict, and its replica reads again. The
// ports serve, and the targets receive, only data that was read back from the Secrets.
//
// A certificate authority is replaced in four moves, each of which is stored: the next CA is created and
// published together with the current one (Prepare), the publication is confirmed (Confirm), the next CA
// signs (Switch), and the old CA is removed from the bundle (Retire). At every moment, clients with the
// published bundle can verify every served certificate.
//
// The package does not depend on the API that is served. It needs only kube-apiserver, so that it can run
// before the storage is available.
package certs
