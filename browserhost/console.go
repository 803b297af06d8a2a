package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/host"
	"sgclaw/internal/locale"
	"sgclaw/internal/pipe"
)

// console is the person at this terminal: it shows what the agent does and
// asks what must be asked. Without --console it only shows the agent's state
// and the host's own questions. It is a host.Observer and a host.Prompter.
type console struct {
	lang string
	quit func()
	// panel shows the side panel again; nil if there is none.
	panel func()

	mu      sync.Mutex
	out     io.Writer
	talk    bool // --console
	process *host.Process
	last    int // number of the last question
	open    []question
	task    string // the task submitted last
	closed  bool   // nobody can answer any more
	offline bool   // the agent's server is away
}

// question is something a person was asked and has not answered.
type question struct {
	id     string
	answer func(yes bool)
	drop   func() // there will be no answer
}

func newConsole(out io.Writer, lang string, quit func()) *console {
	return &console{out: out, lang: lang, quit: quit}
}

func (c *console) attach(p *host.Process, talk bool) {
	c.mu.Lock()
	c.process, c.talk = p, talk
	c.mu.Unlock()
	p.AddObserver(c)
	if talk {
		c.say(locale.HostHint)
	}
}

// say writes a text of the catalogue.
func (c *console) say(key locale.Key, args ...any) { c.print(locale.Text(c.lang, key, args...)) }

// print writes one line. Control characters of pages and agents do not reach
// the terminal.
func (c *console) print(line string) {
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, line)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, line)
}

// OnStateChanged shows the agent's state.
func (c *console) OnStateChanged(s host.State) { c.say(locale.Key("agent." + string(s))) }

// OnCrash shows how the agent ended.
func (c *console) OnCrash(code int, stderr string) {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	c.say(locale.HostAgentEnded, code, lines[len(lines)-1])
}

// OnMessage shows what the agent tells people.
func (c *console) OnMessage(_ pipe.Type, line json.RawMessage) {
	c.mu.Lock()
	talk := c.talk
	c.mu.Unlock()
	if !talk {
		return
	}
	m, fault := pipe.Decode(line)
	if fault != nil {
		return
	}
	switch m := m.(type) {
	case *pipe.Log:
		c.print(m.Time.Local().Format("15:04:05") + "  " + m.Message)
	case *pipe.State:
		c.state(m)
	case *pipe.TaskAccepted:
		c.say(locale.HostAccepted, m.TaskID)
	case *pipe.ConfirmRequired:
		c.ask(m.Action, m.Ask, "", question{
			answer: func(yes bool) {
				if err := c.agent().Confirm(pipe.Confirm{ActionID: m.ActionID, Approved: yes}); err != nil {
					c.say(locale.HostFault, err)
				}
			},
			drop: func() {},
		})
	case *pipe.TaskComplete:
		c.say(locale.HostTask, m.TaskID, locale.Status(c.lang, agent.Status(m.Status)), m.Summary)
	}
}

// state shows where a task stands, or that the agent's server went away or
// came back; that the agent itself runs is known here without it.
func (c *console) state(m *pipe.State) {
	detail := m.Detail
	if m.TaskID != "" {
		status := "…"
		if m.Status != "" {
			status = locale.Status(c.lang, agent.Status(m.Status))
		}
		c.say(locale.HostTask, m.TaskID, status, detail)
		return
	}
	c.mu.Lock()
	was := c.offline
	c.offline = m.State == pipe.StateOffline
	now := c.offline
	c.mu.Unlock()
	if !now && !was {
		return
	}
	text := locale.Text(c.lang, locale.Key("agent."+m.State))
	if detail != "" {
		text += " (" + detail + ")"
	}
	c.print(text)
}

