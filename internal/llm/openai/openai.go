// Package openai is the llm.Model over OpenAI's chat completions, for OpenAI
// itself and for the many services that speak the same (Config.BaseURL).
//
// It streams always, retries never and keeps no state. What services do
// differently is taken as it comes: usage that is left out, tool calls
// without id or with an index that does not tell them apart, a finish reason
// that does not fit the reply or is missing, a plain JSON answer where a
// stream was asked for, reasoning beside the text. What is not tolerated is a
// reply that may be only half of one: a stream that breaks off is an error of
// llm.ClassNetwork, however much of it has come.
//
// The key appears in the request and nowhere else: neither in errors nor in
// what the service sends back with them.
package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sgclaw/internal/llm"
)

// DefaultBaseURL is OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1/"

// DefaultIdleTimeout is how long a service may be silent, before the first
// piece of the reply and between two pieces. Reasoning models think before
// they speak.
const DefaultIdleTimeout = 2 * time.Minute

// Config says which service and model to use.
type Config struct {
	// APIKey may be empty for services that want none.
	APIKey string
	// BaseURL ends before "/chat/completions"; empty is DefaultBaseURL.
	BaseURL string
	Model   string
	// IdleTimeout is how long the service may be silent; 0 is
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// HTTPClient is used as it is, except for following redirects to another
	// host; nil is a client of its own without an overall timeout.
	HTTPClient *http.Client
	// MaxContextTokens overrides what is known of the model; 0 does not.
	MaxContextTokens int
	// Vision overrides what is known of the model; nil does not.
	Vision *bool
}

// Model is one model of one service. It may be used by many goroutines.
type Model struct {
	chat   openai.ChatCompletionService
	cfg    Config
	info   llm.Info
	family family
	// own says that the service is OpenAI's, which wants the reply's limit
	// under another name than its imitators.
	own bool
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration; it does not call the service.
func New(cfg Config) (*Model, error) {
	cfg.APIKey = strings.TrimSpace(cfg.APIKey)
	if cfg.Model == "" {
		return nil, errors.New("no model is named")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the model's base URL is not an absolute http or https URL")
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{}
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			t = t.Clone()
			t.MaxIdleConnsPerHost = 64 // a worker has many calls to one host
			cfg.HTTPClient.Transport = t
		}
	}
	f := familyOf(cfg.Model)
	m := &Model{
		cfg:    cfg,
		family: f,
		own:    u.Hostname() == "api.openai.com",
		info: llm.Info{
			Name:              "openai",
			Model:             cfg.Model,
			MaxContextTokens:  f.context,
			SupportsTools:     true,
			SupportsStreaming: true,
			SupportsVision:    f.vision,
		},
	}
	if cfg.MaxContextTokens > 0 {
		m.info.MaxContextTokens = cfg.MaxContextTokens
	}
	if cfg.Vision != nil {
		m.info.SupportsVision = *cfg.Vision
	}
	opts := []option.RequestOption{
		option.WithHTTPClient(cfg.HTTPClient),
		option.WithBaseURL(cfg.BaseURL),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	// The service is made by itself because the library's client would also
	// read OPENAI_* from the environment.
	m.chat = openai.NewChatCompletionService(opts...)
	return m, nil
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.info }

// family is what is known of models whose names begin alike.
type family struct {
	prefix    string
	context   int
	vision    bool
	reasoning bool // takes no temperature and no stop
}

// familyOf finds the longest prefix of the name after the last slash, which
// routers put the maker's name before.
func familyOf(model string) family {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	best := family{context: 32_768}
	for _, f := range []family{
		{"gpt-3.5", 16_385, false, false},
		{"gpt-4", 8_192, false, false},
		{"gpt-4-turbo", 128_000, true, false},
		{"gpt-4o", 128_000, true, false},
		{"gpt-4.1", 1_047_576, true, false},
		{"gpt-4.5", 128_000, true, false},
		{"gpt-5", 400_000, true, true},
		{"gpt-5-chat", 128_000, true, false},
		{"gpt-6", 400_000, true, true},
		{"o1", 200_000, true, true},
		{"o3", 200_000, true, true},
		{"o3-mini", 200_000, false, true},
		{"o4", 200_000, true, true},
		{"deepseek", 128_000, false, false},
		{"qwen", 131_072, false, false},
		{"qwen-vl", 131_072, true, false},
		{"qwen3-vl", 262_144, true, false},
		{"glm-4", 128_000, false, false},
		{"kimi", 131_072, false, false},
		{"moonshot-v1-8k", 8_192, false, false},
		{"moonshot-v1-32k", 32_768, false, false},
		{"moonshot-v1-128k", 131_072, false, false},
	} {
		if strings.HasPrefix(name, f.prefix) && len(f.prefix) > len(best.prefix) {
			best = f
		}
	}
	return best
}

// errIdle is the cause with which a silent request is cancelled.
var errIdle = errors.New("idle")

// Chat implements llm.Model.
func (m *Model) Chat(ctx context.Context, req llm.Request, onDelta func(text string)) (llm.Response, error) {
	params, err := m.params(req)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Message: err.Error()}
	}
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(m.cfg.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()

	ex := &exchange{alive: func() { idle.Reset(m.cfg.IdleTimeout) }}
	stream := m.chat.NewStreaming(callCtx, params, option.WithMiddleware(ex.watch))
	defer stream.Close() //nolint:errcheck // the request is over either way

	var r reply
	for stream.Next() {
		r.add(stream.Current(), onDelta)
	}
	if ctx.Err() != nil {
		return llm.Response{}, ctx.Err()
	}
	err = stream.Err()
	switch {
	case errors.Is(context.Cause(callCtx), errIdle) && r.finish == "":
		return llm.Response{}, &llm.Error{Class: llm.ClassNetwork, Message: fmt.Sprintf("nothing came for %s", m.cfg.IdleTimeout)}
	case ex.plain != nil:
		if err := r.addPlain(ex.plain, onDelta); err != nil {
			return llm.Response{}, m.clean(err)
		}
	case err != nil && r.finish != "":
		// The reply was whole; only what follows it (usage, the end mark)
		// was lost.
	case err != nil:
		return llm.Response{}, m.clean(ex.classify(err))
	case r.finish == "" && !ex.done:
		return llm.Response{}, m.clean(ex.cut(r.chunks))
	}
	resp, err := r.response()
	if err != nil {
		return llm.Response{}, m.clean(err)
	}
	if resp.Model == "" {
		resp.Model = m.cfg.Model
	}
	return resp, nil
}
