package openclaw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Decode reads the parameters of a method into a struct, strictly: absent
// parameters are {}, a property that T does not have is refused by its name,
// in exactly its case, and null is not the same as absent. Each field says
// with a tag "oc" what else must hold:
//
//	required       the property must be there
//	min=1,max=512  characters of a string, value of a number, items of an array
//	each=1         the same for the least length of each string in an array
//	oneof=a|b      the string is one of these
//
// A field of type json.RawMessage takes anything, one with UnmarshalJSON
// decides by itself, and an Optional tells null from absent. All faults are
// reported at once, in the words that OpenClaw's own gateway uses:
//
//	invalid chat.send params: must have required property 'message'
func Decode[T any](method string, params json.RawMessage) (T, *Error) {
	if text := bytes.TrimSpace(params); len(text) == 0 || bytes.Equal(text, null) {
		params = json.RawMessage("{}")
	}
	v, wrong := decode[T](params)
	if wrong != "" {
		return v, InvalidParams(method, wrong)
	}
	return v, nil
}

// DecodeRequest reads a frame from a client, a valid JSON text, as strictly.
// Where it fails, the request has the ID that the frame has, if any.
func DecodeRequest(frame []byte) (Request, *Error) {
	r, wrong := decode[Request](frame)
	if wrong == "" {
		return r, nil
	}
	var id struct{ ID string }
	// What it says wrongly, it does not say.
	_ = json.Unmarshal(frame, &id)
	return Request{ID: id.ID}, Invalid("invalid request frame: %s", wrong)
}

// decode returns what is wrong, empty if nothing is.
func decode[T any](text json.RawMessage) (v T, wrong string) {
	var f faults
	f.decode(text, reflect.ValueOf(&v).Elem(), &rules{}, "")
	if len(f) > 0 {
		var none T
		return none, strings.Join(slices.Compact(f), "; ")
	}
	return v, ""
}

var null = []byte("null")

// Optional is a property that may be absent, null, or a value: what a patch
// leaves alone, clears, or sets.
type Optional[T any] struct {
	Set   bool // it was there
	Null  bool
	Value T
}

// inner has the value decoded with the rules of the field. It returns the
// address of Value, or nil for a null.
func (o *Optional[T]) inner(isNull bool) any {
	o.Set, o.Null = true, isNull
	if isNull {
		return nil
	}
	return &o.Value
}

type optional interface{ inner(isNull bool) any }

// rules are what a tag says.
type rules struct {
	required       bool
	min, max       float64
	hasMin, hasMax bool
	each           int
	oneof          []string
}

func parseRules(tag string) *rules {
	r := &rules{}
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		number := func() float64 {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(fmt.Sprintf("tag %q: %v", tag, err)) //nolint:forbidigo // a tag is code
			}
			return n
		}
		switch key {
		case "":
		case "required":
			r.required = true
		case "min":
			r.min, r.hasMin = number(), true
		case "max":
			r.max, r.hasMax = number(), true
		case "each":
			r.each = int(number())
		case "oneof":
			r.oneof = strings.Split(value, "|")
		default:
			panic(fmt.Sprintf("tag %q: unknown rule %q", tag, key)) //nolint:forbidigo // a tag is code
		}
	}
	return r
}

// property is a field of a struct as the wire has it.
type property struct {
	name  string
	index []int
	rules *rules
}

var plans sync.Map // reflect.Type to []property

// properties lists the fields of a struct, those of embedded ones too.
func properties(t reflect.Type) []property {
	if p, ok := plans.Load(t); ok {
		return p.([]property)
	}
	var out []property
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out = append(out, property{name, f.Index, parseRules(f.Tag.Get("oc"))})
	}
	plans.Store(t, out)
	return out
}

// faults collects what is wrong.
type faults []string

