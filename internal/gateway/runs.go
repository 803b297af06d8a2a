package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

type (
	runsListParams struct {
		SessionKey string `json:"sessionKey" oc:"min=1"`
		Browser    string `json:"browser"`
		Status     string `json:"status"`
		Search     string `json:"search" oc:"max=200"`
		Before     string `json:"before"`
		Limit      int    `json:"limit" oc:"min=1,max=200"`
	}
	runsListResult struct {
		Runs    []runInfo `json:"runs"`
		HasMore bool      `json:"hasMore"`
	}
	runInfo struct {
		RunID      string               `json:"runId"`
		SessionKey string               `json:"sessionKey"`
		Agent      string               `json:"agent"`
		Browser    string               `json:"browser"`
		Task       string               `json:"task"`
		Status     agent.Status         `json:"status"`
		Reason     string               `json:"reason"`
		Summary    string               `json:"summary"`
		Success    bool                 `json:"success"`
		Steps      int                  `json:"steps"`
		Usage      usageInfo            `json:"usage"`
		Models     map[string]usageInfo `json:"models"`
		Origin     originInfo           `json:"origin"`
		CreatedAt  time.Time            `json:"createdAt"`
		StartedAt  time.Time            `json:"startedAt,omitzero"`
		EndedAt    time.Time            `json:"endedAt,omitzero"`
		MaxSteps   int                  `json:"maxSteps"`
	}
	originInfo struct {
		Kind    string `json:"kind"`
		User    string `json:"user"`
		Channel string `json:"channel"`
	}
	runParams struct {
		RunID string `json:"runId" oc:"required,min=1"`
	}
	runDetail struct {
		Run           runInfo           `json:"run"`
		Steps         []stepInfo        `json:"steps"`
		Open          *openConfirmation `json:"open,omitempty"`
		QueuePosition *int              `json:"queuePosition,omitempty"`
	}
	openConfirmation struct {
		agent.Confirmation
		RunID string `json:"runId"`
	}
	stepInfo struct {
		Step        int             `json:"step"`
		Index       int             `json:"index"`
		Thinking    string          `json:"thinking"`
		Action      string          `json:"action,omitempty"`
		Params      json.RawMessage `json:"params,omitempty"`
		Outcome     agent.Outcome   `json:"outcome"`
		Code        string          `json:"code"`
		Observation string          `json:"observation"`
		PageURL     string          `json:"pageUrl"`
		DurationMs  int64           `json:"durationMs"`
		HasImage    bool            `json:"hasImage"`
	}
	imageParams struct {
		RunID string `json:"runId" oc:"required,min=1"`
		Step  int    `json:"step" oc:"required,min=0"`
		Index int    `json:"index" oc:"min=0"`
	}
	picture struct {
		MIME string `json:"mime"`
		Data string `json:"data"`
	}
	steerParams struct {
		RunID          string `json:"runId" oc:"required,min=1"`
		Text           string `json:"text" oc:"required,min=1"`
		IdempotencyKey string `json:"idempotencyKey" oc:"required,min=1,max=128"`
	}
	receiptResult struct {
		OK      bool            `json:"ok"`
		Receipt durable.Receipt `json:"receipt"`
	}
	abortParams struct {
		RunID  string `json:"runId" oc:"required,min=1"`
		Reason string `json:"reason" oc:"max=2000"`
	}
	rewindParams struct {
		RunID string `json:"runId" oc:"required,min=1"`
		Step  int    `json:"step" oc:"required,min=1"`
		Text  string `json:"text"`
	}
	rewindResult struct {
		RunID string `json:"runId"`
		Step  int    `json:"step"`
	}
	moveParams struct {
		RunID   string `json:"runId" oc:"required,min=1"`
		Browser string `json:"browser" oc:"required,min=1,max=128"`
	}
	confirmationsParams struct {
		SessionKey string `json:"sessionKey" oc:"min=1"`
	}
	confirmationsResult struct {
		Confirmations []askedInfo `json:"confirmations"`
	}
	askedInfo struct {
		RunID        string             `json:"runId"`
		SessionKey   string             `json:"sessionKey"`
		Browser      string             `json:"browser"`
		Task         string             `json:"task"`
		Confirmation agent.Confirmation `json:"confirmation"`
	}
	answerParams struct {
		RunID     string `json:"runId" oc:"required,min=1"`
		ConfirmID string `json:"confirmId" oc:"required,min=1"`
		Digest    string `json:"digest"`
		Approved  *bool  `json:"approved" oc:"required"`
		Note      string `json:"note" oc:"max=2000"`
		Scope     string `json:"scope" oc:"oneof=|run"`
	}
	answerResult struct {
		ConfirmID string `json:"confirmId"`
		Approved  bool   `json:"approved"`
	}
	pictureParams struct {
		RunID     string `json:"runId" oc:"required,min=1"`
		ConfirmID string `json:"confirmId" oc:"required,min=1"`
	}
)

