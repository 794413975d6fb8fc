// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"crypto/sha256"
	"errors"
	"runtime"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// Reading a script takes little memory, whatever is in it. Not parallel: it counts
// what the whole process allocates.
func TestMemoryOfReading(t *testing.T) {
	const most = 24 << 20
	for name, script := range map[string]string{
		"powers":                    "return " + strings.Repeat("2^", 120_000) + "2",
		"joins":                     "return " + strings.Repeat(`"a"..`, 50_000) + `"a"`,
		"negations":                 "return " + strings.Repeat("not ", 60_000) + "1",
		"tables":                    strings.Repeat("a={} ", 50_000),
		"parentheses":               "return " + strings.Repeat("(", 250_000) + "1",
		"functions":                 strings.Repeat("local f=function()end ", 11_000),
		"branches":                  "if a then " + strings.Repeat("elseif a then ", 18_000) + " end",
		"powers, as many as may be": "return " + strings.Repeat("2^", maxTokens/2-2) + "2",
		"joins, as many as may be":  "return " + strings.Repeat(`"a"..`, maxTokens/2-2) + `"a"`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(script)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > most {
			t.Errorf("%s: %v, and took %d KiB", name, err, took>>10)
		}
	}
}

// A script that was refused is not read again, and those that are known are few.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	times := 0
	c := compiler{refused: map[[sha256.Size]byte]error{}, read: func(string) (*lua.FunctionProto, error) {
		times++
		return nil, errors.New("refused")
	}}
	for range 3 {
		if _, err := c.compile("one"); err == nil {
			t.Error("it is not refused")
		}
	}
	if times != 1 {
		t.Errorf("it is read %d times", times)
	}
	for i := range 10 * maxRefused {
		_, _ = c.compile(strings.Repeat("x", i))
	}
	if len(c.refused) > maxRefused {
		t.Errorf("%d are known", len(c.refused))
	}
}
