package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sgclaw/internal/history"
	"sgclaw/internal/llm"
	"sgclaw/internal/prompt"
	"sgclaw/internal/record"
	"sgclaw/internal/tokens"
)

// Defaults of AgentConfig.History (seed 001 §7.1).
const (
	defaultMessages = 50
	defaultTokens   = 8000
)

// summaryTime bounds the one model call for a summary: a run rather begins
// with less of the past than late.
const summaryTime = 90 * time.Second

// Prepare fixes what the run is shown of its session's past: the newest of it
// word for word, and a summary of the rest. The model is asked only if there
// is something to sum up that no summary covers. Trouble with the model makes
// a note and not an error: the run then goes on without what does not fit.
func (a *Agent) Prepare(ctx context.Context) (PrepareResult, error) {
	runID := RunID(ctx, "")
	run, err := a.record.Run(ctx, runID)
	if err != nil {
		return PrepareResult{}, fault(err)
	}
	if !prompt.WantsPast(run.Settings.Context) {
		return PrepareResult{}, nil
	}
	past, err := a.record.Past(ctx, run.Session, runID)
	if err != nil {
		return PrepareResult{}, fault(err)
	}
	if past.Summary == nil && len(past.Parts) == 0 {
		return PrepareResult{}, nil
	}
	model, err := a.modelOf(run.Settings)
	name := run.Settings.Model
	if err == nil {
		name = model.Info().Model
	}
	counter := tokens.For(name)
	o := history.Options{
		Limits: a.cfg.History, Locale: run.Settings.Locale, Size: prompt.Size(counter.Count, run.Marker, run.Settings.Locale),
	}
	if o.Limits.Messages <= 0 {
		o.Limits.Messages = defaultMessages
	}
	if o.Limits.Tokens <= 0 {
		o.Limits.Tokens = defaultTokens
	}
	choice := history.Choose(past, o)
	res := PrepareResult{}
	if len(choice.Older) > 0 {
		tight := o
		tight.Tight, tight.Reserve = true, o.Limits.Tokens/4
		shorter := history.Choose(past, tight)
		sum, err := a.sumUp(ctx, model, run, past.Summary, shorter.Older, counter, tight)
		switch {
		case ctx.Err() != nil:
			return PrepareResult{}, ctx.Err()
		case errors.Is(err, errNoSummary):
			res.Note = fmt.Sprintf("the oldest %d parts of the session's past are left out: %v", len(choice.Older), err)
			a.log.Warn("past not summed up", "run_id", runID, "session", run.Session, "err", err)
		case err != nil:
			return PrepareResult{}, fault(err)
		default:
			choice = shorter
			choice.Context.Summary = sum.Text
			res.Summarised = true
			res.Usage = Tokens{sum.Usage.PromptTokens, sum.Usage.CompletionTokens}
		}
	}
	kept, err := a.record.SaveContext(ctx, fence(ctx, runID, 0), choice.Context)
	if err != nil {
		return PrepareResult{}, fault(err)
	}
	res.Messages, res.Tokens = len(kept.Turns), o.Size(kept)
	return res, nil
}

// errNoSummary: the model gave none. The message says why.
var errNoSummary = errors.New("no summary")

// sumUp asks the model for a summary that carries the earlier one on, and
// keeps it.
func (a *Agent) sumUp(ctx context.Context, model llm.Model, run record.Run, before *record.Summary, older []record.Part, counter tokens.Counter, o history.Options) (record.Summary, error) {
	if model == nil {
		return record.Summary{}, fmt.Errorf("%w: no model is configured", errNoSummary)
	}
	// Past its marks and its title a summary has this many tokens.
	most := o.Reserve - o.Size(record.Context{Summary: "-"})
	if most < minSummary {
		return record.Summary{}, fmt.Errorf("%w: the limit of %d tokens leaves no room for one", errNoSummary, o.Limits.Tokens)
	}
	earlier := ""
	if before != nil {
		earlier = before.Text
	}
	room := model.Info().MaxContextTokens
	if room <= 0 || room > summaryInput {
		room = summaryInput
	}
	// A token is at least one byte; of usual text it is some three.
	req := prompt.SumUp(prompt.SummaryInput{
		Locale: run.Settings.Locale, Marker: run.Marker, Earlier: earlier, MaxTokens: most,
		Text: history.Text(older, run.Settings.Locale, max(2000, 2*(room-most)-len(earlier))),
	})
	asking, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	began := time.Now()
	resp, err := model.Chat(asking, req, nil)
	if err != nil {
		return record.Summary{}, fmt.Errorf("%w: %s", errNoSummary, modelTrouble(err))
	}
	a.meter.Reply(ctx, resp.Model, resp.Usage, time.Since(began))
	text := strings.TrimSpace(resp.Text)
	if text == "" || resp.Finish == llm.FinishFilter {
		return record.Summary{}, fmt.Errorf("%w: the model's reply was empty or withheld", errNoSummary)
	}
	last := older[len(older)-1]
	sum := record.Summary{
		Text: fitSummary(text, o, counter), UpTo: last.At, UpToID: last.ID, Model: resp.Model, Usage: resp.Usage, At: time.Now(),
	}
	return sum, a.record.SaveSummary(ctx, run.Session, sum)
}

// Bounds of a summary and of what it is made from, in tokens.
const (
	minSummary   = 40
	summaryInput = 24_000
)

// fitSummary cuts a summary to what is kept free for it.
func fitSummary(text string, o history.Options, counter tokens.Counter) string {
	for n := o.Reserve; n > 0 && o.Size(record.Context{Summary: text}) > o.Reserve; n -= max(1, n/20) {
		text = counter.Cut(text, n)
	}
	return text
}

// modelTrouble tells of a failed call without what a service may have sent.
func modelTrouble(err error) string {
	if e := llm.AsError(err); e != nil {
		return "the model could not be asked: " + string(e.Class)
	}
	return "the model did not answer in time"
}

// runtimeOf is what a run may be told of its surroundings.
func runtimeOf(run record.Run) prompt.Runtime {
	return prompt.Runtime{
		Time: run.StartedAt, Browser: run.Browser, Channel: run.Origin.Channel, User: run.Origin.User, Session: run.Session,
	}
}
