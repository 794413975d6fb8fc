// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicyFile is the audit policy. auditLog gets each request of Weir's processes, and the
// SubjectAccessReviews of weir-apiserver.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditLog        = "audit.log"
	accounts        = "system:serviceaccount:" + weirNamespace + ":"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
# A watch that is in progress when kube-apiserver is killed has no other stage.
omitStages: [RequestReceived]
rules:
- level: Request
  users: ["` + accounts + WeirAPIServer + `", "` + accounts + WeirController + `"]
  resources: [{group: authorization.k8s.io, resources: [subjectaccessreviews]}]
- level: Metadata
  users: ["` + accounts + WeirAPIServer + `", "` + accounts + WeirController + `"]
- level: None
`

// auditArgs enable the audit log of kube-apiserver, and the admission plugin
// OwnerReferencesPermissionEnforcement, which not all clusters have: it refuses owner references
// that block the deletion of an owner without the permission to do so. The plugin discovers a new
// API within half a minute, and until then refuses to block its objects.
func (c *Cluster) auditArgs() []string {
	if !c.opts.Audit {
		return nil
	}
	return []string{
		"--audit-policy-file=" + c.path(auditPolicyFile), "--audit-log-path=" + c.path(auditLog),
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	}
}

func (c *Cluster) writeAuditPolicy() error {
	if err := os.WriteFile(c.path(auditPolicyFile), []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

// Permission is the permission for a request. In a grant, an empty Namespace or Name means all of
// them.
type Permission struct {
	// Account is the name of a service account of Weir.
	Account string
	Verb    string
	Group   string
	// Resource has the subresource after a slash.
	Resource        string
	Namespace, Name string
}

// Covers reports whether the grant p allows the request q.
func (p Permission) Covers(q Permission) bool {
	return p.Account == q.Account && p.Verb == q.Verb && p.Group == q.Group && p.Resource == q.Resource &&
		(p.Namespace == "" || p.Namespace == q.Namespace) && (p.Name == "" || p.Name == q.Name)
}

func (p Permission) String() string {
	s := p.Account + ": " + p.Verb + " " + p.Resource
	if p.Group != "" {
		s += "." + p.Group
	}
	if p.Name != "" {
		s += " " + p.Name
	}
	if p.Namespace != "" {
		s += " in " + p.Namespace
	}
	return s
}

// Audit contains the requests of Weir's processes to kube-apiserver, and the permissions that they
// needed when others asked for them.
type Audit struct {
	Granted, Denied map[Permission]bool
	// Bindings are the kinds and names of the bindings that granted a request.
	Bindings map[string]bool
}

// Audit reads the audit log up to now.
func (c *Cluster) Audit() (*Audit, error) {
	files, err := filepath.Glob(c.path("audit*.log")) // the log is rotated
	if err != nil {
		return nil, err
	}
	a := &Audit{Granted: map[Permission]bool{}, Denied: map[Permission]bool{}, Bindings: map[string]bool{}}
	for _, name := range files {
		if err := a.read(name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return a, nil
}

func (a *Audit) read(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // an incomplete line of a killed kube-apiserver
		}
		if err := a.add(&e); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Annotations of the authorizer in an audit event.
const (
	auditDecision = "authorization.k8s.io/decision"
	auditReason   = "authorization.k8s.io/reason"
)

var allowedBy = regexp.MustCompile(`allowed by (\w+) "([^"/]+)`)

func (a *Audit) add(e *auditv1.Event) error {
	o := e.ObjectRef
	// Ignore users that impersonate an account, and non-resource paths, which need no role of Weir.
	if o == nil || e.ImpersonatedUser != nil {
		return nil
	}
	p := permission(e.User.Username, e.Verb, o.APIGroup, o.Resource, o.Subresource)
	p.Namespace, p.Name = o.Namespace, o.Name
	if e.Annotations[auditDecision] != "allow" {
		a.Denied[p] = true
		return nil
	}
	a.Granted[p] = true
	if by := allowedBy.FindStringSubmatch(e.Annotations[auditReason]); by != nil {
		a.Bindings[by[1]+" "+by[2]] = true
	}
	if o.Resource != "subjectaccessreviews" || e.RequestObject == nil {
		return nil
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(e.RequestObject.Raw, &review); err != nil {
		return fmt.Errorf("reading a SubjectAccessReview: %w", err)
	}
	if r := review.Spec.ResourceAttributes; r != nil && strings.HasPrefix(review.Spec.User, accounts) {
		p := permission(review.Spec.User, r.Verb, r.Group, r.Resource, r.Subresource)
		p.Namespace, p.Name = r.Namespace, r.Name
		a.Granted[p] = true
	}
	return nil
}

func permission(user, verb, group, resource, subresource string) Permission {
	if subresource != "" {
		resource += "/" + subresource
	}
	return Permission{Account: strings.TrimPrefix(user, accounts), Verb: verb, Group: group, Resource: resource}
}
