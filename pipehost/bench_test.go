package main

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/browser"
	"sgclaw/internal/journal"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// BenchmarkEffect is one effect from the activity to the browser and back,
// with journal on disk, policy and signature, and a browser that answers at
// once. Temporal is not in it.
func BenchmarkEffect(b *testing.B) { benchmarkAct(b, "click", `{"selector":"ref=e1"}`) }

// BenchmarkRead is the same without the journal.
func BenchmarkRead(b *testing.B) { benchmarkAct(b, "getText", `{"selector":"ref=e1"}`) }

func benchmarkAct(b *testing.B, action, params string) {
	log := slog.New(slog.DiscardHandler)
	fromHost, toAgent := io.Pipe()
	fromAgent, toHost := io.Pipe()
	key, err := pipe.DeriveKey([]byte("0123456789abcdef"))
	if err != nil {
		b.Fatal(err)
	}
	page := agent.Page{URL: "http://oa.example.com/", Domain: "oa.example.com"}
	client := browser.New(log, pipe.NewReader(fromHost), pipe.NewWriter(toHost), pipe.Handshake{Key: key, Init: pipe.Init{Page: &page}})
	go func() { _ = client.Run() }()
	go func() {
		r, w := pipe.NewReader(fromAgent), pipe.NewWriter(toAgent)
		for {
			line, err := r.Next()
			if err != nil {
				return
			}
			if bad := pipe.Verify(line, key); bad != nil {
				b.Error(bad)
			}
			_, seq := pipe.Peek(line)
			if w.Write(&pipe.Response{Seq: seq, Type: pipe.TypeResponse, Success: true, Data: &pipe.Data{Text: "ok", Page: &page}}) != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { _, _ = toAgent.Close(), fromAgent.Close() })
	j, err := journal.Open(b.Context(), log, b.TempDir(), "b1")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	r, err := policy.Parse([]byte(`{"version":"1.0","domains":{"allowed":["oa.example.com"]},
		"pipe_actions":{"allowed":["click","getText"],"blocked":[],"need_confirm":[]},"storage":{"key_prefix":"sgclaw."},
		"rate_limits":{"default":{"max_per_second":1000,"cooldown_seconds":1}}}`))
	if err != nil {
		b.Fatal(err)
	}
	// The clock runs ahead, so that no rate limit is met.
	clock := time.Now()
	ahead := func() time.Time { clock = clock.Add(time.Second); return clock }
	acts := activities.NewBrowser(log, client, j, policy.New(r, ahead), activities.BrowserConfig{})
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(acts.Act, activity.RegisterOptions{Name: activities.ActName})
	in := activities.ActInput{RunID: "run", Call: agent.Call{ID: "c", Action: action, Params: []byte(params)}}
	for b.Loop() {
		in.Step++
		v, err := env.ExecuteActivity(activities.ActName, in)
		if err != nil {
			b.Fatal(err)
		}
		var res agent.Result
		if err := v.Get(&res); err != nil || res.Outcome != agent.OutcomeDone {
			b.Fatal(res, err)
		}
	}
}
