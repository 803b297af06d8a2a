//go:build linux

package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// dictated is a model whose replies are given: a task names a list of
// actions, which are called in order.
type dictated struct {
	mu    sync.Mutex
	lists map[string]func(n int) string // by a word in the task; gets the number of calls in the conversation
	asked map[string]chan struct{}      // closed when a list's model call hangs
}

// hang is an action that is none: the reply never comes.
const hang = "hang"

func (d *dictated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	said := string(body)
	for word, next := range d.lists {
		if !strings.Contains(said, word) {
			continue
		}
		args := next(strings.Count(said, `"role":"tool"`))
		if args == hang {
			d.mu.Lock()
			if c := d.asked[word]; c != nil {
				close(c)
				d.asked[word] = nil
			}
			d.mu.Unlock()
			<-r.Context().Done()
			return
		}
		time.Sleep(50 * time.Millisecond) // a model's latency
		reply(w, args)
		return
	}
	reply(w, "")
}

// reply streams a call of the browser tool as OpenAI does, or "done" if args
// is empty.
func reply(w http.ResponseWriter, args string) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		Index    int      `json:"index"`
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type delta struct {
		Role    string `json:"role"`
		Content string `json:"content,omitempty"`
		Calls   []call `json:"tool_calls,omitempty"`
	}
	type choice struct {
		Index  int    `json:"index"`
		Delta  delta  `json:"delta"`
		Finish string `json:"finish_reason"`
	}
	c := choice{Delta: delta{Role: "assistant", Content: "done"}, Finish: "stop"}
	if args != "" {
		c = choice{Delta: delta{Role: "assistant", Calls: []call{{ID: fmt.Sprintf("c%d", time.Now().UnixNano()), Type: "function", Function: function{action.ToolName, args}}}}, Finish: "tool_calls"}
	}
	b, err := json.Marshal(struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
	}{"c", "chat.completion.chunk", "dictated", []choice{c}})
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", b)
}

// withModel starts a stack with a dictated model. lists are made when the
// demo site's URL is known.
func withModel(t *testing.T, lists func(site string) map[string]func(n int) string) (*Stack, *dictated, *durable.Client) {
	t.Helper()
	d := &dictated{asked: map[string]chan struct{}{}}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	s := up(t, Config{Bin: builtBinaries(t), Env: []string{"SGCLAW_LLM_API_KEY=k", "SGCLAW_LLM_BASE_URL=" + srv.URL + "/v1", "SGCLAW_LLM_MODEL=dictated"}})
	d.lists = lists(s.SiteURL())
	c, err := s.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, d, c
}

func navigate(url string) string {
	return fmt.Sprintf(`{"action":"navigate","params":{"url":%q}}`, url)
}

