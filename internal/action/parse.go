package action

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Error says why parameters do not fit an action.
type Error struct {
	Action string
	// Field is the first parameter at fault; empty if the fault is not in
	// one.
	Field string
	// Message names all faults, each with its parameter, in words that a
	// model can act on.
	Message string
}

func (e *Error) Error() string { return e.Action + ": " + e.Message }

// Parse checks the parameters of an action against its schema and returns
// them with defaults applied (wait_after of click excepted, see the package
// comment) in the form of Canonical. Absent parameters (nil or null) are an
// empty object, and a null parameter is an absent one, since models write it
// so. Parse of its own result changes nothing.
//
// Errors are of type *Error.
func Parse(name string, params json.RawMessage) (json.RawMessage, error) {
	cat, err := load()
	if err != nil {
		return nil, &Error{Action: name, Message: err.Error()}
	}
	schema, ok := cat.schemas[name]
	if !ok {
		return nil, &Error{Action: clip(name), Message: "no such action; there are " + strings.Join(Names(), ", ")}
	}
	if trimmed := bytes.TrimSpace(params); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		params = json.RawMessage("{}")
	}
	doc, err := unmarshal(params)
	if err != nil {
		return nil, &Error{Action: name, Message: "parameters are not JSON: " + err.Error()}
	}
	if obj, ok := doc.(map[string]any); ok {
		for k, v := range obj {
			if v == nil {
				delete(obj, k)
			}
		}
	}
	if err := schema.Validate(doc); err != nil {
		return nil, faults(name, err)
	}
	plain, err := json.Marshal(doc)
	if err != nil {
		return nil, &Error{Action: name, Message: err.Error()}
	}
	// The canonical form comes first because it writes whole numbers as
	// such: 1e3 and 1000.0 are integers for the schema, but not for Go.
	canonical, err := Canonical(plain)
	if err != nil {
		return nil, &Error{Action: name, Message: err.Error()}
	}
	full, err := normalise(name, canonical)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, &Error{Action: name, Message: err.Error()}
	}
	if _, err := Target(name, full); err != nil {
		return nil, err
	}
	canonical, err = Canonical(full)
	if err != nil {
		return nil, &Error{Action: name, Message: err.Error()}
	}
	return canonical, nil
}

// Canonical returns the RFC 8785 (JCS) form of a JSON text, the form that
// digests and signatures are made over. Duplicate names, lone surrogates,
// invalid UTF-8 and numbers beyond a double are errors.
func Canonical(text []byte) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	out, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("no canonical form: %w", err)
	}
	return out, nil
}

// maxDepth bounds the nesting of parameters.
const maxDepth = 32

// unmarshal decodes one JSON value for the validator, keeping numbers as
// they are written, and refuses what encoding/json lets pass: duplicate
// names, lone surrogates and deep nesting.
func unmarshal(text []byte) (any, error) {
	depth, most := 0, 0
	inString, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	if most > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	// Of the canonical form, since the validator reckons in exact fractions,
	// and 1e-999999999 is not worth them.
	canonical, err := Canonical(text)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
}

type fault struct {
	field, text string
}

// faults puts what the validator found into words.
func faults(name string, err error) *Error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return &Error{Action: name, Message: err.Error()}
	}
	found := leaves(invalid, nil)
	slices.SortStableFunc(found, func(a, b fault) int { return cmp.Compare(a.field, b.field) })
	e := &Error{Action: name}
	parts := make([]string, 0, len(found))
	for _, f := range found {
		if e.Field == "" {
			e.Field = f.field
		}
		if f.field == "" {
			parts = append(parts, f.text)
			continue
		}
		parts = append(parts, f.field+": "+f.text)
	}
	e.Message = strings.Join(parts, "; ")
	return e
}

func leaves(e *jsonschema.ValidationError, into []fault) []fault {
	for _, c := range e.Causes {
		into = leaves(c, into)
	}
	if len(e.Causes) > 0 {
		return into
	}
	field := strings.Join(e.InstanceLocation, ".")
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, m := range k.Missing {
			into = append(into, fault{m, "is required"})
		}
	case *kind.AdditionalProperties:
		for _, p := range k.Properties {
			into = append(into, fault{clip(p), "there is no such parameter"})
		}
	case *kind.Type:
		into = append(into, fault{field, fmt.Sprintf("must be of type %s, not %s", strings.Join(k.Want, " or "), k.Got)})
	case *kind.MinLength:
		text := fmt.Sprintf("must have at least %d characters", k.Want)
		if k.Got == 0 {
			text = "must not be empty"
		}
		into = append(into, fault{field, text})
	case *kind.MaxLength:
		into = append(into, fault{field, fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)})
	case *kind.Minimum:
		into = append(into, fault{field, fmt.Sprintf("must be at least %s, is %s", number(k.Want), number(k.Got))})
	case *kind.Maximum:
		into = append(into, fault{field, fmt.Sprintf("must be at most %s, is %s", number(k.Want), number(k.Got))})
	case *kind.Enum:
		want := make([]string, len(k.Want))
		for i, w := range k.Want {
			want[i] = fmt.Sprintf("%q", w)
		}
		into = append(into, fault{field, "must be " + strings.Join(want, " or ")})
	case *kind.Pattern:
		into = append(into, fault{field, fmt.Sprintf("must match %s, is %q", k.Want, clip(k.Got))})
	case *kind.Format:
		into = append(into, fault{field, fmt.Sprintf("must be an absolute %s, e.g. https://oa.example.com/", strings.ToUpper(k.Want))})
	default:
		into = append(into, fault{field, "is not valid"})
	}
	return into
}

func number(r *big.Rat) string {
	if r.IsInt() && r.Num().BitLen() < 128 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
