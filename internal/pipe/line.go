package pipe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"unicode/utf8"
)

// Reader reads lines of at most MaxLine bytes, in bounded memory whatever
// the other side sends. It is not for use by several goroutines at once.
type Reader struct {
	br   *bufio.Reader
	skip bool // the rest of a line that is too long comes next
}

// NewReader makes a Reader of r, which it reads ahead of.
func NewReader(r io.Reader) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next line that is not blank, without its LF and without a
// CR before that. The caller owns the slice.
//
// An *Error means that a line could not be used, and that the next call goes
// on behind it: CodeMessageTooLarge as soon as a line has more than MaxLine
// bytes, CodeInvalidJSON if it is not UTF-8. Any other error is final: io.EOF
// at the end, io.ErrUnexpectedEOF if the last line had no LF; what there was
// of it is no message.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return nil, Errorf(CodeInvalidJSON, "line is not valid UTF-8")
		}
		return line, nil
	}
}

// line returns the next line without its LF.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.br.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full {
			if errors.Is(err, io.EOF) && !r.skip && len(line)+len(part) > 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if r.skip {
			r.skip = full
			continue
		}
		if !full {
			part = part[:len(part)-1]
		}
		n := len(line) + len(part)
		// One byte more may still be the CR of a line that just fits.
		if n > MaxLine+1 {
			r.skip = full
			return nil, tooLong()
		}
		line = append(line, part...)
		if full {
			continue
		}
		if n > MaxLine && line[n-1] != '\r' {
			return nil, tooLong()
		}
		return line, nil
	}
}

func tooLong() *Error {
	return Errorf(CodeMessageTooLarge, "line is longer than %d bytes", MaxLine)
}

// Writer writes messages, each as one line in one write, so that what it
// wrote is with the other side's operating system when a call returns. It is
// safe for use by several goroutines at once.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error // a write that failed leaves half a line behind; nothing may follow it
}

// NewWriter makes a Writer to w. It does not close it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes a message, e.g. a *Command. A message of more than MaxLine
// bytes is refused with an *Error of CodeMessageTooLarge; nothing of it is
// written, and the Writer stays usable. After any error of the stream itself
// every further write fails with it.
func (w *Writer) Write(message any) error {
	line, err := Encode(message)
	if err != nil {
		return err
	}
	return w.WriteLine(line)
}

// WriteLine writes a message that is already encoded, without LF.
func (w *Writer) WriteLine(line []byte) error {
	if len(line) > MaxLine {
		return Errorf(CodeMessageTooLarge, "message has %d bytes, more than %d", len(line), MaxLine)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return Errorf(CodeInvalidJSON, "message contains a line feed")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	out := make([]byte, 0, len(line)+1)
	out = append(append(out, line...), '\n')
	if _, err := w.w.Write(out); err != nil {
		w.err = err
		return err
	}
	return nil
}

// Encode returns the message as it stands on the wire, without LF, however
// long it is.
func Encode(message any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(message); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
