// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import "fmt"

// SystemNamespace has the components of the cluster. A failing admission webhook there could
// prevent the cluster from starting.
const SystemNamespace = "kube-system"

// Unheld returns the reason why Weir holds no workload of a namespace; empty if Weir holds
// workloads there. The namespaceSelectors in artifacts/base and artifacts/policies exclude the
// same namespaces. The parameter own is Weir's namespace, whose workloads must start while
// Weir is down.
func Unheld(namespace, own string) string {
	if namespace == "" || namespace != SystemNamespace && namespace != own {
		return ""
	}
	return fmt.Sprintf("Weir never holds workloads in namespace %s, because they must start while Weir is down; create the Rollout in another namespace", namespace)
}
