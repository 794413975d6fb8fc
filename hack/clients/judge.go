// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// each calls judge with every object of standard input, and prints a line for each.
func each(judge func(*unstructured.Unstructured) (string, error)) error {
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw); err != nil {
			return err
		}
		verdict, err := judge(obj)
		if err != nil {
			// As their callers do, which show an error as this.
			verdict = "Unknown: " + err.Error()
		}
		fmt.Println(verdict)
	}
}

// kstatus judges as Flux, kpt and others do.
func kstatus(context.Context, *rest.Config, []string) error {
	return each(func(obj *unstructured.Unstructured) (string, error) {
		result, err := status.Compute(obj)
		if err != nil {
			return "", err
		}
		return string(result.Status) + ": " + result.Message, nil
	})
}

// argo judges by a health script of Argo CD.
func argo(_ context.Context, _ *rest.Config, args []string) error {
	if len(args) != 1 {
		return errors.New("one script is wanted")
	}
	script, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return each(func(obj *unstructured.Unstructured) (string, error) {
		l := lua.NewState()
		defer l.Close()
		l.SetGlobal("obj", value(l, obj.Object))
		if err := l.DoString(string(script)); err != nil {
			return "", err
		}
		verdict, ok := l.Get(-1).(*lua.LTable)
		if !ok {
			return "", errors.New("the script returned no table")
		}
		return verdict.RawGetString("status").String() + ": " + verdict.RawGetString("message").String(), nil
	})
}

// value makes a JSON value one of Lua.
func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(l, item))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(value(l, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	default:
		return lua.LNil
	}
}
