// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs answers one question: which certificates does Weir need now, and
// who has to know of them?
//
//	Secrets -> Plan (pure) -> Secrets -> both ports of each replica,
//	                                     caBundle of APIServices and webhook
//
// Every replica does all of it. A Secret is written at the version that it was
// planned from, so of two that move at once one is refused, and looks again.
// What is served and what is published is read back from what is stored.
//
// A certificate authority is replaced in four moves, each of them stored: the
// next one is made and published beside the current one (Prepare), it is known
// to be published (Confirm), it signs (Switch), and the old one is trusted no
// more (Retire). At no time does a server show a certificate that a caller
// who has read the published bundle could not check.
//
// The package must not know what is served. It talks to kube-apiserver only, so
// that it can run before there is any storage.
package certs
