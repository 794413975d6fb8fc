// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// writeNginx spells a route as annotations. One header and one cookie can be
// matched, either of which is enough.
func writeNginx(want planner.Route) (map[string]string, error) {
	keys := map[string]string{nginxCanary: "true"}
	if want.Weight != nil {
		keys[nginxWeight] = strconv.Itoa(int(*want.Weight))
	}
	for i, m := range want.Matches {
		if err := writeMatch(keys, m); err != nil {
			return nil, fmt.Errorf("matches[%d]%w", i, err)
		}
	}
	return keys, nil
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

// readNginx is the reverse. A type that was left out is read as what it means.
func readNginx(annotations map[string]string) planner.Route {
	var r planner.Route
	if weight, err := strconv.ParseInt(annotations[nginxWeight], 10, 32); err == nil {
		w := int32(weight)
		r.Weight = &w
	}
	if name := annotations[nginxHeader]; name != "" {
		kind, value := matchExact, annotations[nginxValue]
		if pattern, ok := annotations[nginxPattern]; ok {
			kind, value = matchPattern, pattern
		}
		r.Matches = append(r.Matches, header(kind, name, value))
	}
	if cookie := annotations[nginxCookie]; cookie != "" {
		r.Matches = append(r.Matches, header(matchExact, matchCookie, cookie))
	}
	return r
}

func header(kind, name, value string) rollouts.RouteMatch {
	return rollouts.RouteMatch{Headers: []rollouts.ValueMatch{{Type: &kind, Name: name, Value: value}}}
}
