package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/llm"
	"sgclaw/internal/record"
)

// kept is a record of one session, in memory; what these tests need of it.
type kept struct {
	activities.Record
	session *record.Session // nil: there is none
	ensured string          // the agent that was recorded
	final   bool            // the run is over
	known   bool            // the message came before
	browser string
	begun   agent.Settings
}

func (k *kept) Session(context.Context, string) (record.Session, error) {
	if k.session == nil {
		return record.Session{}, record.ErrNotFound
	}
	return *k.session, nil
}

func (k *kept) EnsureSession(_ context.Context, _, agent string) error {
	k.ensured = agent
	return nil
}

func (k *kept) AcceptMessage(_ context.Context, _ string, m agent.Message) (bool, error) {
	k.browser = m.BrowserID
	return !k.known, nil
}

func (k *kept) Run(context.Context, string) (record.Run, error) {
	r := record.Run{Status: agent.StatusQueued, Settings: k.begun}
	if k.final {
		r.Status = agent.StatusDone
	}
	return r, nil
}

func (k *kept) BeginRun(_ context.Context, _ record.Fence, b record.Begin) (record.Run, error) {
	k.begun = b.Settings
	return record.Run{Settings: b.Settings}, nil
}

func (k *kept) SetBreaker(context.Context, string, func(critic.Breaker) critic.Breaker) error {
	return nil
}

// office has a default agent and one that may do little.
func office() activities.AgentConfig {
	all := agent.Settings{MaxSteps: 50, MaxTaskS: 600, Locale: "zh"}
	little := all
	little.MaxSteps, little.Model, little.Actions, little.Domains = 10, "small", []string{"click", "getText"}, []string{"oa.example.com"}
	little.ConfirmActions = []string{"click"}
	little.Context = agent.ContextOptions{Strategy: agent.StrategyLite}
	return activities.AgentConfig{
		Browser: "desk", Default: "main", Mode: agent.ModeQueue,
		Agents: map[string]activities.Profile{
			"main": {Settings: all},
			"oa":   {Settings: little, Browser: "oa-1", Mode: agent.ModeSteer},
		},
	}
}

func execute[T any](t *testing.T, k *kept, cfg activities.AgentConfig, name string, in any) (T, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	e := suite.NewTestActivityEnvironment()
	a := activities.NewAgent(slog.New(slog.DiscardHandler), k, nil, nil, nil, cfg)
	e.RegisterActivityWithOptions(a.Accept, activity.RegisterOptions{Name: activities.AcceptName})
	e.RegisterActivityWithOptions(a.Begin, activity.RegisterOptions{Name: activities.BeginName})
	var out T
	v, err := e.ExecuteActivity(name, in)
	if err != nil {
		return out, err
	}
	return out, v.Get(&out)
}

func TestAcceptSaysWhatBecomesOfAMessage(t *testing.T) {
	with := func(s record.SessionSettings) *record.Session { return &record.Session{Agent: "oa", Settings: s} }
	for _, tt := range []struct {
		name    string
		session *record.Session
		message agent.Message
		mode    agent.Mode
		browser string
		ensured string
	}{
		{"nothing says", nil, agent.Message{}, agent.ModeQueue, "desk", ""},
		{"the agent", nil, agent.Message{Agent: "oa"}, agent.ModeSteer, "oa-1", "oa"},
		{"the session's agent", with(record.SessionSettings{}), agent.Message{}, agent.ModeSteer, "oa-1", ""},
		{"the session", with(record.SessionSettings{Mode: agent.ModeInterrupt, Browser: "oa-2"}), agent.Message{}, agent.ModeInterrupt, "oa-2", ""},
		{"the message", with(record.SessionSettings{Mode: agent.ModeInterrupt, Browser: "oa-2"}), agent.Message{Mode: agent.ModeQueue, BrowserID: "b"}, agent.ModeQueue, "b", ""},
		{"an agent that is not there", nil, agent.Message{Agent: "sales"}, agent.ModeQueue, "desk", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kept{session: tt.session}
			res, err := execute[activities.AcceptResult](t, k, office(), activities.AcceptName, activities.AcceptInput{Session: "s", Message: tt.message})
			if err != nil {
				t.Fatal(err)
			}
			if res.Mode != tt.mode || res.Final || k.browser != tt.browser || k.ensured != tt.ensured {
				t.Errorf("%+v, browser %s, agent %q on record", res, k.browser, k.ensured)
			}
		})
	}
	k := &kept{known: true, final: true}
	res, err := execute[activities.AcceptResult](t, k, office(), activities.AcceptName, activities.AcceptInput{Session: "s", Message: agent.Message{Mode: agent.ModeSteer}})
	if err != nil || !res.Final {
		t.Errorf("a message from long ago: %+v, %v", res, err)
	}
}

