// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
)

// forwardedHeadersKey is the context key of the headers that the proxy sends to the cluster.
type forwardedHeadersKey struct{}

func withForwardedHeaders(ctx context.Context, h http.Header) context.Context {
	return context.WithValue(ctx, forwardedHeadersKey{}, h)
}

// Secret admits requests with the secret from the printed address, as the user of the cluster
// configuration. It also compares the host, because another DNS name may resolve to this address (DNS
// rebinding).
type Secret struct{ Value, Host string }

// Identify implements Identity.
func (s Secret) Identify(from *http.Request, _ http.Header) error {
	given := from.Header.Get("X-Weir-Secret")
	if from.Host != s.Host || subtle.ConstantTimeCompare([]byte(given), []byte(s.Value)) != 1 {
		return errorResponse{code: http.StatusUnauthorized, message: "open the address that the command has printed: it has a secret that this page lacks"}
	}
	return nil
}

// Bearer forwards the token that a proxy in front has set. The cluster authenticates the token.
type Bearer struct{}

// Identify implements Identity.
func (Bearer) Identify(from *http.Request, to http.Header) error {
	token := from.Header.Get("Authorization")
	if !strings.HasPrefix(token, "Bearer ") {
		return errorResponse{code: http.StatusUnauthorized, message: "no token came with the request; the proxy in front has to pass it on as Authorization: Bearer …"}
	}
	to.Set("Authorization", token)
	return nil
}

// Impersonation impersonates the user that a trusted proxy names. A prefix separates these names from other
// users, and the cluster limits the permission to requests for Rollouts.
type Impersonation struct {
	// Secret is the value of the header X-Weir-Proxy that identifies the proxy; empty if a client
	// certificate identifies the proxy.
	Secret string
	// Prefix is prepended to each name and group.
	Prefix string
	// UserHeader and GroupsHeader are the headers with the user name, and with the groups separated by
	// commas.
	UserHeader, GroupsHeader string
}

// Identify implements Identity.
func (i Impersonation) Identify(from *http.Request, to http.Header) error {
	shown := i.Secret == "" && from.TLS != nil && len(from.TLS.VerifiedChains) > 0 ||
		i.Secret != "" && subtle.ConstantTimeCompare([]byte(from.Header.Get("X-Weir-Proxy")), []byte(i.Secret)) == 1
	user := from.Header.Get(i.UserHeader)
	switch {
	case !shown:
		return errorResponse{code: http.StatusUnauthorized, message: "only the proxy in front may say who a user is"}
	case user == "" || len(from.Header.Values(i.UserHeader)) > 1:
		return errorResponse{code: http.StatusUnauthorized, message: "the proxy in front has to name one user in " + i.UserHeader}
	}
	if err := i.refuseSystem(user); err != nil {
		return err
	}
	to.Set(transport.ImpersonateUserHeader, i.Prefix+user)
	return i.addGroups(from, to)
}

// addGroups adds the groups that the proxy names.
func (i Impersonation) addGroups(from *http.Request, to http.Header) error {
	for group := range strings.SplitSeq(strings.Join(from.Header.Values(i.GroupsHeader), ","), ",") {
		if group = strings.TrimSpace(group); group == "" {
			continue
		}
		if err := i.refuseSystem(group); err != nil {
			return err
		}
		to.Add(transport.ImpersonateGroupHeader, i.Prefix+group)
	}
	return nil
}

// refuseSystem refuses a name that Kubernetes reserves. It checks the prefix and the name
// together: the prefix "sys" and the group "tem:masters" would make "system:masters".
func (i Impersonation) refuseSystem(name string) error {
	if strings.HasPrefix(i.Prefix+name, "system:") {
		return errorResponse{code: http.StatusForbidden, message: "this user or one of its groups has a name that begins with system:, which Kubernetes reserves; sign in as another user"}
	}
	return nil
}

const (
	cookieName = "__Host-weir"
	// sessionDuration is how long a session lasts.
	sessionDuration = 8 * time.Hour
	// maxTokenBytes is the maximum size of a token that fits into a cookie.
	maxTokenBytes = 2800
)

// Sessions store the token of each user in an encrypted cookie.
type Sessions struct {
	Sealed cipher.AEAD
	Clock  clock.PassiveClock
}

type session struct {
	Token string
	Until time.Time
}

var errSignInRequired = errorResponse{code: http.StatusUnauthorized, message: "sign in with a token of your account", challenge: "Weir-Token"}

// Identify implements Identity.
func (s *Sessions) Identify(from *http.Request, to http.Header) error {
	sealed, err := from.Cookie(cookieName)
	if err != nil {
		return errSignInRequired
	}
	data, err := base64.RawURLEncoding.DecodeString(sealed.Value)
	if err != nil {
		return errSignInRequired
	}
	var kept session
	if data, err = s.Sealed.Open(nil, nil, data, []byte(cookieName)); err != nil || json.Unmarshal(data, &kept) != nil || !s.Clock.Now().Before(kept.Until) {
		return errSignInRequired
	}
	to.Set("Authorization", "Bearer "+kept.Token)
	return nil
}

// signIn returns a handler that creates a session for a token, after the cluster has accepted the token.
func (s *Sessions) signIn(target *url.URL, cluster http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var given struct{ Token string }
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil || given.Token == "" || len(given.Token) > maxTokenBytes || strings.ContainsAny(given.Token, " \r\n") {
			writeError(w, errorResponse{code: http.StatusBadRequest, message: fmt.Sprintf("give one token of at most %d bytes; a longer one needs --auth=bearer", maxTokenBytes)})
			return
		}
		if err := verifyToken(r.Context(), target, cluster, given.Token); err != nil {
			writeError(w, err)
			return
		}
		data, err := json.Marshal(session{Token: given.Token, Until: s.Clock.Now().Add(sessionDuration)})
		if err != nil {
			writeError(w, err)
			return
		}
		s.setCookie(w, base64.RawURLEncoding.EncodeToString(s.Sealed.Seal(nil, nil, data, []byte(cookieName))), int(sessionDuration.Seconds()))
	})
}

func (s *Sessions) signOut() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.setCookie(w, "", -1) })
}

func (*Sessions) setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, "{}")
}

// verifyToken returns an error if the cluster does not accept a token.
func verifyToken(ctx context.Context, target *url.URL, cluster http.RoundTripper, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.JoinPath(apiPath).String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := cluster.RoundTrip(r)
	if err != nil {
		return errorResponse{code: http.StatusBadGateway, message: "the cluster does not answer: " + err.Error()}
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized {
		return errorResponse{code: http.StatusForbidden, message: "the cluster does not know this token, or it is no longer valid"}
	}
	return nil
}
