// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor answers one question: what is wrong with this installation, and
// what mends it?
//
// It is pure: Facts in, Results out. Each check is a row of Checks. What is
// expected comes from the manifests that the program carries, so that no check
// has a list of its own. How the facts are observed is pkg/doctor/observe's.
package doctor
