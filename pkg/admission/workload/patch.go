// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// patch returns the JSON patch that turns the update into the admitted object. It compares two typed
// objects, so that fields which this binary does not know yet stay out of it.
func patch(raw []byte, after, admitted object.Object) ([]byte, error) {
	sent, err := workload.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the update: %w", err)
	}
	want, err := workload.Marshal(admitted)
	if err != nil {
		return nil, fmt.Errorf("encoding the admitted update: %w", err)
	}
	operations, err := jsonpatch.CreatePatch(sent, want)
	if err != nil {
		return nil, fmt.Errorf("comparing the update: %w", err)
	}
	if len(operations) == 0 {
		return nil, nil
	}
	if operations, err = applicable(operations, raw); err != nil {
		return nil, err
	}
	p, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return p, nil
}

// applicable changes a patch of a typed object so that kube-apiserver can apply it to the object that was
// sent. The typed object contains every struct, for example spec.updateStrategy of an OpenKruise
// StatefulSet, and the object that was sent may lack it.
func applicable(operations []jsonpatch.Operation, raw []byte) ([]jsonpatch.Operation, error) {
	var sent any
	if err := json.Unmarshal(raw, &sent); err != nil {
		return nil, fmt.Errorf("decoding the update: %w", err)
	}
	var result []jsonpatch.Operation
	for _, o := range operations {
		keys := strings.Split(o.Path, "/")[1:]
		last := len(keys) - 1
		at, isMap := sent.(map[string]any)
		for i := 0; isMap && i < last; i++ {
			key := unescape.Replace(keys[i])
			if at[key] == nil && o.Operation != "remove" {
				result = append(result, jsonpatch.NewOperation("add", "/"+strings.Join(keys[:i+1], "/"), map[string]any{}))
				at[key] = map[string]any{}
			}
			at, isMap = at[key].(map[string]any)
		}
		if isMap {
			key := unescape.Replace(keys[last])
			if _, found := at[key]; !found && o.Operation == "replace" {
				o.Operation = "add"
			}
		}
		result = append(result, o)
	}
	return result, nil
}

// unescape decodes a key of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")