func (c *console) agent() *host.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// Ask shows a question of the host and waits for the answer.
func (c *console) Ask(ctx context.Context, q host.Question) (bool, error) {
	answers := make(chan bool, 1)
	id := c.ask(q.Action, q.Ask.Subject, q.Prompt.In(c.lang), question{
		answer: func(yes bool) { answers <- yes },
		drop:   func() { close(answers) },
	})
	select {
	case yes, ok := <-answers:
		if !ok {
			return false, errors.New("nobody is at the terminal")
		}
		return yes, nil
	case <-ctx.Done():
		c.take(id)
		c.say(locale.HostWithdrawn, id)
		return false, ctx.Err()
	}
}

// ask puts a question to the person, who answers it later, or drops it at
// once if there is none.
func (c *console) ask(name string, s agent.Subject, prompt string, q question) (id string) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		q.drop()
		return ""
	}
	c.last++
	id = "q" + strconv.Itoa(c.last)
	q.id = id
	c.open = append(c.open, q)
	c.mu.Unlock()
	what := name
	if spec, ok := action.Lookup(name); ok && c.lang == locale.ZH {
		what = spec.DescriptionZH
	}
	if s.Name != "" {
		what += fmt.Sprintf(" %s “%s”", s.Role, s.Name)
	}
	if s.Context != "" {
		what += " · " + s.Context
	}
	if prompt != "" {
		c.print(prompt)
	}
	c.say(locale.HostAsk, id, what, s.Domain, id, id)
	return id
}

// take removes a question and returns it; with id "" the only open one.
func (c *console) take(id string) (question, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(q question) bool { return q.id == id })
	if id == "" && len(c.open) == 1 {
		i = 0
	}
	if i < 0 {
		return question{}, false
	}
	q := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	return q, true
}

// maxInput bounds a line typed here.
const maxInput = agent.MaxInstruction + 64

// read takes what the person types until stdin ends.
func (c *console) read(ctx context.Context, stdin io.Reader) {
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, maxInput)
	for lines.Scan() && ctx.Err() == nil {
		c.line(ctx, strings.TrimSpace(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		c.say(locale.HostFault, err)
	}
	// Nobody is left to answer: what is held is let go, undone.
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for _, q := range open {
		q.drop()
	}
}

func (c *console) line(ctx context.Context, text string) {
	verb, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	c.mu.Lock()
	talk := c.talk
	c.mu.Unlock()
	switch verb {
	case "":
		return
	case "yes", "y", "no", "n":
		q, ok := c.take(rest)
		if !ok {
			c.say(locale.HostNoQuestion)
			return
		}
		q.answer(verb[0] == 'y')
		return
	}
	if !talk {
		c.say(locale.HostYesNo)
		return
	}
	var err error
	switch verb {
	case "task":
		err = c.submit(rest)
	case "abort":
		err = c.abort(rest)
	case "start":
		go func() {
			if err := c.agent().Start(ctx); err != nil {
				c.say(locale.HostFault, err)
			}
		}()
	case "stop":
		go c.agent().Stop()
	case "panel":
		if c.panel == nil {
			c.say(locale.HostUnknown)
			return
		}
		go c.panel()
	case "quit", "exit":
		c.quit()
	case "help", "?":
		for l := range strings.SplitSeq(locale.Text(c.lang, locale.HostHelp), "\n") {
			c.print(l)
		}
	default:
		c.say(locale.HostUnknown)
	}
	if err != nil {
		c.say(locale.HostFault, err)
	}
}

func (c *console) submit(text string) error {
	if text == "" {
		c.say(locale.HostEmptyTask)
		return nil
	}
	id := uuid.NewString()
	if err := c.agent().SubmitTask(pipe.SubmitTask{TaskID: id, Instruction: text, Locale: c.lang}); err != nil {
		return err
	}
	c.mu.Lock()
	c.task = id
	c.mu.Unlock()
	c.say(locale.HostSent, id)
	return nil
}

func (c *console) abort(id string) error {
	c.mu.Lock()
	if id == "" {
		id = c.task
	}
	c.mu.Unlock()
	if id == "" {
		c.say(locale.HostNoTask)
		return nil
	}
	return c.agent().AbortTask(id, "stopped at the console")
}