func (f *faults) add(at, format string, args ...any) {
	if at != "" {
		format = "at " + strings.ReplaceAll(at, "%", "%%") + ": " + format
	}
	*f = append(*f, fmt.Sprintf(format, args...))
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// decode reads raw, a valid JSON text, into v.
func (f *faults) decode(raw json.RawMessage, v reflect.Value, r *rules, at string) {
	raw = bytes.TrimSpace(raw)
	if v.Type() == rawMessage {
		v.SetBytes(slices.Clone(raw))
		return
	}
	switch x := v.Addr().Interface().(type) {
	case optional:
		if to := x.inner(bytes.Equal(raw, null)); to != nil {
			f.decode(raw, reflect.ValueOf(to).Elem(), r, at)
		}
		return
	case json.Unmarshaler:
		if err := x.UnmarshalJSON(raw); err != nil {
			f.add(at, "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.decode(raw, v.Elem(), r, at)
	case reflect.Struct:
		f.object(raw, v, at)
	case reflect.Slice:
		f.array(raw, v, r, at)
	case reflect.Map:
		var members map[string]json.RawMessage
		if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
			f.add(at, "must be object")
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
		for name, value := range members {
			item := reflect.New(v.Type().Elem()).Elem()
			f.decode(value, item, &rules{}, at+"/"+name)
			v.SetMapIndex(reflect.ValueOf(name), item)
		}
	case reflect.String:
		f.text(raw, v, r, at)
	case reflect.Bool:
		var b bool
		if bytes.Equal(raw, null) || json.Unmarshal(raw, &b) != nil {
			f.add(at, "must be boolean")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Float64:
		f.number(raw, v, r, at)
	default:
		panic(fmt.Sprintf("parameters of type %s", v.Type())) //nolint:forbidigo // a type is code
	}
}

func (f *faults) object(raw json.RawMessage, v reflect.Value, at string) {
	var members map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
		f.add(at, "must be object")
		return
	}
	known := properties(v.Type())
	for _, p := range known {
		value, ok := members[p.name]
		if !ok {
			if p.rules.required {
				f.add(at, "must have required property '%s'", p.name)
			}
			continue
		}
		delete(members, p.name)
		f.decode(value, v.FieldByIndex(p.index), p.rules, at+"/"+p.name)
	}
	where := at
	if where == "" {
		where = "root"
	}
	unknown := make([]string, 0, len(members))
	for name := range members {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown[:min(len(unknown), 5)] {
		*f = append(*f, fmt.Sprintf("at %s: unexpected property '%s'", where, clip(name)))
	}
}

// clip shortens what a client wrote for a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (f *faults) array(raw json.RawMessage, v reflect.Value, r *rules, at string) {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		f.add(at, "must be array")
		return
	}
	if f.size(len(items), r, "items", at) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		each := &rules{min: float64(r.each), hasMin: r.each > 0}
		if v.Type().Elem().Kind() == reflect.String {
			each.oneof = r.oneof
		}
		f.decode(item, v.Index(i), each, at+"/"+strconv.Itoa(i))
		if len(*f) > 20 {
			return
		}
	}
}

func (f *faults) text(raw json.RawMessage, v reflect.Value, r *rules, at string) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		f.add(at, "must be string")
		return
	}
	if f.size(utf8.RuneCountInString(s), r, "characters", at) {
		return
	}
	if strings.ContainsRune(s, 0) {
		f.add(at, "must NOT have the character U+0000") // nor can it be kept anywhere
		return
	}
	if len(r.oneof) > 0 && !slices.Contains(r.oneof, s) {
		f.add(at, "must be equal to one of the allowed values (%s)", strings.Join(r.oneof, ", "))
		return
	}
	v.SetString(s)
}

// size reports whether there are too few or too many of something.
func (f *faults) size(n int, r *rules, of, at string) bool {
	switch {
	case r.hasMin && n < int(r.min):
		f.add(at, "must NOT have fewer than %d %s", int(r.min), of)
	case r.hasMax && n > int(r.max):
		f.add(at, "must NOT have more than %d %s", int(r.max), of)
	default:
		return false
	}
	return true
}

// maxInteger is the largest that a JavaScript client can say exactly.
const maxInteger = 1<<53 - 1

func (f *faults) number(raw json.RawMessage, v reflect.Value, r *rules, at string) {
	kind := "integer"
	if v.Kind() == reflect.Float64 {
		kind = "number"
	}
	var n float64
	if bytes.Equal(raw, null) || json.Unmarshal(raw, &n) != nil || kind == "integer" && (n != math.Trunc(n) || math.Abs(n) > maxInteger) {
		f.add(at, "must be %s", kind)
		return
	}
	switch {
	case r.hasMin && n < r.min:
		f.add(at, "must be >= %v", r.min)
	case r.hasMax && n > r.max:
		f.add(at, "must be <= %v", r.max)
	case kind == "integer":
		v.SetInt(int64(n))
	default:
		v.SetFloat(n)
	}
}
