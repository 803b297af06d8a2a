package cdp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/coder/websocket"
)

// MaxMessage bounds a message from the browser, in bytes. A full-page
// screenshot is the largest that is asked for.
const MaxMessage = 256 << 20

// Pipe makes a Transport of a stream that carries NUL-delimited JSON, as
// --remote-debugging-pipe does. It owns rwc.
func Pipe(rwc io.ReadWriteCloser) Transport {
	return &pipe{rwc: rwc, r: bufio.NewReaderSize(rwc, 64<<10)}
}

type pipe struct {
	rwc  io.ReadWriteCloser
	r    *bufio.Reader
	once sync.Once
	err  error
}

func (p *pipe) ReadMessage() ([]byte, error) {
	var msg []byte
	for {
		part, err := p.r.ReadSlice(0)
		msg = append(msg, part...)
		switch {
		case err == nil:
			return msg[:len(msg)-1], nil
		case err != bufio.ErrBufferFull: //nolint:errorlint // documented to be returned as it is
			return nil, err
		case len(msg) > MaxMessage:
			return nil, fmt.Errorf("devtools message longer than %d bytes", MaxMessage)
		}
	}
}

func (p *pipe) WriteMessage(msg []byte) error {
	_, err := p.rwc.Write(append(msg, 0))
	return err
}

func (p *pipe) Close() error {
	p.once.Do(func() { p.err = p.rwc.Close() })
	return p.err
}

// Dial connects to the DevTools websocket of a browser that already runs
// (ws://127.0.0.1:9222/devtools/browser/...). ctx bounds the dialling only.
func Dial(ctx context.Context, url string) (Transport, error) {
	ws, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // the library takes care of it
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", url, err)
	}
	ws.SetReadLimit(MaxMessage)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &socket{ws: ws, life: life, cancel: cancel}, nil
}

// socket keeps a context because the library's reads and writes want one
// while Transport ends them by Close.
type socket struct {
	ws     *websocket.Conn
	life   context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
}

func (s *socket) ReadMessage() ([]byte, error) {
	_, data, err := s.ws.Read(s.life)
	return data, err
}

func (s *socket) WriteMessage(msg []byte) error {
	return s.ws.Write(s.life, websocket.MessageText, msg)
}

func (s *socket) Close() error {
	s.cancel()
	return s.ws.CloseNow()
}
