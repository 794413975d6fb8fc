// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"slices"
	"strings"
)

// Keys of labels and annotations on a workload. The policies in artifacts/policies
// and the match conditions of the webhook spell these out; a test compares them.
var (
	// KeyPrefixes begin the keys in which Weir and OpenKruise's clients keep records.
	KeyPrefixes = []string{GroupName + "/", "batchrelease." + GroupName + "/"}
	// Inputs are the keys with such a prefix that are the users' own on a workload.
	Inputs = []string{LabelRolloutID}
	// Offers are labels that users may set where there is none, and not change then.
	Offers = []string{LabelWorkloadType}
)

// IsRecord reports whether a label or annotation of a workload is for Weir alone to
// write.
func IsRecord(key string) bool {
	return !slices.Contains(Inputs, key) &&
		slices.ContainsFunc(KeyPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
