package pipe

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// read collects what a Reader makes of a stream: lines, codes in brackets,
// and the final error.
func read(r *Reader) []string {
	var out []string
	for {
		line, err := r.Next()
		var bad *Error
		switch {
		case errors.As(err, &bad):
			out = append(out, "["+string(bad.Code)+"]")
		case err != nil:
			return append(out, err.Error())
		default:
			if len(line) > 20 {
				line = line[:20]
			}
			out = append(out, string(line))
		}
	}
}

func TestReader(t *testing.T) {
	fits := strings.Repeat("x", MaxLine)
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "EOF"},
		{"lines", "a\nb\n", "a b EOF"},
		{"cr", "a\r\nb\r\n", "a b EOF"},
		{"blank", "\n \n\r\na\n", "a EOF"},
		{"partial", "a\nb", "a unexpected EOF"},
		{"utf8", "a\n\xff\xfe\nb\n", "a [PIPE_INVALID_JSON] b EOF"},
		{"fits", fits + "\nb\n", fits[:20] + " b EOF"},
		{"fits cr", fits + "\r\nb\n", fits[:20] + " b EOF"},
		{"one more", fits + "y\nb\n", "[PIPE_MESSAGE_TOO_LARGE] b EOF"},
		{"two more", fits + "y\r\nb\n", "[PIPE_MESSAGE_TOO_LARGE] b EOF"},
		{"far more", fits + fits + fits + "\nb\n", "[PIPE_MESSAGE_TOO_LARGE] b EOF"},
		{"twice", fits + fits + "\n" + fits + "yy\nb\n", "[PIPE_MESSAGE_TOO_LARGE] [PIPE_MESSAGE_TOO_LARGE] b EOF"},
		{"endless", fits + fits, "[PIPE_MESSAGE_TOO_LARGE] EOF"},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in),
			"half":  iotest.HalfReader(strings.NewReader(tt.in)),
			"data":  iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			if got := strings.Join(read(NewReader(r)), " "); got != tt.want {
				t.Errorf("%s, %s: got %s, want %s", tt.name, name, got, tt.want)
			}
		}
	}
}

// TestReaderAtOnce: a line is refused before its end comes.
func TestReaderAtOnce(t *testing.T) {
	pr, pw := io.Pipe()
	r := NewReader(pr)
	go func() {
		part := bytes.Repeat([]byte("x"), 1<<16)
		for range MaxLine/len(part) + 2 {
			if _, err := pw.Write(part); err != nil {
				return
			}
		}
		// The stream stays open, the line unended, until it was refused.
	}()
	_, err := r.Next()
	var bad *Error
	if !errors.As(err, &bad) || bad.Code != CodeMessageTooLarge {
		t.Fatalf("err = %v", err)
	}
	if err := pr.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderMemory(t *testing.T) {
	r := NewReader(io.LimitReader(endless{}, 64<<20))
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _ = r.Next()
		}
	})
	// A MiB grown by appending costs some MiB, once.
	if total := got.MemBytes; total > 16<<20 {
		t.Errorf("64 MiB without a line feed cost %d bytes", total)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Write(&Log{Type: TypeLog, Level: "info", Message: "<审批> & \n\u2028"}); err != nil {
		t.Fatal(err)
	}
	var bad *Error
	err := w.Write(&Log{Type: TypeLog, Message: strings.Repeat("x", MaxLine)})
	if !errors.As(err, &bad) || bad.Code != CodeMessageTooLarge {
		t.Errorf("err = %v", err)
	}
	if err := w.WriteLine([]byte("{\n}")); err == nil {
		t.Error("wrote a line feed")
	}
	if err := w.WriteLine(bytes.Repeat([]byte("x"), MaxLine)); err != nil {
		t.Error(err)
	}
	want := `{"type":"log","time":"0001-01-01T00:00:00Z","level":"info","message":"<审批> & \n\u2028"}` + "\n"
	if got := b.String()[:len(want)]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := b.Len() - len(want); got != MaxLine+1 {
		t.Errorf("%d bytes after the first line, want %d", got, MaxLine+1)
	}
}

func TestWriterStaysBroken(t *testing.T) {
	broken := errors.New("broken")
	w := NewWriter(&failing{err: broken})
	for range 2 {
		if err := w.Write(&Shutdown{Type: TypeShutdown}); !errors.Is(err, broken) {
			t.Errorf("err = %v", err)
		}
	}
}

// failing fails once.
type failing struct{ err error }

func (f *failing) Write([]byte) (int, error) {
	err := f.err
	f.err = nil
	return 1, err
}

func TestWriterConcurrent(t *testing.T) {
	pr, pw := io.Pipe()
	w := NewWriter(pw)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				if err := w.Write(&Response{Seq: uint64(i + 1), Type: TypeResponse, Success: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		_ = pw.Close()
	}()
	r := NewReader(pr)
	n := 0
	for {
		line, err := r.Next()
		if err != nil {
			break
		}
		if _, bad := Decode(line); bad != nil {
			t.Fatalf("%s: %v", line, bad)
		}
		n++
	}
	if n != 400 {
		t.Errorf("%d messages, want 400", n)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"), 3)
	f.Add([]byte("\xff\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, repeat int) {
		// Repetition brings the fuzzer to long lines.
		if len(data) > 0 && repeat > 0 {
			data = bytes.Repeat(data, min(repeat, 3*MaxLine/len(data)+1))
		}
		r := NewReader(iotest.HalfReader(bytes.NewReader(data)))
		most := bytes.Count(data, []byte("\n")) + 1
		for n := 0; ; n++ {
			if n > most {
				t.Fatal("more lines than line feeds")
			}
			line, err := r.Next()
			var bad *Error
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			if len(line) > MaxLine || len(line) == 0 || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line of %d bytes", len(line))
			}
		}
	})
}
