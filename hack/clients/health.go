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

// evaluateEach evaluates each object of the standard input, and prints a line for each.
func evaluateEach(evaluate func(*unstructured.Unstructured) (string, error)) error {
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
		verdict, err := evaluate(obj)
		if err != nil {
			// Argo CD and the users of kstatus show an error in this form.
			verdict = "Unknown: " + err.Error()
		}
		fmt.Println(verdict)
	}
}

// kstatus prints the status that Flux, kpt and other users of kstatus compute.
func kstatus(context.Context, *rest.Config, []string) error {
	return evaluateEach(func(obj *unstructured.Unstructured) (string, error) {
		result, err := status.Compute(obj)
		if err != nil {
			return "", err
		}
		return string(result.Status) + ": " + result.Message, nil
	})
}

// argo prints the health that a script of Argo CD computes.
func argo(_ context.Context, _ *rest.Config, args []string) error {
	if len(args) != 1 {
		return errors.New("name one script")
	}
	script, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return evaluateEach(func(obj *unstructured.Unstructured) (string, error) {
		l := lua.NewState()
		defer l.Close()
		l.SetGlobal("obj", luaValue(l, obj.Object))
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

// luaValue converts a JSON value.
func luaValue(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(l, item))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(luaValue(l, item))
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
