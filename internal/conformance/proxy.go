package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sgclaw/internal/pipe"
)

// sidecar is the file beside a stand-in agent: where the player listens.
type sidecar struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
}

const sidecarSuffix = ".conformance"

// AgentProxyMain is called first thing in main by every binary that plays
// the agent. If this process is a stand-in that a browser host has started,
// it joins stdin and stdout to the player until the player lets it end, and
// returns the exit status and true. Otherwise it returns false at once.
func AgentProxyMain() (code int, ok bool) {
	exe, err := os.Executable()
	if err != nil {
		return 0, false
	}
	raw, err := os.ReadFile(exe + sidecarSuffix)
	if err != nil {
		return 0, false
	}
	var at sidecar
	if err := json.Unmarshal(raw, &at); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1, true
	}
	code, err = proxy(at)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1, true
	}
	return code, true
}

// proxy joins stdin and stdout to one connection. A second one is for what
// is not data: it tells the player of SIGTERM, and the player says with which
// status to exit.
func proxy(at sidecar) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	id := pipe.NewSeed()
	control, err := dial(at, id+" control")
	if err != nil {
		return 0, err
	}
	data, err := dial(at, id+" data")
	if err != nil {
		return 0, err
	}
	go func() {
		for range signals {
			if _, err := io.WriteString(control, "signal\n"); err != nil {
				return
			}
		}
	}()
	go func() {
		_, _ = io.Copy(data, os.Stdin)
		_ = data.CloseWrite()
	}()
	go func() {
		_, _ = io.Copy(os.Stdout, data)
	}()
	line, gone := bufio.NewReader(control).ReadString('\n')
	if gone != nil {
		return 1, nil //nolint:nilerr // the player is gone, and its errand with it
	}
	code, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, fmt.Errorf("exit status: %w", err)
	}
	return code, nil
}

// dial connects and says who calls: "<token> <id of the process> <role>".
func dial(at sidecar, who string) (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", at.Addr, patience)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%s %s\n", at.Token, who); err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// lobby is where stand-ins report to the player.
type lobby struct {
	path     string // of the stand-in
	listener *net.TCPListener
	token    string
	agents   chan *standIn

	mu   sync.Mutex
	half map[string]*standIn // by id: has one connection of two
	all  []net.Conn
}

// standIn is the agent process of a host, in the player's hands.
type standIn struct {
	*wire
	data, control *net.TCPConn
	signals       chan struct{}
	gone          chan struct{} // closed: the process has ended
}

// openLobby puts a stand-in made of the executable at exe into dir.
func openLobby(exe, dir string) (*lobby, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	b := &lobby{
		path:     filepath.Join(dir, "agent"+filepath.Ext(exe)),
		listener: l, token: pipe.NewSeed(), agents: make(chan *standIn, 8), half: map[string]*standIn{},
	}
	if err := b.place(exe); err != nil {
		_ = l.Close()
		return nil, err
	}
	go b.serve()
	return b, nil
}

func (b *lobby) place(exe string) error {
	if err := os.Link(exe, b.path); err != nil {
		if err := copyFile(exe, b.path); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(sidecar{Addr: b.listener.Addr().String(), Token: b.token})
	if err != nil {
		return err
	}
	return os.WriteFile(b.path+sidecarSuffix, raw, 0o600)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func (b *lobby) serve() {
	for {
		conn, err := b.listener.AcceptTCP()
		if err != nil {
			return
		}
		go b.receive(conn)
	}
}

// receive takes one connection; with its second one a stand-in is complete.
func (b *lobby) receive(conn *net.TCPConn) {
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	id, role, err := b.authenticate(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, conn)
	a := b.half[id]
	if a == nil {
		a = &standIn{signals: make(chan struct{}, 16), gone: make(chan struct{})}
		b.half[id] = a
	}
	if role == "data" {
		a.data = conn
	} else {
		a.control = conn
	}
	if a.data == nil || a.control == nil {
		return
	}
	delete(b.half, id)
	a.wire = newWire(a.data, a.data, pipe.Type.FromBrowser)
	go a.watch()
	b.agents <- a
}

// authenticate reads the first line byte by byte, so that nothing behind it
// is lost.
func (b *lobby) authenticate(conn io.Reader) (id, role string, err error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < 256 {
		if _, err := io.ReadFull(conn, one); err != nil {
			return "", "", err
		}
		if one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	words := strings.Fields(string(line))
	if len(words) != 3 || words[0] != b.token {
		return "", "", errors.New("a stranger called")
	}
	return words[1], words[2], nil
}

func (a *standIn) watch() {
	defer close(a.gone)
	lines := bufio.NewScanner(a.control)
	for lines.Scan() {
		select {
		case a.signals <- struct{}{}:
		default:
		}
	}
}

// release lets the stand-in end with a status.
func (a *standIn) release(code int) {
	_, _ = fmt.Fprintf(a.control, "%d\n", code)
}

func (b *lobby) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.all {
		_ = c.Close()
	}
}
