// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

var grpcRoute = gateway{join: joinGRPC, apart: apartGRPC, beats: beatsGRPC}

// joinGRPC narrows a match of a GRPCRoute, which knows methods and headers only.
func joinGRPC(own map[string]any, m rollouts.RouteMatch) (map[string]any, error) {
	switch {
	case m.Path != nil:
		return nil, errors.New(".path: a GRPCRoute matches headers only")
	case len(m.QueryParams) > 0:
		return nil, errors.New(".queryParams: a GRPCRoute matches headers only")
	case len(m.Headers) == 0:
		return nil, errors.New(".headers: a GRPCRoute needs a header to match")
	}
	joined := runtime.DeepCopyJSON(own)
	values, met, err := joinValues(objects(joined["headers"]), m.Headers, true)
	if err != nil {
		return nil, fmt.Errorf(".headers%w", err)
	}
	if !met {
		return nil, nil
	}
	joined["headers"] = listed(values)
	return joined, nil
}

func apartGRPC(a, b map[string]any) bool {
	x, y := within(a, "method"), within(b, "method")
	if x["type"] == pathPattern || y["type"] == pathPattern {
		return false
	}
	return differ(x, y, "service") || differ(x, y, "method")
}

// beatsGRPC goes by the order of the Gateway API: the longest service, the
// longest method, the most headers.
func beatsGRPC(a, b map[string]any) bool {
	rank := func(m map[string]any) []int {
		of := within(m, "method")
		return []int{len(str(of, "service", "")), len(str(of, "method", "")), len(objects(m["headers"]))}
	}
	return slices.Compare(rank(a), rank(b)) >= 0
}
