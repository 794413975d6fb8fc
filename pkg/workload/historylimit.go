// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// minHistory keeps the native controller from deleting the stable revision the moment it
// has no pods.
const minHistory int32 = 10

// raiseLimit saves a limit that is too low, and raises it.
func raiseLimit(v *driving, limit **int32) {
	if *limit != nil && **limit < minHistory {
		v.RevisionHistoryLimit, *limit = *limit, new(minHistory)
	}
}

// keepLimit saves what the owner writes meanwhile, and keeps what it was.
func keepLimit(was, is metav1.Object, limit **int32, had *int32) {
	v, driven := readDriving(was)
	if driven && v.RevisionHistoryLimit != nil && *limit != nil && **limit < minHistory {
		v.RevisionHistoryLimit, *limit = *limit, had
		writeDriving(is, v)
	}
}

// restoreLimit gives the owner's back.
func restoreLimit(v driving, limit **int32) {
	if v.RevisionHistoryLimit != nil && *limit != nil && **limit == minHistory {
		*limit = v.RevisionHistoryLimit
	}
}
