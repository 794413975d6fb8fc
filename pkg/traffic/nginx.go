// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The annotations that make an Ingress a canary.
const (
	nginxPrefix  = "nginx.ingress.kubernetes.io/"
	nginxCanary  = nginxPrefix + "canary"
	nginxWeight  = nginxPrefix + "canary-weight"
	nginxHeader  = nginxPrefix + "canary-by-header"
	nginxValue   = nginxPrefix + "canary-by-header-value"
	nginxPattern = nginxPrefix + "canary-by-header-pattern"
	nginxCookie  = nginxPrefix + "canary-by-cookie"

	// matchCookie as the name of a header match means a cookie.
	matchCookie = "canary-by-cookie"

	matchExact   = "Exact"
	matchPattern = "RegularExpression"
)

// nginx spells a route as annotations. One header and one cookie can be
// matched, either of which is enough.
func nginx(annotations map[string]string, p Params) (map[string]string, error) {
	for _, k := range []string{nginxCanary, nginxWeight, nginxHeader, nginxValue, nginxPattern, nginxCookie} {
		delete(annotations, k)
	}
	annotations[nginxCanary] = "true"
	if p.Weight != nil {
		annotations[nginxWeight] = itoa(*p.Weight)
	}
	for i, m := range p.Matches {
		if err := writeMatch(annotations, m); err != nil {
			return nil, fmt.Errorf("matches[%d]%w", i, err)
		}
	}
	return annotations, nil
}

// writeMatch names what it cannot spell by its path within the match.
func writeMatch(keys map[string]string, m rollouts.RouteMatch) error {
	switch {
	case m.Path != nil:
		return errors.New(".path: nginx matches headers only")
	case len(m.QueryParams) > 0:
		return errors.New(".queryParams: nginx matches headers only")
	case len(m.Headers) == 0:
		return errors.New(".headers: nginx needs a header to match")
	case len(m.Headers) > 1:
		return errors.New(".headers: nginx cannot match several headers at once")
	}
	h := m.Headers[0]
	kind := matchExact
	if h.Type != nil {
		kind = *h.Type
	}
	if h.Name == matchCookie {
		return writeCookie(keys, kind, h.Value)
	}
	return writeHeader(keys, kind, h)
}

// errSecond is for matches that the dialect has one place for.
var errSecond = errors.New(".headers[0]: nginx matches one header and one cookie at most")

func writeCookie(keys map[string]string, kind, value string) error {
	switch {
	case kind != matchExact:
		return fmt.Errorf(".headers[0].type: nginx matches cookies by their name only, not as %s", kind)
	case keys[nginxCookie] != "":
		return errSecond
	}
	keys[nginxCookie] = value
	return nil
}

func writeHeader(keys map[string]string, kind string, h rollouts.ValueMatch) error {
	value, ok := map[string]string{matchExact: nginxValue, matchPattern: nginxPattern}[kind]
	switch {
	case !ok:
		return fmt.Errorf(".headers[0].type: %q must be %s or %s", kind, matchExact, matchPattern)
	case keys[nginxHeader] != "":
		return errSecond
	case keys[nginxCookie] != "":
		return fmt.Errorf(".headers[0]: nginx looks at headers first; put the match of %s last", matchCookie)
	}
	keys[nginxHeader], keys[value] = h.Name, h.Value
	return nil
}
