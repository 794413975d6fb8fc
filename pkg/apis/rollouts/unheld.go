// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import "fmt"

// SystemNamespace has what a cluster consists of. Admission that failed there could keep
// the cluster from starting.
const SystemNamespace = "kube-system"

// Unheld returns why no workload of a namespace is held; empty if workloads there are
// held. The namespaceSelectors of artifacts/base and artifacts/policies exclude the same
// namespaces. own is the namespace of Weir, whose workloads must start while Weir is down.
func Unheld(namespace, own string) string {
	if namespace == "" || namespace != SystemNamespace && namespace != own {
		return ""
	}
	return fmt.Sprintf("no workload is held in the namespace %s, since it must be able to start while Weir is down; use a Rollout in another namespace", namespace)
}
