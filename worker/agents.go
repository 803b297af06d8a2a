package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/config"
	"sgclaw/internal/llm"
	"sgclaw/internal/llm/openai"
	"sgclaw/internal/policy"
	"sgclaw/internal/prompt"
)

// profiles are the configured agents by id. template is that of agents
// without one of their own, and lang the language of runs that name none.
func profiles(log *slog.Logger, cfg *config.Config, template *prompt.Template, lang string) (map[string]activities.Profile, error) {
	out := map[string]activities.Profile{}
	for _, a := range cfg.Profiles() {
		p := activities.Profile{Settings: cfg.SettingsFor(a), Template: template, Browser: a.Browser, Mode: a.Mode}
		if p.Settings.Locale == "" {
			p.Settings.Locale = lang
		}
		if a.SystemPromptTemplate != "" {
			t, err := prompt.Load(a.SystemPromptTemplate)
			if err != nil {
				return nil, fmt.Errorf("agent %s: %w", a.ID, err)
			}
			p.Template = t
		}
		if a.RulesPath != "" {
			rules, err := policy.Load(a.RulesPath)
			if err != nil {
				return nil, fmt.Errorf("agent %s: %w", a.ID, err)
			}
			if rules.AsksByElement() {
				log.Warn("rules of an agent: confirm_when holds in the browser host's rules only", "agent", a.ID, "file", a.RulesPath)
			}
			if err := limit(&p.Settings, rules); err != nil {
				return nil, fmt.Errorf("agent %s: %s: %w", a.ID, a.RulesPath, err)
			}
		}
		out[a.ID] = p
	}
	return out, nil
}

// limit holds an agent to its rules. An empty list is no limit to a run, so
// rules that leave nothing are an error.
func limit(s *agent.Settings, rules *policy.Rules) error {
	var actions []string
	for _, name := range rules.Actions() {
		if len(s.Actions) == 0 || slices.Contains(s.Actions, name) {
			actions = append(actions, name)
		}
	}
	s.Actions, s.Domains = actions, rules.Domains()
	if len(s.Actions) == 0 {
		return errors.New("the rules and tools leave the agent no action")
	}
	if len(s.Domains) == 0 {
		return errors.New("the rules leave the agent no domain")
	}
	for _, name := range rules.Confirmed() {
		if !slices.Contains(s.ConfirmActions, name) {
			s.ConfirmActions = append(s.ConfirmActions[:len(s.ConfirmActions):len(s.ConfirmActions)], name)
		}
	}
	return nil
}

// maxModels bounds how many models are kept ready. People may name any for a
// session.
const maxModels = 64

// models makes models of the configured service by their names.
type models struct {
	cfg openai.Config

	mu   sync.Mutex
	made map[string]llm.Model
}

func newModels(cfg openai.Config) *models { return &models{cfg: cfg, made: map[string]llm.Model{}} }

// named returns the model with the name, always the same one if there are
// not too many.
func (m *models) named(name string) (llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.made[name]; ok {
		return known, nil
	}
	cfg := m.cfg
	if name != cfg.Model {
		// What is configured of the window is of the configured model.
		cfg.Model, cfg.MaxContextTokens = name, 0
	}
	model, err := openai.New(cfg)
	if err != nil {
		return nil, err
	}
	if len(m.made) < maxModels {
		m.made[name] = model
	}
	return model, nil
}
