// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"slices"
	"strings"
)

// Keys of labels and annotations on a workload. The policies in artifacts/policies
// and the match conditions of the webhook repeat them; a test compares them.
var (
	// keyPrefixes are the prefixes of the keys that Weir and OpenKruise's clients write.
	keyPrefixes = []string{GroupName + "/", "batchrelease." + GroupName + "/"}
	// userKeys are keys with such a prefix that users write.
	userKeys = []string{LabelRolloutID}
	// Offers are labels that users may add, but not change.
	Offers = []string{LabelWorkloadType}
)

// IsRecord reports whether only Weir may write the label or annotation of a workload.
func IsRecord(key string) bool {
	return !slices.Contains(userKeys, key) &&
		slices.ContainsFunc(keyPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