func TestBeginFreezesTheAgentsSettings(t *testing.T) {
	lite := agent.ContextOptions{Strategy: agent.StrategyLite}
	full := agent.ContextOptions{Strategy: agent.StrategyFull}
	oa := agent.Settings{
		Agent: "oa", MaxSteps: 10, MaxTaskS: 600, Locale: "zh", Model: "small", ConfirmActions: []string{"click"},
		Actions: []string{"click", "getText"}, Domains: []string{"oa.example.com"}, Context: lite,
	}
	change := func(f func(s *agent.Settings)) agent.Settings {
		s := oa
		f(&s)
		return s
	}
	for _, tt := range []struct {
		name    string
		session *record.Session
		message agent.Message
		want    agent.Settings
		browser string
	}{
		{"the default one", nil, agent.Message{}, agent.Settings{Agent: "main", MaxSteps: 50, MaxTaskS: 600, Locale: "zh"}, "desk"},
		{"the message's", nil, agent.Message{Agent: "oa"}, oa, "oa-1"},
		{"the session's", &record.Session{Agent: "oa"}, agent.Message{Origin: agent.Origin{Locale: "en"}}, change(func(s *agent.Settings) { s.Locale = "en" }), "oa-1"},
		{
			"with the session's settings", &record.Session{Agent: "oa", Settings: record.SessionSettings{Model: "big", Browser: "b2", Context: &full}},
			agent.Message{}, change(func(s *agent.Settings) { s.Model, s.Context = "big", full }), "b2",
		},
		{
			"with the message's settings", &record.Session{Agent: "oa", Settings: record.SessionSettings{Model: "big"}},
			agent.Message{Settings: agent.Settings{MaxSteps: 3, Model: "tiny", Context: full}},
			change(func(s *agent.Settings) { s.MaxSteps, s.Model, s.Context = 3, "tiny", full }), "oa-1",
		},
		{
			"a message lifts no limit", &record.Session{Agent: "oa"},
			agent.Message{Settings: agent.Settings{Actions: []string{"type", "click"}, Domains: []string{"*.example.com"}, ConfirmActions: []string{"type"}}},
			change(func(s *agent.Settings) { s.Actions, s.ConfirmActions = []string{"click"}, []string{"type", "click"} }), "oa-1",
		},
		{
			"nothing is left to do", &record.Session{Agent: "oa"}, agent.Message{Settings: agent.Settings{Actions: []string{"type"}}},
			change(func(s *agent.Settings) { s.Actions = []string{"none"} }), "oa-1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &kept{session: tt.session}
			res, err := execute[activities.BeginResult](t, k, office(), activities.BeginName, activities.BeginInput{
				Session: "s", Message: tt.message, StartedAt: time.Now(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(res.Settings, tt.want); d != "" || res.Browser != tt.browser {
				t.Errorf("browser %s, settings (-got +want):\n%s", res.Browser, d)
			}
			if d := cmp.Diff(k.begun, tt.want); d != "" {
				t.Errorf("on record (-got +want):\n%s", d)
			}
		})
	}
}

func TestBeginWithoutTheAgent(t *testing.T) {
	for _, cfg := range []activities.AgentConfig{office(), {}} {
		k := &kept{}
		_, err := execute[activities.BeginResult](t, k, cfg, activities.BeginName, activities.BeginInput{Session: "s", Message: agent.Message{Agent: "sales"}})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != activities.ErrNoAgent || !app.NonRetryable() || app.Message() != "sales" {
			t.Errorf("got %v", err)
		}
	}
}

// TestThinkAsksTheRunsModel also with what its agent may do, and no more.
func TestThinkAsksTheRunsModel(t *testing.T) {
	cfg := office()
	cfg.Models = func(name string) (llm.Model, error) {
		return nil, errors.New("there is no " + name)
	}
	k := &thinking{kept: kept{begun: cfg.Agents["oa"].Settings}}
	var suite testsuite.WorkflowTestSuite
	e := suite.NewTestActivityEnvironment()
	a := activities.NewAgent(slog.New(slog.DiscardHandler), k, named("large"), nil, nil, cfg)
	e.RegisterActivityWithOptions(a.Think, activity.RegisterOptions{Name: activities.ThinkName})
	_, err := e.ExecuteActivity(activities.ThinkName, activities.ThinkInput{RunID: "r", Step: 1})
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.ErrModelFinal || app.Message() != "model small: there is no small" {
		t.Errorf("got %v", err)
	}
}

// thinking is a record without a reply yet.
type thinking struct{ kept }

func (*thinking) Thought(context.Context, record.Fence) (*record.Thought, error) { return nil, nil }

// named is a model that is never asked.
type named string

func (named) Chat(context.Context, llm.Request, func(string)) (llm.Response, error) {
	return llm.Response{}, errors.New("asked")
}

func (n named) Info() llm.Info { return llm.Info{Model: string(n)} }
