// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/object"
)

// DecodeError is a workload that has something else in a field than its kind's view
// in Go, which only the definition of a kind that we do not know can allow.
type DecodeError struct {
	// Why is for people.
	Why string
}

func (m *DecodeError) Error() string { return m.Why }

// decodeError names the field for which the object could not be read, which err does not.
func decodeError(u *unstructured.Unstructured, view object.Object, err error) error {
	data, unreadable := u.MarshalJSON()
	if unreadable != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(data, view), &wrong) {
		return err
	}
	return &DecodeError{Why: fmt.Sprintf("the %s has a value of type %s in %s, and is released only with one of type %s there; write that",
		u.GetKind(), wrong.Value, wrong.Field, wrong.Type)}
}
