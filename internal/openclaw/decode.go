package openclaw

import "encoding/json"

// Decode reads the parameters of a method strictly.
func Decode[T any](method string, params json.RawMessage) (T, *Error) {
	var v T
	if err := json.Unmarshal(params, &v); err != nil {
		return v, &Error{Code: CodeInvalidRequest, Message: "invalid " + method + " params: " + err.Error()}
	}
	return v, nil
}