// maxObservation bounds what of an observation a list of steps has, in bytes.
const maxObservation = 2000

func (g *Gateway) runInfo(r record.Run) runInfo {
	info := runInfo{
		RunID: r.ID, SessionKey: r.Session, Agent: r.Settings.Agent, Browser: r.Browser, Task: r.Task, Status: r.Status, Reason: r.Reason,
		Summary: r.Summary, Success: r.Status == agent.StatusDone && r.Reason == "", Steps: r.Steps, Usage: usageInfoOf(r.Usage),
		Models: map[string]usageInfo{}, Origin: originInfo{r.Origin.Kind, r.Origin.User, r.Origin.Channel},
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt, MaxSteps: r.Settings.MaxSteps,
	}
	if info.Agent == "" {
		info.Agent = g.agentOf(r.Session)
	}
	for name, u := range r.Models {
		info.Models[name] = usageInfoOf(u)
	}
	return info
}

// runOf returns a run, or RUN_NOT_FOUND.
func (g *Gateway) runOf(ctx context.Context, id string) (record.Run, error) {
	run, err := g.store.Run(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		err = openclaw.Refused(DetailRunNotFound, "no run %s", clipText(id, 128))
	}
	return run, err
}

// defaultRuns is how many runs a page has.
const defaultRuns = 50

func runsList(ctx context.Context, g *Gateway, _ *Call, p runsListParams) (any, error) {
	f := store.RunSearch{Browser: p.Browser, Status: agent.Status(p.Status), Text: p.Search, Before: p.Before, Limit: p.Limit}
	if p.SessionKey != "" {
		key, err := g.key(p.SessionKey, "")
		if err != nil {
			return nil, err
		}
		f.Session = key
	}
	if f.Limit == 0 {
		f.Limit = defaultRuns
	}
	f.Limit++ // one more tells whether there is more
	runs, err := g.store.SearchRuns(ctx, f)
	if err != nil {
		return nil, err
	}
	out := runsListResult{Runs: []runInfo{}, HasMore: len(runs) == f.Limit}
	for _, r := range runs[:min(len(runs), f.Limit-1)] {
		out.Runs = append(out.Runs, g.runInfo(r))
	}
	return out, nil
}

