package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// kind is the type of a JSON value.
type kind string

const (
	kindObject kind = "an object"
	kindArray  kind = "an array"
	kindString kind = "a string"
	kindNumber kind = "a number"
	kindBool   kind = "a boolean"
	kindNull   kind = "null"
)

// node is a JSON value that remembers where it stands, which encoding/json's
// own decoding into structs does not.
type node struct {
	kind    kind
	line    int
	path    string
	str     string // string, or the number as written
	flag    bool
	members []member // in the file's order, repeated keys included
	items   []*node
}

type member struct {
	key   string
	line  int
	value *node
}

// maxDepth is more than any rules file needs.
const maxDepth = 16

type scanner struct {
	data []byte
	dec  *json.Decoder
}

// scan reads one JSON document. On an error the fault has the line.
func scan(data []byte) (*node, *Fault) {
	// Editors on Windows like to put a byte order mark in front.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, &Fault{Message: "not UTF-8"}
	}
	s := &scanner{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	s.dec.UseNumber()
	n, err := s.value("", 0)
	if err == nil {
		if _, more := s.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the end of the document")
		}
	}
	if err == nil {
		return n, nil
	}
	f := &Fault{Line: s.line(), Message: "not JSON: " + err.Error()}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		f.Line = 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.Line = 1 + bytes.Count(data, []byte("\n"))
		f.Message = "not JSON: the file ends too early"
	}
	return nil, f
}

// line is where the token stands that was read last.
func (s *scanner) line() int {
	return 1 + bytes.Count(s.data[:s.dec.InputOffset()], []byte("\n"))
}

func (s *scanner) value(path string, depth int) (*node, error) {
	tok, err := s.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: s.line(), path: path}
	switch t := tok.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if t == '{' {
			n.kind = kindObject
			return n, s.object(n, depth)
		}
		n.kind = kindArray
		return n, s.array(n, depth)
	case string:
		n.kind, n.str = kindString, t
	case json.Number:
		n.kind, n.str = kindNumber, t.String()
	case bool:
		n.kind, n.flag = kindBool, t
	default:
		n.kind = kindNull
	}
	return n, nil
}

func (s *scanner) object(n *node, depth int) error {
	for s.dec.More() {
		tok, err := s.dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return errors.New("object key is not a string")
		}
		line := s.line()
		v, err := s.value(join(n.path, key), depth+1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{key, line, v})
	}
	_, err := s.dec.Token()
	return err
}

func (s *scanner) array(n *node, depth int) error {
	for s.dec.More() {
		v, err := s.value(n.path+"["+strconv.Itoa(len(n.items))+"]", depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	_, err := s.dec.Token()
	return err
}

// join extends a path by a key: domains.allowed, overrides["a.example.com"].
func join(path, key string) string {
	for i := range len(key) {
		c := key[i]
		if c != '_' && c != '$' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return path + "[" + strconv.Quote(key) + "]"
		}
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
