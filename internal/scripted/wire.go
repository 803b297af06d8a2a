package scripted

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// chatRequest is what the server reads of a request.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Tools         []chatTool    `json:"tools"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatTool struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []wireCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// text is the content, a string or a list of parts.
func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

type wireCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type wireMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type wireChoice struct {
	Index        int          `json:"index"`
	Delta        *wireMessage `json:"delta,omitempty"`
	Message      *wireMessage `json:"message,omitempty"`
	FinishReason *string      `json:"finish_reason"`
}

type wireUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

type completion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
}

type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelInfo `json:"data"`
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// writer sends one reply, streamed or whole.
type writer struct {
	w     http.ResponseWriter
	r     *http.Request
	req   chatRequest
	opt   Options
	fault Fault
	id    string
	at    int64
	in    int // bytes of the request
	out   int // pieces sent
}

func newWriter(w http.ResponseWriter, r *http.Request, req chatRequest, opt Options, f Fault, in int) *writer {
	if req.Model == "" {
		req.Model = "scripted"
	}
	return &writer{w: w, r: r, req: req, opt: opt, fault: f, id: newID("chatcmpl-"), at: time.Now().Unix(), in: in}
}

// write sends the reply and reports whether all of it was sent.
func (o *writer) write(rep reply) bool {
	finish := "stop"
	if len(rep.calls) > 0 {
		finish = "tool_calls"
	}
	if o.fault.Kind == FaultLength {
		finish = "length"
	}
	var calls []wireCall
	for i, c := range rep.calls {
		wc := wireCall{Index: &i, ID: newID("call_"), Type: "function", Function: wireFunction{c.name, string(c.args)}}
		if o.fault.Kind == FaultNoID {
			wc.ID = ""
		}
		calls = append(calls, wc)
	}
	if !o.wait(o.opt.FirstToken) {
		return false
	}
	if !o.req.Stream {
		return o.whole(rep.text, calls, finish)
	}
	o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	o.w.Header().Set("Cache-Control", "no-cache")
	return o.stream(rep.text, calls, finish)
}

func (o *writer) usage(text string, calls []wireCall) *wireUsage {
	n := len(text)
	for _, c := range calls {
		n += len(c.Function.Name) + len(c.Function.Arguments)
	}
	u := &wireUsage{PromptTokens: o.in/4 + 1, CompletionTokens: n/4 + 1}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func (o *writer) whole(text string, calls []wireCall, finish string) bool {
	for i := range calls {
		calls[i].Index = nil
	}
	c := completion{
		ID: o.id, Object: "chat.completion", Created: o.at, Model: o.req.Model,
		Choices: []wireChoice{{Message: &wireMessage{Role: "assistant", Content: &text, ToolCalls: calls}, FinishReason: &finish}},
	}
	if o.fault.Kind != FaultNoUsage {
		c.Usage = o.usage(text, calls)
	}
	o.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(o.w).Encode(c) == nil
}

func (o *writer) stream(text string, calls []wireCall, finish string) bool {
	empty := ""
	if !o.delta(wireMessage{Role: "assistant", Content: &empty}, nil) {
		return false
	}
	for _, p := range pieces(text, 4) {
		if !o.delta(wireMessage{Content: &p}, nil) {
			return false
		}
	}
	for _, c := range calls {
		args := c.Function.Arguments
		c.Function.Arguments = ""
		if !o.delta(wireMessage{ToolCalls: []wireCall{c}}, nil) {
			return false
		}
		for _, p := range pieces(args, 12) {
			if !o.delta(wireMessage{ToolCalls: []wireCall{{Index: c.Index, Function: wireFunction{Arguments: p}}}}, nil) {
				return false
			}
		}
		c.Function.Arguments = args
	}
	switch o.fault.Kind {
	case FaultCut:
		// The server closes the connection without ending the body.
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut a connection
	case FaultHang:
		<-o.r.Context().Done()
		return false
	}
	if !o.delta(wireMessage{}, &finish) {
		return false
	}
	if o.req.StreamOptions.IncludeUsage && o.fault.Kind != FaultNoUsage {
		if !o.send(completion{Choices: []wireChoice{}, Usage: o.usage(text, calls)}) {
			return false
		}
	}
	return o.line("[DONE]")
}

func (o *writer) delta(m wireMessage, finish *string) bool {
	if o.out > 0 && !o.wait(o.opt.PerToken) {
		return false
	}
	o.out++
	return o.send(completion{Choices: []wireChoice{{Delta: &m, FinishReason: finish}}})
}

func (o *writer) send(c completion) bool {
	c.ID, c.Object, c.Created, c.Model = o.id, "chat.completion.chunk", o.at, o.req.Model
	b, err := json.Marshal(c)
	return err == nil && o.line(string(b))
}

func (o *writer) line(data string) bool {
	if _, err := o.w.Write([]byte("data: " + data + "\n\n")); err != nil {
		return false
	}
	return http.NewResponseController(o.w).Flush() == nil
}

// wait waits, unless the client leaves.
func (o *writer) wait(d time.Duration) bool {
	if d <= 0 {
		return o.r.Context().Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-o.r.Context().Done():
		return false
	}
}

// pieces cuts a text into pieces of n characters.
func pieces(s string, n int) []string {
	runes := []rune(s)
	var out []string
	for len(runes) > 0 {
		k := min(n, len(runes))
		out = append(out, string(runes[:k]))
		runes = runes[k:]
	}
	return out
}
