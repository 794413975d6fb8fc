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

// nginxDialect marks an Ingress as a canary with the annotations of ingress-nginx, which other
// ingress controllers have adopted.
type nginxDialect struct {
	name   string
	prefix string
	// queryPrefix is the prefix of annotations that match a query parameter; empty if there are
	// none.
	queryPrefix string
	// headerControlPrefix is the prefix of annotations that change headers; empty if there are
	// none.
	headerControlPrefix string
	// fixedAnnotations are set on every canary Ingress.
	fixedAnnotations map[string]string
}

var (
	nginx = nginxDialect{name: "nginx", prefix: nginxPrefix}
	// An ALB evaluates its Ingresses by their order annotation; the canary must come first.
	aliyunALB = nginxDialect{name: "aliyun-alb", prefix: albPrefix, fixedAnnotations: map[string]string{albPrefix + "order": "1"}}
	mse       = nginxDialect{name: "mse", prefix: nginxPrefix, queryPrefix: msePrefix, headerControlPrefix: msePrefix}
	higress   = nginxDialect{name: "higress", prefix: nginxPrefix, headerControlPrefix: "higress.io/"}
)

// The annotations of a canary Ingress, without the prefix of the ingress controller.
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

	// keySubset selects a group of the Service's pods. The canary Ingress selects the group "gray".
	keySubset    = msePrefix + "service-subset"
	subsetOfGray = "gray"

	// matchCookie as the name of a header in a step matches a cookie instead.
	matchCookie = "canary-by-cookie"
)

// render adds a route to annotations. ingress-nginx supports matches of one header, one cookie and,
// in some dialects, one query parameter. A request that satisfies any of them goes to the canary.
func (d nginxDialect) render(annotations map[string]string, p Params) (map[string]string, error) {
	for _, k := range []string{keyCanary, keyWeight, keyHeader, keyHeader + suffixValue, keyHeader + suffixPattern, keyCookie} {
		delete(annotations, d.prefix+k)
	}
	for _, k := range []string{keyQuery, keyQuery + suffixValue, keyQuery + suffixPattern} {
		delete(annotations, d.queryPrefix+k)
	}
	annotations[d.prefix+keyCanary] = "true"
	if p.Weight != nil {
		annotations[d.prefix+keyWeight] = itoa(*p.Weight)
	}
	maps.Copy(annotations, d.fixedAnnotations)
	if _, ok := annotations[keySubset]; ok && d.queryPrefix != "" {
		annotations[keySubset] = subsetOfGray
	}
	for i, m := range p.Matches {
		if err := d.writeMatch(annotations, m); err != nil {
			return nil, fmt.Errorf("matches[%d]%w", i, err)
		}
	}
	return annotations, d.writeHeaderModifier(annotations, p.Headers)
}

// writeMatch writes one match. Its errors begin with the field path within the match.
func (d nginxDialect) writeMatch(keys map[string]string, m rollouts.RouteMatch) error {
	headers, queries := len(m.Headers), len(m.QueryParams)
	for _, unable := range []struct {
		is   bool
		says string
	}{
		{m.Path != nil, ".path: %s matches no path"},
		{queries > 0 && d.queryPrefix == "", ".queryParams: %s matches headers only"},
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
		return d.writeValue(keys, d.queryPrefix+keyQuery, ".queryParams[0]", m.QueryParams[0])
	}
	return d.writeHeader(keys, m.Headers[0])
}

func (d nginxDialect) writeHeader(keys map[string]string, h rollouts.ValueMatch) error {
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

func (d nginxDialect) writeValue(keys map[string]string, key, path string, v rollouts.ValueMatch) error {
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

// writeHeaderModifier writes the headers to set and to add as lines with a name and a value, and
// the names of headers to remove as a comma-separated list.
func (d nginxDialect) writeHeaderModifier(keys map[string]string, h *rollouts.HeaderModifier) error {
	if h == nil {
		return nil
	}
	if d.headerControlPrefix == "" {
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
			keys[d.headerControlPrefix+keyControl+key] = strings.Join(lines, "\n")
		}
	}
	if len(h.Remove) > 0 {
		keys[d.headerControlPrefix+keyControl+"remove"] = strings.Join(h.Remove, ",")
	}
	return nil
}