// TestAbortIsFelt aborts a run in the middle of whatever may take long. That
// the run ends is held; how soon is printed.
func TestAbortIsFelt(t *testing.T) {
	const inModel, inBrowser, inQuestion = "HANG", "WAIT", "ASK"
	s, d, c := withModel(t, func(site string) map[string]func(int) string {
		list := func(calls ...string) func(int) string {
			return func(n int) string { return calls[min(n, len(calls)-1)] }
		}
		return map[string]func(int) string{
			inModel:    list(hang),
			inBrowser:  list(navigate(site+"/report"), `{"action":"waitForSelector","params":{"selector":"#never","timeout_ms":30000}}`),
			inQuestion: list(navigate(site+"/leave/LR-2001"), `{"action":"click","params":{"selector":"button[formaction]"}}`),
		}
	})
	for _, tt := range []struct {
		name, word string
		ready      func(run string) error // the run is where it is to be aborted
	}{
		{"in the middle of a model call", inModel, nil},
		{"in the middle of a wait in the browser", inBrowser, func(run string) error {
			st, err := c.State(t.Context(), run)
			if err == nil && (st.Step < 2 || st.Status != agent.StatusActing) {
				err = fmt.Errorf("step %d %s", st.Step, st.Status)
			}
			return err
		}},
		{"while a question is open", inQuestion, func(run string) error {
			st, err := c.State(t.Context(), run)
			if err == nil && st.Confirm == nil {
				err = fmt.Errorf("step %d %s", st.Step, st.Status)
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var took []time.Duration
			for range 5 {
				hangs := make(chan struct{})
				d.mu.Lock()
				d.asked[tt.word] = hangs
				d.mu.Unlock()
				run := runID(t)
				if _, err := c.StartTask(t.Context(), "", agent.Message{ID: run, Text: tt.word, BrowserID: BrowserID}); err != nil {
					t.Fatal(err)
				}
				if tt.ready == nil {
					select {
					case <-hangs:
					case <-time.After(30 * time.Second):
						t.Fatal("the model was not asked")
					}
				} else {
					poll(t, 30*time.Second, "the run gets to where it is aborted", func() (struct{}, error) { return struct{}{}, tt.ready(run) })
				}
				time.Sleep(200 * time.Millisecond) // into the middle
				began := time.Now()
				if _, err := c.Abort(t.Context(), run, workflows.Abort{By: "test"}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				out, err := c.WaitResult(ctx, run)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(began))
				if out.Status != agent.StatusAborted {
					t.Errorf("the run ended %s %s", out.Status, out.Reason)
				}
			}
			slices.Sort(took)
			t.Logf("abort %s: median %d ms, worst %d ms of %d", tt.name, took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds(), len(took))
		})
	}
	if n := len(s.Ledger().Entries); n != 0 {
		t.Errorf("the site got %d decisions", n)
	}
}

// TestRecovery kills each part of the stack in the middle of a run that does
// step after step. That the run goes on is held; how soon is printed.
func TestRecovery(t *testing.T) {
	s, _, c := withModel(t, func(site string) map[string]func(int) string {
		pages := []string{site + "/report", site + "/leave"}
		var n atomic.Int64 // not what the conversation has: old steps are folded
		return map[string]func(int) string{"STEPS": func(int) string { return navigate(pages[n.Add(1)%2]) }}
	})
	db, err := store.Open(t.Context(), s.Database(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := runID(t)
	if _, err := c.StartTask(t.Context(), "", agent.Message{ID: run, Text: "STEPS", BrowserID: BrowserID, Settings: agent.Settings{MaxSteps: 10000}}); err != nil {
		t.Fatal(err)
	}
	recorded := func() (int, error) {
		res, err := db.Result(t.Context(), run)
		if err == nil && res.Status.Final() {
			t.Fatalf("the run has ended: %s %s", res.Status, res.Reason)
		}
		n := 0
		for _, st := range res.Steps {
			if st.Outcome == agent.OutcomeDone {
				n++
			}
		}
		return n, err
	}
	after := func(n int) {
		poll(t, 90*time.Second, "the next step", func() (struct{}, error) {
			m, err := recorded()
			if err == nil && m <= n {
				err = fmt.Errorf("%d steps", m)
			}
			return struct{}{}, err
		})
	}
	after(2)
	for _, victim := range []string{Worker, pipehost, chromium, BrowserHost, Temporal, Postgres} {
		t.Run(victim, func(t *testing.T) {
			for i := range 3 {
				pid := s.find(victim)
				time.Sleep(time.Duration(70*i) * time.Millisecond) // another moment of the step
				n, err := recorded()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				again := make(chan time.Duration, 1)
				go func() {
					for {
						if p := s.find(victim); p != 0 && p != pid || time.Since(began) > time.Minute {
							again <- time.Since(began)
							return
						}
						time.Sleep(5 * time.Millisecond)
					}
				}()
				// One step may have been on its way into the record.
				after(n + 1)
				took, restart := time.Since(began), <-again
				t.Logf("SIGKILL of %s: it runs again after %.1f s, the next step but one is recorded %.1f s after that", victim, restart.Seconds(), (took - restart).Seconds())
				n, err = recorded()
				if err != nil {
					t.Fatal(err)
				}
				after(n + 2) // well under way again
			}
		})
	}
	if _, err := c.Abort(t.Context(), run, workflows.Abort{By: "test"}); err != nil {
		t.Error(err)
	}
}
