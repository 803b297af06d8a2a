package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/routing"
	"sgclaw/internal/store"
)

// Bounds of lists of sessions.
const (
	defaultSessions = 100
	maxSessions     = 500
	defaultPreview  = 12
	maxPreview      = 50
	maxPreviewKeys  = 64
	previewChars    = 240
)

// database is where OpenClaw's clients show a path.
const database = "postgresql"

func sessionsList(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsListParams) (any, error) {
	if err := unsupported("sessions.list", p); err != nil && string(p.Archived) == "" {
		return nil, err
	}
	limit := p.Limit
	if limit == 0 {
		limit = defaultSessions
	}
	limit = min(limit, maxSessions)
	out := openclaw.SessionsList{
		Ts: time.Now().UnixMilli(), Path: database, LimitApplied: limit, Owners: []string{}, Defaults: g.modelDefaults(), Sessions: []openclaw.SessionRow{},
	}
	if string(p.Archived) == "true" {
		return out, nil // none is ever put away
	}
	f := store.SessionFilter{Search: p.Search, Limit: limit, Offset: p.Offset}
	if p.Label != "" {
		f.Search = p.Label
	}
	if p.AgentID != "" {
		a, err := g.agent(p.AgentID)
		if err != nil {
			return nil, err
		}
		f.Agent = a.ID
	}
	if p.ActiveMinutes > 0 {
		f.ActiveSince = time.Now().Add(-time.Duration(p.ActiveMinutes) * time.Minute)
	}
	list, total, err := g.store.Sessions(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if p.Label == "" || s.Settings.Label == p.Label {
			out.Sessions = append(out.Sessions, g.row(s))
		}
	}
	out.Count, out.TotalCount = len(out.Sessions), total
	if next := p.Offset + len(list); next < total {
		out.HasMore, out.NextOffset = true, &next
	}
	return out, nil
}

// session returns a session by what a client calls it.
func (g *Gateway) session(ctx context.Context, name, agentID string) (string, record.Session, error) {
	key, err := g.key(name, agentID)
	if err != nil {
		return "", record.Session{}, err
	}
	s, err := g.store.Session(ctx, key)
	if errors.Is(err, record.ErrNotFound) {
		err = openclaw.Refused(DetailNotFound, "session not found: %s", key)
	}
	return key, s, err
}

func sessionsDescribe(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionKeyParams) (any, error) {
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	s, err := g.store.Session(ctx, key)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return openclaw.SessionsDescribed{}, nil
	case err != nil:
		return nil, err
	}
	row := g.row(s)
	return openclaw.SessionsDescribed{Session: &row}, nil
}

func sessionsResolve(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsResolveParams) (any, error) {
	if err := unsupported("sessions.resolve", p); err != nil {
		return nil, err
	}
	given := 0
	for _, s := range []string{p.Key, p.SessionID, p.Label} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return nil, openclaw.Invalid("give one of key, sessionId and label")
	}
	if p.Key != "" {
		key, s, err := g.session(ctx, p.Key, p.AgentID)
		if err != nil {
			return g.notResolved(p.AllowMissing, err)
		}
		return openclaw.SessionsResolved{OK: true, Key: key, AgentID: g.row(s).AgentID}, nil
	}
	f := store.SessionFilter{Search: p.Label, Limit: 1000}
	list, _, err := g.store.Sessions(ctx, f)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s record.Session) bool {
		return p.Label != "" && s.Settings.Label != p.Label || p.SessionID != "" && sessionID(s) != p.SessionID ||
			p.AgentID != "" && g.row(s).AgentID != routing.NormalizeID(p.AgentID)
	})
	switch len(list) {
	case 0:
		return g.notResolved(p.AllowMissing, openclaw.Refused(DetailNotFound, "session not found"))
	case 1:
		return openclaw.SessionsResolved{OK: true, Key: list[0].Key, AgentID: g.row(list[0]).AgentID}, nil
	}
	return nil, openclaw.Invalid("%d sessions have this label", len(list))
}