func runsGet(ctx context.Context, g *Gateway, _ *Call, p runParams) (any, error) {
	run, err := g.runOf(ctx, p.RunID)
	if err != nil {
		return nil, err
	}
	turns, err := g.store.Turns(ctx, p.RunID)
	if err != nil {
		return nil, err
	}
	out := runDetail{Run: g.runInfo(run), Steps: steps(turns)}
	if run.Status == agent.StatusQueued {
		if box, err := g.core.Inbox(ctx, run.Session); err == nil {
			if i := slices.Index(box.Queued, run.ID); i >= 0 {
				i++
				out.QueuePosition = &i
			}
		}
	}
	if run.Status.Final() {
		return out, nil
	}
	open, err := g.store.Confirmations(ctx, store.ConfirmationFilter{RunID: run.ID, Open: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		out.Open = &openConfirmation{open[0].Question, run.ID}
	}
	return out, nil
}

// steps lists the replies of a run and what came of their calls.
func steps(turns []record.Turn) []stepInfo {
	out := []stepInfo{}
	for _, t := range turns {
		switch {
		case t.Kind == record.TurnThought && t.Thought != nil:
			for i, c := range t.Thought.Calls {
				out = append(out, stepInfo{Step: t.Step, Index: i, Action: c.Action, Params: c.Params})
			}
			if len(t.Thought.Calls) == 0 {
				out = append(out, stepInfo{Step: t.Step})
			}
			first := slices.IndexFunc(out, func(s stepInfo) bool { return s.Step == t.Step })
			out[first].Thinking, out[first].DurationMs = t.Thought.Text, t.Thought.TookMS
		case t.Kind == record.TurnObservation && t.Observation != nil:
			o := t.Observation
			i := slices.IndexFunc(out, func(s stepInfo) bool { return s.Step == t.Step && s.Index == o.Index })
			if i < 0 {
				out, i = append(out, stepInfo{Step: t.Step, Index: o.Index, Action: o.Call.Action, Params: o.Call.Params}), len(out)
			}
			out[i].Outcome, out[i].Code, out[i].Observation = o.Outcome, o.Code, cut(o.Text, maxObservation)
			out[i].PageURL, out[i].HasImage = o.Page.URL, o.MIME != ""
			out[i].DurationMs += o.TookMS
		}
	}
	return out
}

// cut shortens a text to so many bytes, between characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}

func runsImage(ctx context.Context, g *Gateway, _ *Call, p imageParams) (any, error) {
	image, mime, err := g.store.StepImage(ctx, p.RunID, p.Step, p.Index)
	if errors.Is(err, record.ErrNotFound) {
		return nil, openclaw.Refused(DetailNotFound, "no picture of that step")
	}
	if err != nil {
		return nil, err
	}
	return picture{mime, base64.StdEncoding.EncodeToString(image)}, nil
}

func runsSteer(ctx context.Context, g *Gateway, c *Call, p steerParams) (any, error) {
	if _, err := g.runOf(ctx, p.RunID); err != nil {
		return nil, err
	}
	if len(p.Text) > agent.MaxInstruction {
		return nil, openclaw.Refused(DetailTooLong, "the instruction has %d bytes, the limit is %d", len(p.Text), agent.MaxInstruction)
	}
	receipt, err := g.core.Instruct(ctx, p.RunID, workflows.Instruction{ID: p.IdempotencyKey, Text: p.Text, By: c.Who.Name})
	if err != nil {
		return nil, err
	}
	return receiptResult{true, receipt}, nil
}

func runsAbort(ctx context.Context, g *Gateway, c *Call, p abortParams) (any, error) {
	run, err := g.store.Run(ctx, p.RunID)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return nil, err
	}
	if run.Status == agent.StatusAborted {
		return receiptResult{OK: true}, nil // said again
	}
	if err := g.audit(ctx, c, "abort", run.Session, p.RunID, reasonDetail{p.Reason}); err != nil {
		return nil, err
	}
	receipt, err := g.core.Abort(ctx, p.RunID, workflows.Abort{By: c.Who.Name, Reason: p.Reason})
	if errors.Is(err, durable.ErrRunOver) {
		// It may have been this client that aborted it, just now.
		if again, lookErr := g.store.Run(ctx, p.RunID); lookErr == nil && (again.Status == agent.StatusAborted || !again.Status.Final()) {
			return receiptResult{OK: true}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return receiptResult{true, receipt}, nil
}

type reasonDetail struct {
	Reason string `json:"reason,omitempty"`
}

func runsRewind(ctx context.Context, g *Gateway, c *Call, p rewindParams) (any, error) {
	run, err := g.runOf(ctx, p.RunID)
	if err != nil {
		return nil, err
	}
	if len(p.Text) > agent.MaxInstruction {
		return nil, openclaw.Refused(DetailTooLong, "the instruction has %d bytes, the limit is %d", len(p.Text), agent.MaxInstruction)
	}
	if err := g.audit(ctx, c, "rewind", run.Session, run.ID, rewindDetail{p.Step, p.Text}); err != nil {
		return nil, err
	}
	back, err := g.core.Rewind(ctx, run.ID, p.Step, workflows.Instruction{Text: p.Text, By: c.Who.Name})
	if err != nil {
		return nil, err
	}
	return rewindResult{back.RunID, back.Step}, nil
}

type rewindDetail struct {
	Step int    `json:"step"`
	Text string `json:"text,omitempty"`
}

func runsMove(ctx context.Context, g *Gateway, c *Call, p moveParams) (any, error) {
	run, err := g.runOf(ctx, p.RunID)
	if err != nil {
		return nil, err
	}
	if err := g.knownBrowser(ctx, p.Browser); err != nil {
		return nil, err
	}
	if err := g.audit(ctx, c, "move", run.Session, run.ID, moveDetail{run.Browser, p.Browser}); err != nil {
		return nil, err
	}
	receipt, err := g.core.Move(ctx, run.ID, workflows.Move{BrowserID: p.Browser, By: c.Who.Name})
	if err != nil {
		return nil, err
	}
	return receiptResult{true, receipt}, nil
}

type moveDetail struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// knownBrowser refuses a browser that never served anything.
func (g *Gateway) knownBrowser(ctx context.Context, id string) error {
	list, err := g.core.Browsers(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(b durable.Browser) bool { return b.ID == id }) {
		return openclaw.Refused(DetailBrowserNotFound, "no browser %q", clipText(id, 128))
	}
	return nil
}

func confirmationsList(ctx context.Context, g *Gateway, _ *Call, p confirmationsParams) (any, error) {
	key := ""
	if p.SessionKey != "" {
		var err error
		if key, err = g.key(p.SessionKey, ""); err != nil {
			return nil, err
		}
	}
	open, err := g.openApprovals(ctx, key)
	if err != nil {
		return nil, err
	}
	out := confirmationsResult{Confirmations: make([]askedInfo, len(open))}
	for i, q := range open {
		out.Confirmations[i] = askedInfo{q.RunID, q.run.Session, q.run.Browser, q.run.Task, q.Question}
	}
	return out, nil
}

func confirmationsAnswer(ctx context.Context, g *Gateway, c *Call, p answerParams) (any, error) {
	if _, err := g.runOf(ctx, p.RunID); err != nil {
		return nil, err
	}
	q, err := g.questionOf(ctx, p.RunID, p.ConfirmID)
	if errors.Is(err, record.ErrNotFound) {
		return nil, openclaw.Refused(openclaw.CodeApprovalNotFound, "no such confirmation")
	}
	if err != nil {
		return nil, err
	}
	if p.Digest != "" && p.Digest != q.Question.Digest {
		return nil, openclaw.Refused(DetailDigestMismatch, "what was shown is not what would be done; look again")
	}
	a := agent.Answer{ConfirmID: p.ConfirmID, Approved: *p.Approved, By: c.Who.Name, Note: p.Note, Digest: q.Question.Digest}
	if a.Approved {
		a.Scope = p.Scope
	}
	if _, err := g.answer(ctx, c, q, a); err != nil {
		return nil, err
	}
	return answerResult{p.ConfirmID, a.Approved}, nil
}

func confirmationsPicture(ctx context.Context, g *Gateway, _ *Call, p pictureParams) (any, error) {
	q, err := g.questionOf(ctx, p.RunID, p.ConfirmID)
	none := openclaw.Refused(DetailNotFound, "no picture of that confirmation")
	if errors.Is(err, record.ErrNotFound) || err == nil && q.Question.Ask.Picture == "" {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	body, err := g.core.Observation(ctx, q.run.Browser, q.Question.Ask.Picture)
	if errors.Is(err, durable.ErrNotFound) || err == nil && len(body.Image) == 0 {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	return picture{body.MIME, base64.StdEncoding.EncodeToString(body.Image)}, nil
}
