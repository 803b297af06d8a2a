package gateway

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// question is a confirmation and the run that asks it.
type question struct {
	store.Confirmation
	run record.Run
}

// What the store says of a confirmation.
const (
	decisionOpen     = "open"
	decisionApproved = "approved"
	decisionRejected = "rejected"
	decisionExpired  = "expired"
)

// confirmForm is what follows the run's id in a confirmation's (see
// workflows).
var confirmForm = regexp.MustCompile(`-c\d+-`)

// question finds a confirmation by its id.
func (g *Gateway) question(ctx context.Context, id string) (question, error) {
	at := confirmForm.FindAllStringIndex(id, -1)
	for _, i := range slices.Backward(at) {
		q, err := g.questionOf(ctx, id[:i[0]], id)
		if !errors.Is(err, record.ErrNotFound) {
			return q, err
		}
	}
	return question{}, openclaw.ApprovalNotFound()
}

// questionOf finds a confirmation of a run; record.ErrNotFound if there is
// none.
func (g *Gateway) questionOf(ctx context.Context, runID, id string) (question, error) {
	run, err := g.store.Run(ctx, runID)
	if err != nil {
		return question{}, err
	}
	list, err := g.store.Confirmations(ctx, store.ConfirmationFilter{RunID: runID, Limit: 1000})
	if err != nil {
		return question{}, err
	}
	i := slices.IndexFunc(list, func(c store.Confirmation) bool { return c.Question.ID == id })
	if i < 0 {
		return question{}, record.ErrNotFound
	}
	return question{list[i], run}, nil
}