func (g *Gateway) notResolved(allow bool, err error) (any, error) {
	var refused *openclaw.Error
	if allow && errors.As(err, &refused) {
		return openclaw.SessionsResolved{}, nil
	}
	return nil, err
}

func sessionsGet(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsGetParams) (any, error) {
	name := p.Key
	if name == "" {
		name = p.Session
	}
	if name == "" {
		return nil, openclaw.InvalidParams("sessions.get", "must have required property 'key'")
	}
	key, err := g.key(name, p.AgentID)
	if err != nil {
		return nil, err
	}
	if p.Limit == 0 {
		p.Limit = defaultHistory
	}
	items, _, err := g.store.History(ctx, key, store.HistoryFilter{Limit: min(p.Limit, 1000)})
	if err != nil {
		return nil, err
	}
	page, _ := historyPage(items, defaultMaxChars)
	return openclaw.SessionsMessages{Messages: page}, nil
}

func sessionsPreview(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsPreviewParams) (any, error) {
	if p.Limit == 0 {
		p.Limit = defaultPreview
	}
	if p.MaxChars == 0 {
		p.MaxChars = previewChars
	}
	out := openclaw.SessionsPreviews{Ts: time.Now().UnixMilli(), Previews: []openclaw.SessionPreview{}}
	for _, name := range p.Keys[:min(len(p.Keys), maxPreviewKeys)] {
		preview := openclaw.SessionPreview{Key: name, Status: "missing", Items: []openclaw.PreviewItem{}}
		if key, err := g.key(name, ""); err == nil {
			items, total, err := g.store.History(ctx, key, store.HistoryFilter{Limit: min(p.Limit, maxPreview)})
			if err != nil {
				return nil, err
			}
			if preview.Status = "ok"; total == 0 {
				preview.Status = "empty"
			}
			for _, it := range items {
				if it.Text != "" {
					preview.Items = append(preview.Items, openclaw.PreviewItem{Role: previewRole(it.Role), Text: clipText(it.Text, p.MaxChars)})
				}
			}
		}
		out.Previews = append(out.Previews, preview)
	}
	return out, nil
}

func previewRole(role string) string {
	if role == "note" {
		return openclaw.RoleSystem
	}
	return role
}

