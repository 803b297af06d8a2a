package openclaw

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Given lists the properties of a struct of parameters whose type is
// json.RawMessage and that a client gave a value: those that the protocol has
// and we do not, so that a method can refuse them by name instead of dropping
// them. Null, false, "", [] and {} ask for nothing.
func Given(params any) []string {
	v := reflect.ValueOf(params)
	var names []string
	for _, p := range properties(v.Type()) {
		f := v.FieldByIndex(p.index)
		if f.Type() == rawMessage && asks(f.Bytes()) {
			names = append(names, p.name)
		}
	}
	return names
}

func asks(raw json.RawMessage) bool {
	for _, nothing := range []string{"", "null", "false", `""`, "[]", "{}"} {
		if string(bytes.TrimSpace(raw)) == nothing {
			return false
		}
	}
	return true
}