// openApprovals lists the questions that wait for an answer, of one session
// or of all.
func (g *Gateway) openApprovals(ctx context.Context, key string) ([]question, error) {
	list, err := g.store.Confirmations(ctx, store.ConfirmationFilter{Open: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	return g.questions(ctx, list, func(run record.Run) bool {
		return (key == "" || run.Session == key) && !run.Status.Final()
	})
}

// questions adds the runs, and leaves out those that keep does not want.
func (g *Gateway) questions(ctx context.Context, list []store.Confirmation, keep func(record.Run) bool) ([]question, error) {
	out := []question{}
	runs := map[string]record.Run{}
	for _, c := range list {
		run, ok := runs[c.RunID]
		if !ok {
			var err error
			if run, err = g.store.Run(ctx, c.RunID); err != nil {
				return nil, err
			}
			runs[c.RunID] = run
		}
		if keep(run) {
			out = append(out, question{c, run})
		}
	}
	return out, nil
}

// approval is the question as OpenClaw's clients know it.
func (q question) approval(g *Gateway) openclaw.Approval {
	agentID := q.agent(g)
	a := openclaw.Approval{
		ID: q.Question.ID, URLPath: "/#/runs/" + q.RunID, CreatedAtMs: millis(q.Question.Since), ExpiresAtMs: expires(q.Question),
		Presentation: openclaw.ApprovalPresentation{
			Kind: openclaw.KindExec, CommandText: approvalCommand(q.Question), WarningText: approvalWarning(q.Question), Host: q.Question.Ask.Domain,
			AgentID: agentID, AllowedDecisions: approvalDecisions(),
		},
	}
	if q.Decision == decisionOpen {
		a.Status, a.SourceSessionKey = openclaw.ApprovalPending, q.run.Session
		return a
	}
	a.ResolvedAtMs, a.Source = millis(q.DecidedAt), &openclaw.ApprovalSource{AgentID: agentID, SessionKey: q.run.Session}
	if q.By != "" {
		a.Resolver = &openclaw.ApprovalResolver{Kind: openclaw.ResolverDevice, ID: q.By}
	}
	switch q.Decision {
	case decisionApproved:
		a.Status, a.Decision, a.Reason = openclaw.ApprovalAllowed, openclaw.AllowOnce, openclaw.ReasonUser
	case decisionRejected:
		a.Status, a.Decision, a.Reason = openclaw.ApprovalDenied, openclaw.Deny, openclaw.ReasonUser
	case decisionExpired:
		a.Status, a.Reason = openclaw.ApprovalExpired, openclaw.ReasonTimeout
	default:
		a.Status, a.Reason = openclaw.ApprovalCancelled, openclaw.ReasonRunAborted
	}
	return a
}

func (q question) agent(g *Gateway) string {
	if q.run.Settings.Agent != "" {
		return q.run.Settings.Agent
	}
	return g.agentOf(q.run.Session)
}

func execApprovalList(ctx context.Context, g *Gateway, c *Call, _ openclaw.None) (any, error) {
	open, err := g.openApprovals(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make([]openclaw.ApprovalRequested, len(open))
	for i, q := range open {
		out[i] = approvalRequest(q.Question, q.run.Session, q.agent(g), q.RunID)
	}
	return out, nil
}

func execApprovalGet(ctx context.Context, g *Gateway, c *Call, p openclaw.ApprovalGetParams) (any, error) {
	q, err := g.question(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	if q.Decision != decisionOpen || q.run.Status.Final() {
		return nil, openclaw.ApprovalNotFound()
	}
	return openclaw.ExecApproval{
		ID: p.ID, CommandText: approvalCommand(q.Question), CommandPreview: approvalWarning(q.Question), AllowedDecisions: approvalDecisions(),
		Host: q.Question.Ask.Domain, AgentID: q.agent(g), ExpiresAtMs: expires(q.Question),
	}, nil
}

func execApprovalResolve(ctx context.Context, g *Gateway, c *Call, p openclaw.ExecApprovalResolveParams) (any, error) {
	if err := unsupported("exec.approval.resolve", p); err != nil {
		return nil, err
	}
	if !slices.Contains(approvalDecisions(), p.Decision) {
		return nil, openclaw.Invalid("invalid decision")
	}
	if _, err := g.resolve(ctx, c, p.ID, p.Decision); err != nil {
		return nil, err
	}
	return struct {
		OK bool `json:"ok"`
	}{true}, nil
}

func approvalGet(ctx context.Context, g *Gateway, c *Call, p openclaw.ApprovalGetParams) (any, error) {
	q, err := g.question(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	return openclaw.ApprovalGot{Approval: q.approval(g)}, nil
}

func approvalResolve(ctx context.Context, g *Gateway, c *Call, p openclaw.ApprovalResolveParams) (any, error) {
	if err := unsupported("approval.resolve", p); err != nil {
		return nil, err
	}
	if p.Kind != openclaw.KindExec {
		return nil, openclaw.ApprovalNotFound()
	}
	applied, err := g.resolve(ctx, c, p.ID, p.Decision)
	if err != nil {
		return nil, err
	}
	q, err := g.decided(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	a := q.approval(g)
	switch a.Status {
	case openclaw.ApprovalPending:
		// The run has the answer, and its record has not yet.
		a = resolvedNow(a, p.Decision)
		a.Resolver = &openclaw.ApprovalResolver{Kind: openclaw.ResolverDevice, ID: c.Who.Name}
	case openclaw.ApprovalAllowed:
		a.Decision = p.Decision
	}
	return openclaw.ApprovalResult{Applied: applied, Approval: a}, nil
}

func resolvedNow(a openclaw.Approval, decision string) openclaw.Approval {
	a.Source = &openclaw.ApprovalSource{AgentID: a.Presentation.AgentID, SessionKey: a.SourceSessionKey}
	a.SourceSessionKey, a.ResolvedAtMs, a.Decision, a.Reason = "", time.Now().UnixMilli(), decision, openclaw.ReasonUser
	if a.Status = openclaw.ApprovalAllowed; decision == openclaw.Deny {
		a.Status = openclaw.ApprovalDenied
	}
	return a
}

// resolve answers a question; applied is false if it was answered so before.
func (g *Gateway) resolve(ctx context.Context, c *Call, id, decision string) (applied bool, err error) {
	q, err := g.question(ctx, id)
	if err != nil {
		return false, err
	}
	a := agent.Answer{ConfirmID: id, Approved: decision != openclaw.Deny, By: c.Who.Name, Digest: q.Question.Digest}
	if decision == openclaw.AllowAlways {
		a.Scope = agent.ScopeRun
	}
	applied, err = g.answer(ctx, c, q, a)
	switch {
	case errors.Is(err, durable.ErrAlreadyDecided):
		return false, openclaw.AlreadyResolved()
	case errors.Is(err, durable.ErrConfirmExpired), errors.Is(err, durable.ErrRunOver), errors.Is(err, durable.ErrNotFound),
		errors.Is(err, durable.ErrUnknownConfirm), errors.Is(err, durable.ErrNothingToConfirm), errors.Is(err, durable.ErrQueued):
		return false, openclaw.ApprovalNotFound()
	}
	return applied, err
}

// answerDetail is what the audit keeps of an answer.
type answerDetail struct {
	ConfirmID string `json:"confirmId"`
	Approved  bool   `json:"approved"`
	Scope     string `json:"scope,omitempty"`
	Note      string `json:"note,omitempty"`
}

// answer gives a person's answer to a question. The same answer may be given
// again, also once the run is over: applied is false then. The errors are
// those of durable.Confirm.
func (g *Gateway) answer(ctx context.Context, c *Call, q question, a agent.Answer) (applied bool, err error) {
	if q.Decision != decisionOpen {
		return false, again(q, a)
	}
	if err := g.audit(ctx, c, "confirm", q.run.Session, q.RunID, answerDetail{a.ConfirmID, a.Approved, a.Scope, a.Note}); err != nil {
		return false, err
	}
	_, _, err = g.core.Confirm(ctx, q.RunID, a)
	if !errors.Is(err, durable.ErrAlreadyDecided) && !errors.Is(err, durable.ErrRunOver) && !errors.Is(err, durable.ErrNothingToConfirm) {
		return err == nil, err
	}
	// Somebody was faster, perhaps this client itself.
	if now, lookErr := g.decided(ctx, a.ConfirmID); lookErr == nil && now.Decision != decisionOpen {
		return false, again(now, a)
	}
	return false, err
}

// again compares an answer with the one that was given.
func again(q question, a agent.Answer) error {
	switch {
	case q.Decision == decisionApproved && a.Approved, q.Decision == decisionRejected && !a.Approved:
		return nil
	case q.Decision == decisionApproved, q.Decision == decisionRejected:
		return durable.ErrAlreadyDecided
	case q.Decision == decisionExpired:
		return durable.ErrConfirmExpired
	}
	return durable.ErrRunOver
}

// decided returns a question whose answer is on its way to the record, at
// the latest after some moments as it is.
func (g *Gateway) decided(ctx context.Context, id string) (question, error) {
	for try := 0; ; try++ {
		q, err := g.question(ctx, id)
		if err != nil || q.Decision != decisionOpen || try == 10 {
			return q, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return q, err
		}
	}
}

// defaultApprovals is how many decided approvals a page has.
const defaultApprovals = 50

func approvalHistory(ctx context.Context, g *Gateway, c *Call, p openclaw.ApprovalHistoryParams) (any, error) {
	out := openclaw.ApprovalHistory{Items: []openclaw.Approval{}}
	if p.Kind != "" && p.Kind != openclaw.KindExec {
		return out, nil
	}
	if p.Limit == 0 {
		p.Limit = defaultApprovals
	}
	list, err := g.store.Decided(ctx, p.Cursor, p.Limit+1) // one more tells whether there is more
	if err != nil {
		return nil, err
	}
	page := list[:min(len(list), p.Limit)]
	qs, err := g.questions(ctx, page, func(record.Run) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, q := range qs {
		out.Items = append(out.Items, q.approval(g))
	}
	if len(page) < len(list) {
		out.NextCursor = page[len(page)-1].Question.ID
	}
	return out, nil
}
