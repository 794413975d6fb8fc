// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"golang.org/x/oauth2"
)

// Fault is why a source does not answer a query, and since when. Why contains no secrets, and
// nothing that an unknown server sent.
type Fault struct {
	Why   string
	Since time.Time
}

func (f *Fault) Error() string { return f.Why }

// reason is an error in Weir's own words, which may be shown to users.
type reason string

func (r reason) Error() string { return string(r) }

// recordFault returns the fault of a query, with the time since which the query has had no answer.
func (c *Client) recordFault(q RangeQuery, err error, now time.Time) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := c.failingSince[q.Namespace]
	since, ok := mine[q.PromQL]
	if !ok {
		since = now
		if len(c.failingSince) == maxAnswers { // most entries are of deleted namespaces
			clear(c.failingSince)
		}
		if mine == nil || len(mine) == maxAnswersPerNamespace { // most entries are of finished releases
			mine = map[string]time.Time{}
			c.failingSince[q.Namespace] = mine
		}
		mine[q.PromQL] = now
	}
	return &Fault{Why: Sanitize(c.redactor.Replace(faultReason(err))), Since: since}
}

func faultReason(err error) string {
	var (
		own     reason
		large   *http.MaxBytesError
		token   *oauth2.RetrieveError
		server  *promapi.Error
		network *url.Error
	)
	switch {
	case errors.As(err, &own):
		return own.Error()
	case errors.As(err, &large):
		return fmt.Sprintf("the answer is larger than %d MiB", maxBytes>>20)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", timeout)
	case errors.As(err, &token):
		return "no token: the token URL answers " + token.Response.Status
	case errors.As(err, &server) && server.Type == promapi.ErrBadResponse:
		return "the answer is not that of a Prometheus"
	case errors.As(err, &server):
		return "the source refuses: " + server.Msg
	case errors.As(err, &network):
		return "cannot reach the source: " + network.Err.Error()
	}
	return "the answer is not that of a Prometheus"
}

const maxReasonLength = 200

// Sanitize removes unprintable characters from a text and limits its length.
func Sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > maxReasonLength {
		return string(runes[:maxReasonLength]) + "…"
	}
	return text
}

func (c Config) redactor() *strings.Replacer {
	secrets := []string{c.Password, c.Token, c.Key}
	if c.OAuth2 != nil {
		secrets = append(secrets, c.OAuth2.Secret)
	}
	for _, value := range c.Headers {
		secrets = append(secrets, value)
	}
	var pairs []string
	for _, secret := range secrets {
		if secret != "" {
			pairs = append(pairs, secret, "…")
		}
	}
	return strings.NewReplacer(pairs...)
}
