// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// What the interpreter does by itself, as one instruction and without a limit, is
// turned into calls of functions that count. Each is a local variable around the
// script, of a name that a script cannot spell: it can neither change nor shadow it.
const (
	callConcat = ".."
	callTable  = "{}"
	callRoom   = "{[]}"
	callPlace  = "[]="
	callKey    = "[]"
	callText   = "''"
	callLength = "#"
	callMod    = "%"
	callAll    = "..."
	callMade   = "function"
)

var calls = []string{callConcat, callTable, callRoom, callPlace, callKey, callText, callLength, callMod, callAll, callMade}

const (
	// maxJoined is how many texts one call joins; each takes a register.
	maxJoined = 50
	// maxName is the length of a name, short that of a text which need not be counted.
	maxName = 256
	short   = 64
	// maxWords are different names and literals: the compiler compares each with all of them.
	maxWords = 4096
	// maxCaptured are variables of other functions that a function uses. Lua allows 60.
	maxCaptured = 60
	// maxTokens are words and signs: the parser keeps hundreds of bytes of each.
	maxTokens = 1 << 14
	// maxRefused are scripts that are known not to compile.
	maxRefused = 64
)

// compiler reads one script at a time, so that what reading takes is taken once, and
// none again that it has refused.
type compiler struct {
	sync.Mutex
	refused map[[sha256.Size]byte]error
	// read is what reading a script means.
	read func(script string) (*lua.FunctionProto, error)
}

var scripts = compiler{refused: map[[sha256.Size]byte]error{}, read: read}

func (c *compiler) compile(script string) (*lua.FunctionProto, error) {
	if len(script) > maxScript {
		return nil, fmt.Errorf("%s is longer than %d KiB", chunkName, maxScript>>10)
	}
	c.Lock()
	defer c.Unlock()
	sum := sha256.Sum256([]byte(script))
	if err := c.refused[sum]; err != nil {
		return nil, err
	}
	proto, err := c.read(script)
	if err != nil {
		if len(c.refused) >= maxRefused {
			clear(c.refused)
		}
		c.refused[sum] = err
	}
	return proto, err
}

// count says where a script has too many tokens. What is no token is left to the parser.
func count(script string) error {
	scanner, lexer := parse.NewScanner(strings.NewReader(script), chunkName), &parse.Lexer{}
	for range maxTokens + 1 {
		token, err := scanner.Scan(lexer)
		if err != nil || token.Type == parse.EOF {
			return nil //nolint:nilerr // the parser meets the same, and says where
		}
	}
	return fmt.Errorf("%s has more than %d words and signs", chunkName, maxTokens)
}

func read(script string) (*lua.FunctionProto, error) {
	if err := count(script); err != nil {
		return nil, err
	}
	chunk, err := parse.Parse(strings.NewReader(script), chunkName)
	if err == nil && len(chunk) == 0 {
		err = errors.New(chunkName + " is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the script: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	r := &rewriter{words: map[string]bool{}}
	chunk = r.stmts(chunk)
	if r.err != nil {
		return nil, r.err
	}
	proto, err := lua.Compile(append([]ast.Stmt{counters()}, chunk...), chunkName)
	if err != nil {
		return nil, fmt.Errorf("compiling the script: %w", err)
	}
	return proto, captures(proto)
}

// counters are the local variables that the functions which count are kept in.
func counters() ast.Stmt {
	s := &ast.LocalAssignStmt{Names: calls}
	for _, name := range calls {
		s.Exprs = append(s.Exprs, &ast.IdentExpr{Value: name})
	}
	return s
}

// captures says where a function uses too many variables of others: the
// interpreter looks each up when it makes the function.
func captures(p *lua.FunctionProto) error {
	for _, f := range p.FunctionPrototypes {
		if int(f.NumUpvalues) > maxCaptured+len(calls) {
			return fmt.Errorf("%s:%d: a function uses more than %d variables of others", chunkName, f.LineDefined, maxCaptured)
		}
		if err := captures(f); err != nil {
			return err
		}
	}
	return nil
}

// rewriter walks through a script. It stops where it is too deep: the compiler
// would follow it there on a stack without end.
type rewriter struct {
	depth int
	words map[string]bool
	err   error
}

// enter tells whether to go one level deeper; whoever does, leaves it again.
func (r *rewriter) enter() bool {
	if r.depth++; r.depth > maxNesting && r.err == nil {
		r.err = fmt.Errorf("%s is nested more than %d levels deep", chunkName, maxNesting)
	}
	return r.err == nil
}

func (r *rewriter) leave() { r.depth-- }

// word is a name.
func (r *rewriter) word(name string, line int) {
	if len(name) > maxName && r.err == nil {
		r.err = fmt.Errorf("%s:%d: a name is longer than %d characters", chunkName, line, maxName)
	}
	r.literal(name)
}

// literal counts what the compiler keeps.
func (r *rewriter) literal(s string) {
	if r.words[s] = true; len(r.words) > maxWords && r.err == nil {
		r.err = fmt.Errorf("%s has more than %d names and literals", chunkName, maxWords)
	}
}

func (r *rewriter) stmts(all []ast.Stmt) []ast.Stmt {
	defer r.leave()
	if !r.enter() {
		return all
	}
	var out []ast.Stmt
	for _, s := range all {
		out = append(out, r.stmt(s)...)
	}
	return out
}
