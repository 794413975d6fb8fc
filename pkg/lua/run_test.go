// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExpressions checks that expressions have the results that Lua 5.1 defines.
func TestExpressions(t *testing.T) {
	for expr, want := range map[string]any{
		`1`: int64(1), `0.5`: 0.5, `-0`: int64(0), `1e15`: int64(1e15), `1e300`: 1e300, `"a"`: "a", `true`: true,
		`1 .. 2`: "12", `"a" .. 1 .. "b"`: "a1b", `"x" .. 0.5`: "x0.5", `10 / 2`: int64(5), `"3" + 4`: int64(7), `100 - "20"`: int64(80),
		`#"abc"`: int64(3), `#{1, 2, 3}`: int64(3), `tostring(20)`: "20", `tostring(nil)`: "nil", `tostring({})`: "table", `tostring(print)`: "function",
		`tonumber("20")`: int64(20), `tonumber("20%")`: nil, `tonumber("ff", 16)`: int64(255), `type(nil)`: "nil", `select("#", 1, 2)`: int64(2),
		`pcall(error, "x") == false`: true, `select(2, pcall(error, "x", 0))`: "x", `(xpcall(function() error("y", 0) end, function(m) return m .. "!" end)) == false`: true,
		`select(2, xpcall(function() error("y", 0) end, function(m) return m .. "!" end))`: "y!", `select(2, xpcall(function() return 7 end, print))`: int64(7),
		`next({}) == nil`: true, `rawget({a = 1}, "a")`: int64(1), `unpack({7, 8})`: int64(7), `math.floor(7 / 2)`: int64(3), `math.max(1, 5, 3)`: int64(5),
		`table.concat({1, "b", 3}, ",")`: "1,b,3", `table.concat({})`: "", `table.concat({"a", "b", "c"}, "-", 2, 3)`: "b-c",
		`(function(...) return select("#", ...) end)(1, nil, 3)`: int64(3),

		`("abc"):upper()`: "ABC", `("aBc"):lower()`: "abc", `("abc"):rep(3)`: "abcabcabc", `("abc"):rep(-1)`: "", `("abc"):rep(0/0)`: "", `("abc"):rep(1.9)`: "abc", `("abc"):reverse()`: "cba",
		`("abc"):sub(2)`: "bc", `("abc"):sub(-2, -2)`: "b", `("abc"):byte(2)`: int64(98), `string.char(97, 98)`: "ab", `("abc"):len()`: int64(3),
		`("hello world"):find("o w")`: int64(5), `("hello"):find("l", 1, true)`: int64(3), `("hello"):find("xyz")`: nil, `("hello"):find("")`: int64(1),
		`("a.b"):find(".", 1, true)`: int64(2), `("a.b"):find("%.")`: int64(2), `("hello"):find("l+", -3)`: int64(3),
		`("key=value"):match("(%w+)=(%w+)")`: "key", `select(2, ("key=value"):match("(%w+)=(%w+)"))`: "value", `("abc"):match("()b")`: int64(2),
		`("  trim  "):match("^%s*(.-)%s*$")`: "trim", `("svc.ns.svc.cluster.local"):match("^[^%.]+")`: "svc", `("x=1"):match("^y")`: nil,
		`("f(a(b)c)d"):match("%b()")`: "(a(b)c)", `("THE (quick) fox"):find("%((%a+)%)")`: int64(5), `("abab"):match("(ab)%1")`: "ab",
		`("THE fox"):match("%f[%a]%a+", 2)`: "fox", `("a-b"):match("[a%-]+")`: "a-", `("]x"):match("[]]")`: "]", `("^"):match("[%^]")`: "^", `("abc"):match("[^a]+")`: "bc",
		`("0x1F"):match("^0x(%x+)$")`: "1F", `("a\0b"):match("%z") == "\0"`: true, `("aaa"):match("a?a?a?a?$")`: "aaa", `("aaab"):match("a-b")`: "aaab", `("a1_"):match("%W")`: "_",
		`("hello"):gsub("l", "L")`: "heLLo", `select(2, ("hello"):gsub("l", "L"))`: int64(2), `("hello"):gsub("l", "L", 1)`: "heLlo", `("abc"):gsub("", "-")`: "-a-b-c-",
		`("abc"):gsub("%w", "%0%0")`: "aabbcc", `("hello world"):gsub("(%w+) (%w+)", "%2 %1")`: "world hello", `("$name"):gsub("%$(%w+)", {name = "web"})`: "web",
		`("abc"):gsub("%w", function(c) if c == "b" then return "x" end end)`: "axc", `("abc"):gsub("^a", "x")`: "xbc", `("50%"):gsub("%%", "")`: "50", `("a,b"):gsub(",", "%%")`: "a%b",
		`(function() local s = "" for w in ("one two"):gmatch("%a+") do s = s .. "<" .. w .. ">" end return s end)()`:    "<one><two>",
		`(function() local s = "" for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do s = s .. k .. v end return s end)()`: "a1b2",
		`(function() local n = 0 for _ in ("abc"):gmatch("") do n = n + 1 end return n end)()`:                           int64(4),
		`("%d|%5d|%-5d|%05.1f|%x|%s|%q|%%|%c|%g"):format(3, 4, 5, 2.25, 255, "s", "a\"b", 65, 0.1)`:                      `3|    4|5    |002.2|ff|s|"a\"b"|%|A|0.1`,
		`("%s %s"):format(nil, true)`:                                   "nil true",
		`("%.3s"):format("abcdef")`:                                     "abc",
		`json.encode({b = 1, a = {1, 2}, c = "x", d = true, e = 1.5})`:  `{"a":[1,2],"b":1,"c":"x","d":true,"e":1.5}`,
		`json.encode({})`:                                               "null",
		`json.encode({a = {}})`:                                         `{}`,
		`json.encode(json.decode('{"a":[],"b":{},"c":[{}],"d":null}'))`: `{"a":[],"b":{},"c":[{}]}`,
		`json.encode("a")`:                                              `"a"`,
		`json.encode(5)`:                                                `5`,
		`json.encode(nil)`:                                              `null`,
		`select(2, json.encode({1, a = 2}))`:                            "value has keys that are neither all names nor all numbers from 1 without a gap",
		`select(2, json.encode({[1] = 1, [3] = 3}))`:                    "value has keys that are neither all names nor all numbers from 1 without a gap",
		`select(2, json.encode({f = print}))`:                           "value.f is a function",
		`(function() local t = {} t.t = t return select(2, json.encode(t)) end)()`: "value is nested too deep, or contains itself",
		`(function() local t = {1} return json.encode({t, t}) end)()`:              "[[1],[1]]",
		`json.decode('[1,2]')[2]`:            int64(2),
		`json.decode('{"a":{"b":"c"}}').a.b`: "c",
		`json.decode("{")`:                   nil,
		`(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)()`:                                                  "123",
		`(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t) end)()`:                 "321",
		`(function() local t = {} table.insert(t, "a") table.insert(t, 1, "b") return table.concat(t) .. table.remove(t) .. #t end)()`: "baa1",
		`(function() local t = setmetatable({}, {__concat = function(a, b) return "joined" end}) return "a" .. t end)()`:               "joined",
		`(function() local t = setmetatable({}, {__tostring = function() return "shown" end}) return tostring(t) end)()`:               "shown",
		`(function() local t = setmetatable({}, {__index = function(_, k) return k end}) return t.x end)()`:                            "x",
		`(function() local s = "" for i, v in ipairs({"a", "b"}) do s = s .. i .. v end return s end)()`:                               "1a2b",
		`(function() local s = "" for k, v in pairs(json.decode('{"b":1,"a":2,"c":3}')) do s = s .. k .. v end return s end)()`:        "a2b1c3",
		`(function() local function f() return 1, 2 end return "a" .. f() end)()`:                                                      "a1",
		`(function(...) return "a" .. ... end)("b", "c")`:                                                                              "ab",
		`(function() local t = {} t[8080] = "web" t[1] = "one" return t[8080] end)()`:                                                  "web",
		`(function() local i = 0 while true do i = i + 1 if i == 3 then break end end repeat i = i + 1 until i > 5 return i end)()`:    int64(6),
		`(function() local o = {n = 1} function o:get() return self.n end return o:get() end)()`:                                       int64(1),
		`(function() local f = {a = {}} function f.a.b(x) return x .. "!" end return f.a.b("x") end)()`:                                "x!",
		`(function() return ` + strings.Repeat(`"a" .. `, 150) + `"b" end)():len()`:                                                    int64(151),
		`(function() local s = 0 for i = 10, 1, -3 do s = s + i end return s end)()`:                                                   int64(22),
		`getmetatable("").__index == string`:                                                          true,
		`(function() local t = {} for i = 1, 3 do t[#t + 1] = {n = i} end return t[3].n end)()`:       int64(3),
		`(function() local x = {a = 1, ["b-c"] = 2, [3] = 4, 5} return x["b-c"] + x[3] + x[1] end)()`: int64(11),
		`print("nothing")`: nil,
	} {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			got, err := Run("local v = "+expr+"\nreturn {v = v}", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got["v"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObjects passes objects through a script that changes little.
func TestObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		script   string
		in, want map[string]any
	}{
		"as it was": {"return obj",
			map[string]any{"a": "b", "n": int64(5), "f": 0.25, "l": []any{"x", map[string]any{"y": true}}, "none": nil},
			map[string]any{"a": "b", "n": int64(5), "f": 0.25, "l": []any{"x", map[string]any{"y": true}}}},
		"what is empty stays what it is": {"return obj",
			map[string]any{"l": []any{}, "o": map[string]any{}, "deep": []any{map[string]any{}, []any{}}},
			map[string]any{"l": []any{}, "o": map[string]any{}, "deep": []any{map[string]any{}, []any{}}}},
		"what was emptied stays what it was": {"table.remove(obj.l) obj.o.a = nil return obj",
			map[string]any{"l": []any{"x"}, "o": map[string]any{"a": "b"}}, map[string]any{"l": []any{}, "o": map[string]any{}}},
		"what was empty and is filled":          {"obj.l.a = 1 table.insert(obj.o, 'x') return obj", map[string]any{"l": []any{}, "o": map[string]any{}}, map[string]any{"l": map[string]any{"a": int64(1)}, "o": []any{"x"}}},
		"an empty table of its own is no field": {"obj.x = {} obj.l = {{}} return obj", map[string]any{}, map[string]any{"l": []any{map[string]any{}}}},
		"nothing":                               {"return {}", nil, map[string]any{}},
		"the last of several":                   {"return 1, {a = 1}", nil, map[string]any{"a": int64(1)}},
		"a list that became empty":              {"return obj.l", map[string]any{"l": []any{}}, map[string]any{}},
		"a shared table":                        {"local t = {host = 'x'} return {a = t, b = t}", nil, map[string]any{"a": map[string]any{"host": "x"}, "b": map[string]any{"host": "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Run(tc.script, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsKept checks that a script is not affected by an earlier script that changed
// everything it could reach.
func TestNothingIsKept(t *testing.T) {
	if _, err := Run(`
		getmetatable("").__index = function() return "spoilt" end
		string.upper, table.insert, math.floor, json.encode, ipairs = nil, nil, nil, nil, nil
		_G.left = "here"
		_G[".."] = function() return "spoilt" end
		return {}`, nil); err != nil {
		t.Fatal(err)
	}
	got, err := Run(`return {a = ("a"):upper() .. "b", left = left, json = json.encode(1), n = math.floor(1.5), i = type(ipairs)}`, nil)
	if diff := cmp.Diff(map[string]any{"a": "Ab", "json": "1", "n": int64(1), "i": "function"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
