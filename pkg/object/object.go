// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package object defines the writes that pure adapters return: pairs of the observed and the desired object. It
// does not depend on how the writes are carried out.
package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Change is one write. Without Base, Want is created; without Want, Base is deleted;
// with both, Want replaces Base at Base's resourceVersion. A Base without a
// resourceVersion is deleted whatever its current state is.
type Change struct {
	Base, Want Object
}
