// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// canaryKeys is a dialect that makes an Ingress a canary by the annotations of
// ingress-nginx, which other controllers have taken over.
type canaryKeys struct {
	name   string
	prefix string
	// query is the prefix of the keys that match a query parameter; empty if none can.
	query string
	// control is the prefix of the keys that rewrite headers; empty if none does.
	control string
	// always are set on every canary.
	always map[string]string
}

var (
	nginx = canaryKeys{name: "nginx", prefix: nginxPrefix}
	// An ALB evaluates its Ingresses in an order; a canary comes before the others.
	aliyunALB = canaryKeys{name: "aliyun-alb", prefix: albPrefix, always: map[string]string{albPrefix + "order": "1"}}
	mse       = canaryKeys{name: "mse", prefix: nginxPrefix, query: msePrefix, control: msePrefix}
	higress   = canaryKeys{name: "higress", prefix: nginxPrefix, control: "higress.io/"}
)

// The annotations that make an Ingress a canary, after a prefix.
const (
	nginxPrefix = "nginx.ingress.kubernetes.io/"
	albPrefix   = "alb.ingress.kubernetes.io/"
	msePrefix   = "mse.ingress.kubernetes.io/"

	keyCanary  = "canary"
	keyWeight  = "canary-weight"
	keyHeader  = "canary-by-header"
	keyQuery   = "canary-by-query"
	keyCookie  = "canary-by-cookie"
	keyControl = "request-header-control-"

	suffixValue   = "-value"
	suffixPattern = "-pattern"

	// keySubset names pods of the Service; the canary has the others.
	keySubset    = msePrefix + "service-subset"
	subsetOfGray = "gray"

	// matchCookie as the name of a header means a cookie.
	matchCookie = "canary-by-cookie"
)

// render adds a route to annotations. It can match one header, one cookie and, where
// there are keys for it, one query parameter, each of which is enough.
func (d canaryKeys) render(annotations map[string]string, p Params) (map[string]string, error) {
	for _, k := range []string{keyCanary, keyWeight, keyHeader, keyHeader + suffixValue, keyHeader + suffixPattern, keyCookie} {
		delete(annotations, d.prefix+k)
	}
	for _, k := range []string{keyQuery, keyQuery + suffixValue, keyQuery + suffixPattern} {
		delete(annotations, d.query+k)
	}
	annotations[d.prefix+keyCanary] = "true"
	if p.Weight != nil {
		annotations[d.prefix+keyWeight] = itoa(*p.Weight)
	}
	maps.Copy(annotations, d.always)
	if _, ok := annotations[keySubset]; ok && d.query != "" {
		annotations[keySubset] = subsetOfGray
	}
	for i, m := range p.Matches {
		if err := d.writeMatch(annotations, m); err != nil {
			return nil, fmt.Errorf("matches[%d]%w", i, err)
		}
	}
	return annotations, d.rewrite(annotations, p.Headers)
}

// writeMatch writes one match. Its errors begin with the path within the match.
func (d canaryKeys) writeMatch(keys map[string]string, m rollouts.RouteMatch) error {
	headers, queries := len(m.Headers), len(m.QueryParams)
	for _, unable := range []struct {
		is   bool
		says string
	}{
		{m.Path != nil, ".path: %s matches no path"},
		{queries > 0 && d.query == "", ".queryParams: %s matches headers only"},
		{queries > 0 && headers > 0, ": %s cannot match a header and a query parameter at once"},
		{queries > 1, ".queryParams: %s cannot match several query parameters at once"},
		{queries == 0 && headers == 0, ".headers: %s needs a header to match"},
		{headers > 1, ".headers: %s cannot match several headers at once"},
	} {
		if unable.is {
			return fmt.Errorf(unable.says, d.name)
		}
	}
	if queries > 0 {
		return d.writeValue(keys, d.query+keyQuery, ".queryParams[0]", m.QueryParams[0])
	}
	return d.writeHeader(keys, m.Headers[0])
}

func (d canaryKeys) writeHeader(keys map[string]string, h rollouts.ValueMatch) error {
	cookie := keys[d.prefix+keyCookie]
	switch kind := ptr.Deref(h.Type, matchExact); {
	case h.Name != matchCookie && cookie != "":
		return fmt.Errorf(".headers[0]: %s looks at headers first; put the match of %s last", d.name, matchCookie)
	case h.Name != matchCookie:
		return d.writeValue(keys, d.prefix+keyHeader, ".headers[0]", h)
	case kind != matchExact:
		return fmt.Errorf(".headers[0].type: %s matches cookies by their name only, not as %s", d.name, kind)
	case cookie != "":
		return fmt.Errorf(".headers[0]: %s matches one cookie at most", d.name)
	}
	keys[d.prefix+keyCookie] = h.Value
	return nil
}

func (d canaryKeys) writeValue(keys map[string]string, key, path string, v rollouts.ValueMatch) error {
	kind := ptr.Deref(v.Type, matchExact)
	suffix, ok := map[string]string{matchExact: suffixValue, matchPattern: suffixPattern}[kind]
	switch {
	case !ok:
		return fmt.Errorf("%s.type: %q must be %s or %s", path, kind, matchExact, matchPattern)
	case keys[key] != "":
		return fmt.Errorf("%s: %s has room for one such match", path, d.name)
	}
	keys[key], keys[key+suffix] = v.Name, v.Value
	return nil
}

// rewrite writes the headers to set and to add, one a line with its name before its
// value, and the names of headers to remove, separated by commas.
func (d canaryKeys) rewrite(keys map[string]string, h *rollouts.HeaderModifier) error {
	if h == nil {
		return nil
	}
	if d.control == "" {
		return fmt.Errorf("requestHeaderModifier: %s rewrites no headers", d.name)
	}
	for key, headers := range map[string][]rollouts.Header{"update": h.Set, "add": h.Add} {
		var lines []string
		for _, header := range headers {
			if strings.ContainsAny(header.Name+header.Value, "\r\n") {
				return errors.New("requestHeaderModifier: a header has one line")
			}
			lines = append(lines, header.Name+" "+header.Value)
		}
		if len(lines) > 0 {
			keys[d.control+keyControl+key] = strings.Join(lines, "\n")
		}
	}
	if len(h.Remove) > 0 {
		keys[d.control+keyControl+"remove"] = strings.Join(h.Remove, ",")
	}
	return nil
}
