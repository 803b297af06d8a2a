package pipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a message. The seed's snapshot tree, two
// levels a node, is the deepest there is.
const maxDepth = 512

// check refuses what is not strictly one JSON text: beyond what
// encoding/json refuses, duplicate names, for which parsers disagree, and
// nesting beyond maxDepth. Names that differ only in case count as
// duplicates, since encoding/json does not tell them apart.
func check(line []byte) *Error {
	if len(line) > MaxLine {
		return tooLong()
	}
	if !utf8.Valid(line) {
		return Errorf(CodeInvalidJSON, "line is not valid UTF-8")
	}
	if err := json.Unmarshal(line, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return Errorf(CodeInvalidJSON, "%v at byte %d", syntax, syntax.Offset)
		}
		return Errorf(CodeInvalidJSON, "%v", err)
	}
	return checkNames(line)
}

// object is an object or an array that the scan is inside of.
type object struct {
	array bool
	named bool // a name has been read, its value comes
	from  int  // index of its first name in names
	many  map[string]struct{}
}

// few is how many names an object may have before they are looked up in a
// map instead of one by one.
const few = 24

// checkNames scans a valid JSON text for depth and duplicate names.
func checkNames(text []byte) *Error {
	var stack []object
	var names [][]byte
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if len(stack) == maxDepth {
				return Errorf(CodeInvalidJSON, "nested more than %d deep", maxDepth)
			}
			stack = append(stack, object{array: text[i] == '[', from: len(names)})
		case '}', ']':
			names = names[:stack[len(stack)-1].from]
			stack = stack[:len(stack)-1]
		case ',':
			stack[len(stack)-1].named = false
		case '"':
			end := endOfString(text, i)
			if n := len(stack); n > 0 && !stack[n-1].array && !stack[n-1].named {
				top := &stack[n-1]
				top.named = true
				name := unquote(text[i:end])
				if duplicate(top, names, name) {
					return Errorf(CodeInvalidJSON, "name %q occurs twice in one object", clip(name))
				}
				names = append(names, name)
			}
			i = end - 1
		}
	}
	return nil
}

func duplicate(o *object, names [][]byte, name []byte) bool {
	own := names[o.from:]
	if len(own) < few {
		for _, n := range own {
			if bytes.EqualFold(n, name) {
				return true
			}
		}
		return false
	}
	if o.many == nil {
		o.many = make(map[string]struct{}, 4*few)
		for _, n := range own {
			o.many[fold(n)] = struct{}{}
		}
	}
	key := fold(name)
	if _, ok := o.many[key]; ok {
		return true
	}
	o.many[key] = struct{}{}
	return false
}

func fold(name []byte) string {
	return strings.ToLower(strings.ToUpper(string(name)))
}

// endOfString returns the index behind the string that begins at text[i].
func endOfString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote returns what a quoted string says.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return quoted
	}
	return []byte(s)
}

func clip(s []byte) []byte {
	const most = 64
	if len(s) <= most {
		return s
	}
	return bytes.ToValidUTF8(s[:most], nil)
}
