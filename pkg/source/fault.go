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

// Fault is why a source does not answer a question, and since when. Why has no secrets,
// and nothing of what an unknown server sent.
type Fault struct {
	Why   string
	Since time.Time
}

func (f *Fault) Error() string { return f.Why }

// refusal is a reason in our own words.
type refusal string

func (r refusal) Error() string { return string(r) }

// fault knows since when the question has had no answer.
func (c *Client) fault(q Question, err error, now time.Time) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := c.failing[q.Namespace]
	since, ok := mine[q.Text]
	if !ok {
		since = now
		if len(c.failing) == maxKept { // most entries are of deleted namespaces
			clear(c.failing)
		}
		if mine == nil || len(mine) == ofKept { // most entries are of finished releases
			mine = map[string]time.Time{}
			c.failing[q.Namespace] = mine
		}
		mine[q.Text] = now
	}
	return &Fault{Why: Clean(c.secrets.Replace(why(err))), Since: since}
}

func why(err error) string {
	var (
		own     refusal
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

const maxWhy = 200

// Clean has printable characters, and an end.
func Clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > maxWhy {
		return string(runes[:maxWhy]) + "…"
	}
	return text
}

func (c Config) redact() *strings.Replacer {
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
