// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds problems of an installation of Weir, and tells the user how to fix them.
//
// It is pure: Facts in, Results out. Each check is an entry of Checks. The expected state comes from the
// manifests that are embedded in the program, so that no check needs a list of its own. pkg/doctor/observe
// observes the facts.
package doctor