func sessionsPatch(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsPatchParams) (any, error) {
	if err := unsupported("sessions.patch", p); err != nil {
		return nil, err
	}
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	if err := g.sameSession(ctx, key, p.ExpectedSessionID); err != nil {
		return nil, err
	}
	if err := g.checkPatch(p); err != nil {
		return nil, err
	}
	agentID := ""
	if strings.HasPrefix(key, "agent:") {
		agentID = g.agentOf(key)
	}
	if err := g.store.EnsureSession(ctx, key, agentID); err != nil {
		return nil, err
	}
	s, err := g.store.PatchSession(ctx, key, c.Who.Name, func(s *record.SessionSettings) error {
		set := func(to *string, o openclaw.Optional[string]) {
			if o.Set {
				*to = o.Value
			}
		}
		set(&s.Label, p.Label)
		set(&s.Model, p.Model)
		set(&s.Browser, p.Browser)
		if p.Mode.Set {
			s.Mode = agent.Mode(p.Mode.Value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return openclaw.SessionsChange{OK: true, Path: database, Key: key, Entry: g.row(s)}, nil
}

func (g *Gateway) checkPatch(p openclaw.SessionsPatchParams) error {
	switch {
	case len(p.Label.Value) > store.MaxLabel || !utf8.ValidString(p.Label.Value):
		return openclaw.Refused(DetailTooLong, "a label has at most %d bytes", store.MaxLabel)
	case p.Model.Value != "" && !slices.Contains(g.models(), p.Model.Value):
		return openclaw.Refused(DetailModelNotFound, "unknown model %q", clipText(p.Model.Value, 64))
	case !agent.Mode(p.Mode.Value).Valid():
		return openclaw.Invalid("mode must be queue, steer or interrupt")
	case len(p.Browser.Value) > 128:
		return openclaw.Invalid("no such browser")
	}
	return nil
}

func sessionsReset(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsResetParams) (any, error) {
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	if err := g.audit(ctx, c, "reset", key, "", nil); err != nil {
		return nil, err
	}
	s, err := g.store.ResetSession(ctx, key, c.Who.Name)
	if errors.Is(err, record.ErrNotFound) {
		// A client may begin anew what has not begun.
		return openclaw.SessionsChange{OK: true, Path: database, Key: key, Entry: openclaw.SessionRow{Key: key, Kind: "direct", AgentID: g.agentOf(key)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return openclaw.SessionsChange{OK: true, Path: database, Key: key, Entry: g.row(s)}, nil
}

func sessionsDelete(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsDeleteParams) (any, error) {
	if err := unsupported("sessions.delete", p); err != nil {
		return nil, err
	}
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	if key == g.cfg.Router.MainKey(g.agentOf(key)) {
		return nil, openclaw.Invalid("cannot delete the main session (%s); reset it", key)
	}
	if err := g.sameSession(ctx, key, p.ExpectedSessionID); err != nil {
		return nil, err
	}
	if err := g.audit(ctx, c, "delete", key, "", nil); err != nil {
		return nil, err
	}
	out := openclaw.SessionsDeleted{OK: true, Key: key, Archived: []string{}}
	err = g.store.DeleteSession(ctx, key, c.Who.Name)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return nil, err
	}
	out.Deleted = err == nil
	return out, nil
}

// sessionsCompact does nothing and says so: what is old is summed up when a
// run needs the room.
func sessionsCompact(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionsCompactParams) (any, error) {
	if err := unsupported("sessions.compact", p); err != nil {
		return nil, err
	}
	key, _, err := g.session(ctx, p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	return openclaw.SessionsCompacted{OK: true, Key: key, Reason: "old parts are summed up when a run begins that has no room for them"}, nil
}

func sessionsSubscribe(ctx context.Context, g *Gateway, c *Call, _ openclaw.None) (any, error) {
	g.hub.WatchAll(c.Conn)
	return openclaw.SessionsSubscribed{Subscribed: true}, nil
}

func sessionsUnsubscribe(ctx context.Context, g *Gateway, c *Call, _ openclaw.None) (any, error) {
	g.hub.UnwatchAll(c.Conn)
	return openclaw.SessionsSubscribed{}, nil
}

func messagesSubscribe(ctx context.Context, g *Gateway, c *Call, p openclaw.MessagesSubscribeParams) (any, error) {
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	to := g.audience(c) | ToMessages
	if p.IncludeApprovals {
		to |= ToApprovals
	}
	if _, err := g.hub.Watch(ctx, c, key, to, Now); err != nil {
		return nil, err
	}
	out := openclaw.MessagesSubscribed{Subscribed: true, Key: key}
	if p.IncludeApprovals {
		open, err := g.openApprovals(ctx, key)
		if err != nil {
			return nil, err
		}
		out.ApprovalReplay = &openclaw.ApprovalReplay{SessionKey: key, UpdatedAtMs: time.Now().UnixMilli(), Approvals: make([]openclaw.Approval, len(open))}
		for i, a := range open {
			out.ApprovalReplay.Approvals[i] = a.approval(g)
		}
	}
	return out, nil
}

func messagesUnsubscribe(ctx context.Context, g *Gateway, c *Call, p openclaw.SessionKeyParams) (any, error) {
	key, err := g.key(p.Key, p.AgentID)
	if err != nil {
		return nil, err
	}
	g.hub.Unwatch(c.Conn, key, ToMessages|ToApprovals|ToChat|ToAgent)
	return openclaw.MessagesSubscribed{Key: key}, nil
}
