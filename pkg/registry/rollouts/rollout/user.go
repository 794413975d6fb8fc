// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

type userAgentKey struct{}

// WithUserAgent stores the user agent of the client in the context of a request.
func WithUserAgent(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userAgentKey{}, rollouts.Clean(name, rollouts.MaxUserAgent))
}

func userAgent(ctx context.Context) string {
	s, _ := ctx.Value(userAgentKey{}).(string)
	return s
}

func userName(ctx context.Context) string {
	if who, ok := genericapirequest.UserFrom(ctx); ok {
		return who.GetName()
	}
	return ""
}
