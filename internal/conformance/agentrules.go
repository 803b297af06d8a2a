package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

func agentRules() []rule[*agentPlayer] {
	signed := strings.Repeat("00", 32)
	return []rule[*agentPlayer]{
		{Rule{"A01", "init-first", "init comes first, with version and a good seed, and nothing more before init_ack"}, initFirst},
		{Rule{"A02", "seed-fresh", "each start has another seed"}, seedFresh},
		{Rule{"A03", "version-mismatch", "an init_ack of another version: the agent is killed"},
			killed(fmt.Sprintf(`{"type":"init_ack","version":"9.9","agent_id":%q,"supported_actions":[]}`, uuid.NewString()))},
		{Rule{"A04", "bad-agent-id", "an agent_id that is no UUID v4: the agent is killed"},
			killed(`{"type":"init_ack","version":"1.0","agent_id":"agent-7","supported_actions":[]}`)},
		{Rule{"A05", "no-ack", "no init_ack within 5 s: the agent is killed"}, noAck},
		{Rule{"A06", "second-ack", "a second init_ack: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			told(fmt.Sprintf(`{"type":"init_ack","version":"1.0","agent_id":%q,"supported_actions":[]}`, uuid.NewString()), pipe.CodeUnknownType)},
		{Rule{"A07", "wrong-hmac", "a wrong signature: PIPE_HMAC_INVALID, seq is still free"}, wrongHMAC},
		{Rule{"A08", "changed-command", "a command changed after signing, also in a member unknown to the host: PIPE_HMAC_INVALID"}, changedCommand},
		{Rule{"A09", "seq-duplicate", "a seq used before: PIPE_SEQ_DUPLICATE"}, seqDuplicate},
		{Rule{"A10", "seq-out-of-order", "a seq that comes too early: PIPE_SEQ_OUT_OF_ORDER, the next one is still free"}, seqOutOfOrder},
		{Rule{"A11", "line-too-long", "a line over 1 MiB: error PIPE_MESSAGE_TOO_LARGE once, conversation goes on"}, hostLineTooLong},
		{Rule{"A12", "invalid-json", "a line that is no JSON: error PIPE_INVALID_JSON, conversation goes on"},
			told(`{"type":"command",`, pipe.CodeInvalidJSON)},
		{Rule{"A13", "invalid-utf8", "a line that is no UTF-8: error PIPE_INVALID_JSON, conversation goes on"},
			told("{\"type\":\"log\",\"message\":\"\xff\"}", pipe.CodeInvalidJSON)},
		{Rule{"A14", "unknown-type", "an unknown type: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			told(`{"type":"dance"}`, pipe.CodeUnknownType)},
		{Rule{"A15", "wrong-way", "a message that only a browser sends: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			told(`{"type":"submit_task","task_id":"t1","instruction":"x"}`, pipe.CodeUnknownType)},
		{Rule{"A16", "invalid-command", "a command of wrong shape: a response PIPE_INVALID_MESSAGE, conversation goes on"},
			replied(`{"type":"command","seq":1,"action":"click","params":[],"security":{"expected_domain":"a","hmac":"`+signed+`"}}`, pipe.CodeInvalidMessage)},
		{Rule{"A17", "agent-messages", "state, log, task_accepted, confirm_required, task_complete and error are not answered by an error"}, agentMessages},
		{Rule{"A18", "unknown-action", "an action it does not know: MAC_ACTION_NOT_ALLOWED, and its seq is used"},
			denied("dance", `{}`, siteHost, pipe.CodeActionNotAllowed)},
		{Rule{"A19", "blocked-action", "an action on the black list: MAC_ACTION_BLOCKED"},
			denied("eval", `{"code":"1"}`, siteHost, pipe.CodeActionBlocked)},
		{Rule{"A20", "invalid-params", "parameters that do not fit: CMD_INVALID_PARAMS"}, invalidParams},
		{Rule{"A21", "domain-not-allowed", "a host that is not allowed: MAC_DOMAIN_NOT_ALLOWED, and it is not asked"}, domainNotAllowed},
		{Rule{"A22", "domain-lie", "another host in the URL than in expected_domain: refused, and it is not asked"}, domainLie},
		{Rule{"A23", "redirect", "a redirect to a host that is not allowed: MAC_DOMAIN_NOT_ALLOWED, and it is not asked"}, redirect},
		{Rule{"A24", "scheme", "file: and the like: refused"}, scheme},
		{Rule{"A25", "domain-mismatch", "an expected_domain that is not the page's: MAC_DOMAIN_MISMATCH"}, domainMismatch},
		{Rule{"A26", "navigate-and-read", "navigate, getText and getHtml work, and say where the page stands"}, navigateAndRead},
		{Rule{"A27", "act", "click, type and their effect"}, act},
		{Rule{"A28", "not-found", "no such element: CMD_SELECTOR_NOT_FOUND, CMD_SELECTOR_TIMEOUT, CMD_INVALID_SELECTOR"}, notFound},
		{Rule{"A29", "snapshot", "getAomSnapshot as text with refs, and as a tree"}, snapshot},
		{Rule{"A30", "refs", "a ref works like a selector; after a navigation it is CMD_REF_STALE"}, refs},
		{Rule{"A31", "storage", "storageSet and storageGet; a key without the prefix is refused"}, storage},
		{Rule{"A32", "screenshot", "pageScreenshot sends a picture"}, screenshot},
		{Rule{"A33", "long-answers", "no line over 1 MiB however long the page; what is cut is marked"}, longAnswers},
		{Rule{"A34", "background-pages", "zombieSpawn, page_id on other actions, zombieKill"}, backgroundPages},
		{Rule{"A35", "confirm", "an action on the confirm list: MAC_NEED_CONFIRM with what to confirm, or confirm_pending"}, confirm},
		{Rule{"A36", "grant-mismatch", "a grant for something else: not carried out"}, grantMismatch},
		{Rule{"A37", "grant", "a grant with the right digest: carried out once, not twice"}, grant},
		{Rule{"A38", "shutdown", "when asked to end: shutdown, and the host ends after its agent"}, shutdown},
		{Rule{"A39", "stubborn-agent", "an agent that ignores shutdown: SIGTERM after 2 s, SIGKILL after 2 s more"}, stubborn},
		{Rule{"A40", "agent-crash", "an agent that crashes is not started again by itself, and the host can still end"}, agentCrash},
		{Rule{"A41", "cancel", "a command that waits and is taken back: CMD_CANCELLED at once, and the page is free"}, cancel},
		{Rule{"A42", "native-dialog", "a confirm() of the page: No, and MAC_NEED_CONFIRM with its text; OK with the grant for it, once"}, nativeDialog},
	}
}

func initFirst(ctx context.Context, p *agentPlayer) error {
	h, err := p.meet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if h.init.Version != pipe.Version {
		return fmt.Errorf("version %q, not %q", h.init.Version, pipe.Version)
	}
	return h.silence(ctx, func(any) bool { return true })
}

func seedFresh(ctx context.Context, p *agentPlayer) error {
	seeds := map[string]bool{}
	for range 2 {
		h, err := p.meet(ctx)
		if err != nil {
			return err
		}
		h.close()
		if seeds[h.init.HMACSeed] {
			return errors.New("the same seed twice")
		}
		seeds[h.init.HMACSeed] = true
	}
	return nil
}

func killed(ack string) func(context.Context, *agentPlayer) error {
	return func(ctx context.Context, p *agentPlayer) error {
		h, err := p.meet(ctx)
		if err != nil {
			return err
		}
		defer h.close()
		if err := h.send(ack); err != nil {
			return err
		}
		return h.goes(ctx, 2*patience)
	}
}

// goes waits for the agent to be killed.
func (h *hostRun) goes(ctx context.Context, within time.Duration) error {
	select {
	case <-h.gone:
		return nil
	case <-time.After(within):
		return fmt.Errorf("the agent still runs after %v", within)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func noAck(ctx context.Context, p *agentPlayer) error {
	h, err := p.meet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	begin := time.Now()
	if err := h.goes(ctx, pipe.HandshakeTimeout+2*patience); err != nil {
		return err
	}
	if took := time.Since(begin); took < pipe.HandshakeTimeout-time.Second {
		return fmt.Errorf("killed after %v already", took.Round(time.Millisecond))
	}
	return nil
}

// told plays a line that is answered by an error message.
func told(line string, code pipe.Code) func(context.Context, *agentPlayer) error {
	return func(ctx context.Context, p *agentPlayer) error {
		h, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer h.close()
		if err := h.send(line); err != nil {
			return err
		}
		if err := h.expectError(ctx, 0, code); err != nil {
			return err
		}
		return h.alive(ctx)
	}
}

// replied plays a command with seq 1 that is answered by a response, and
// leaves seq 1 free.
func replied(line string, code pipe.Code) func(context.Context, *agentPlayer) error {
	return func(ctx context.Context, p *agentPlayer) error {
		h, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer h.close()
		if err := h.send(line); err != nil {
			return err
		}
		r, err := h.response(ctx, 1, patience)
		if err != nil {
			return err
		}
		if err := fails(r, code); err != nil {
			return err
		}
		return h.alive(ctx)
	}
}

// denied plays a good command that the policy does not let pass.
func denied(name, params, domain string, codes ...pipe.Code) func(context.Context, *agentPlayer) error {
	return func(ctx context.Context, p *agentPlayer) error {
		h, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer h.close()
		for range 2 { // the second time shows that the first seq was used
			r, err := h.do(ctx, name, params, domain)
			if err != nil {
				return err
			}
			if err := fails(r, codes...); err != nil {
				return err
			}
		}
		return nil
	}
}

func wrongHMAC(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.alive(ctx); err != nil {
		return err
	}
	_, err = h.open(ctx, "")
	return err
}

func changedCommand(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	for _, change := range [][2]string{{`"selector":"body"`, `"selector":"html"`}, {`"params"`, `"future":1,"params"`}, {`"expected_domain":"`, `"expected_domain":"x`}} {
		c, err := h.command(action.GetText, `{"selector":"body"}`, siteHost)
		if err != nil {
			return err
		}
		line, err := pipe.Encode(c)
		if err != nil {
			return err
		}
		if err := h.send(strings.Replace(string(line), change[0], change[1], 1)); err != nil {
			return err
		}
		r, err := h.response(ctx, c.Seq, patience)
		if err != nil {
			return err
		}
		if err := fails(r, pipe.CodeHMACInvalid); err != nil {
			return fmt.Errorf("%s made %s: %w", change[0], change[1], err)
		}
		h.seq-- // it was not used
	}
	return nil
}

func seqDuplicate(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	c, err := h.command("dance", `{}`, siteHost)
	if err != nil {
		return err
	}
	for _, code := range []pipe.Code{pipe.CodeActionNotAllowed, pipe.CodeSeqDuplicate, pipe.CodeSeqDuplicate} {
		r, err := h.exchange(ctx, c)
		if err != nil {
			return err
		}
		if err := fails(r, code); err != nil {
			return err
		}
	}
	return h.alive(ctx)
}

func seqOutOfOrder(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	h.seq = 4
	r, err := h.do(ctx, "dance", `{}`, siteHost)
	if err != nil {
		return err
	}
	if err := fails(r, pipe.CodeSeqOutOfOrder); err != nil {
		return err
	}
	h.seq = 0
	if r, err = h.do(ctx, "dance", `{}`, siteHost); err != nil {
		return err
	}
	return fails(r, pipe.CodeActionNotAllowed)
}

func hostLineTooLong(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	for _, n := range []int{3 * pipe.MaxLine, pipe.MaxLine + 1} {
		if err := h.send(padded(n)); err != nil {
			return err
		}
		if err := h.expectError(ctx, 0, pipe.CodeMessageTooLarge); err != nil {
			return err
		}
		if err := h.silence(ctx, isError); err != nil {
			return fmt.Errorf("a second answer: %w", err)
		}
	}
	return h.alive(ctx)
}

func agentMessages(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	for _, line := range []string{
		`{"type":"state","state":"starting"}`,
		`{"type":"state","state":"offline","detail":"server is away","future":1}`,
		`{"type":"log","time":"2026-03-03T10:23:01Z","level":"info","message":"正在分析指令..."}`,
		`{"type":"task_accepted","task_id":"t-1","run_id":"r-1"}`,
		`{"type":"confirm_required","task_id":"t-1","action_id":"c-1","action":"click","domain":"127.0.0.1","ask":{"role":"button","name":"批准"}}`,
		`{"type":"task_complete","task_id":"t-1","run_id":"r-1","success":true,"status":"done","summary":"好"}`,
		`{"type":"error","code":"PIPE_INVALID_MESSAGE","message":"test"}`,
		`{"type":"error"}`,
	} {
		if err := h.send(line); err != nil {
			return err
		}
	}
	if err := h.silence(ctx, isError); err != nil {
		return err
	}
	return h.alive(ctx)
}

func invalidParams(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	for _, c := range [][2]string{
		{action.Click, `{}`}, {action.Click, `{"selector":5}`}, {action.Click, `{"selector":"a","wait_after":30001}`},
		{action.GetText, `{"selector":"a","more":true}`}, {action.Navigate, `{"url":"nowhere"}`},
	} {
		r, err := h.do(ctx, c[0], c[1], siteHost)
		if err != nil {
			return err
		}
		if err := fails(r, pipe.CodeInvalidParams); err != nil {
			return fmt.Errorf("%s %s: %w", c[0], c[1], err)
		}
	}
	return nil
}

func domainNotAllowed(ctx context.Context, p *agentPlayer) error {
	return p.away(ctx, p.site.forbidden+"plain", forbiddenHost, "plain", pipe.CodeDomainNotAllowed)
}

func domainLie(ctx context.Context, p *agentPlayer) error {
	return p.away(ctx, p.site.forbidden+"lie", siteHost, "lie", pipe.CodeDomainMismatch, pipe.CodeDomainNotAllowed)
}

func redirect(ctx context.Context, p *agentPlayer) error {
	return p.away(ctx, p.site.url+"away", siteHost, "landed", pipe.CodeDomainNotAllowed)
}

// away navigates to where it may not.
func (p *agentPlayer) away(ctx context.Context, url, domain, path string, codes ...pipe.Code) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	r, err := h.do(ctx, action.Navigate, fmt.Sprintf(`{"url":%q}`, url), domain)
	if err != nil {
		return err
	}
	if err := fails(r, codes...); err != nil {
		return err
	}
	if h.site.forbiddenAsked(path) {
		return errors.New("refused, but the host was asked")
	}
	return nil
}

func scheme(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	for _, url := range []string{"file:///etc/hosts", "chrome://version/", "data:text/html,hello", "javascript:1"} {
		r, err := h.do(ctx, action.Navigate, fmt.Sprintf(`{"url":%q}`, url), siteHost)
		if err != nil {
			return err
		}
		if err := fails(r, pipe.CodeInvalidParams, pipe.CodeDomainNotAllowed, pipe.CodeDomainMismatch); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
	}
	return nil
}

func domainMismatch(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	r, err := h.do(ctx, action.GetText, `{"selector":"body"}`, otherHost)
	if err != nil {
		return err
	}
	return fails(r, pipe.CodeDomainMismatch)
}

func navigateAndRead(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	r, err := h.open(ctx, "")
	if err != nil {
		return err
	}
	if pg := r.Data.Page; pg == nil || pg.Domain != siteHost || pg.URL != h.site.url || pg.Title != "Conformance" {
		return fmt.Errorf("navigate: data.page is %+v", pg)
	}
	if r, err = h.succeed(ctx, action.GetText, `{"selector":"#text"}`); err != nil {
		return err
	}
	if !strings.Contains(r.Data.Text, "quick brown fox. 敏捷的棕色狐狸。") || r.Data.Page == nil {
		return fmt.Errorf("getText: %q, page %+v", r.Data.Text, r.Data.Page)
	}
	if r, err = h.succeed(ctx, action.GetHTML, `{"selector":"#text","outer":true}`); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Data.HTML, `<p id="text">`) {
		return fmt.Errorf("getHtml: %.80q", r.Data.HTML)
	}
	return nil
}

func act(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	if _, err := h.succeed(ctx, action.Click, `{"selector":"#go","wait_after":0}`); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.GetText, `{"selector":"#out"}`)
	if err != nil {
		return err
	}
	if strings.TrimSpace(r.Data.Text) != "clicked" {
		return fmt.Errorf("after the click the page says %q", r.Data.Text)
	}
	if _, err := h.succeed(ctx, action.Type, `{"selector":"#name","text":"张三"}`); err != nil {
		return err
	}
	if r, err = h.succeed(ctx, action.GetText, `{"selector":"#name"}`); err != nil {
		return err
	}
	if r.Data.Text != "张三" {
		return fmt.Errorf("after typing the field holds %q", r.Data.Text)
	}
	return nil
}

func notFound(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	for _, c := range []struct {
		name, params string
		code         pipe.Code
	}{
		{action.GetText, `{"selector":"#nothing"}`, pipe.CodeSelectorNotFound},
		{action.WaitForSelector, `{"selector":"#nothing","timeout_ms":200}`, pipe.CodeSelectorTimeout},
		{action.GetText, `{"selector":"#["}`, pipe.CodeInvalidSelector},
	} {
		r, err := h.do(ctx, c.name, c.params, siteHost)
		if err != nil {
			return err
		}
		if err := fails(r, c.code); err != nil {
			return fmt.Errorf("%s %s: %w", c.name, c.params, err)
		}
		if r.Data == nil || r.Data.Page == nil {
			return fmt.Errorf("%s: the error does not say where the page stands", c.name)
		}
	}
	return nil
}

func snapshot(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.GetAOMSnapshot, `{}`)
	if err != nil {
		return err
	}
	if len(r.AOMSnapshot) > 0 {
		return errors.New("a tree although none was asked for")
	}
	if _, err := refOf(r.Data.Snapshot); err != nil {
		return err
	}
	if r, err = h.succeed(ctx, action.GetAOMSnapshot, `{"format":"tree"}`); err != nil {
		return err
	}
	if !hasButton(r.AOMSnapshot) {
		return errors.New(`the tree has no button "Go ahead" with bounds`)
	}
	return nil
}

var buttonRef = regexp.MustCompile(`Go ahead[^\[\n]*\[ref=(e[0-9]+)\]`)

// refOf finds the ref of the button in a compact snapshot: the first behind
// its name.
func refOf(snapshot string) (string, error) {
	m := buttonRef.FindStringSubmatch(snapshot)
	if m == nil {
		return "", fmt.Errorf(`data.snapshot does not have [ref=eN] behind "Go ahead": %.300q`, snapshot)
	}
	return m[1], nil
}

func hasButton(nodes []pipe.AOMNode) bool {
	return slices.ContainsFunc(nodes, func(n pipe.AOMNode) bool {
		return n.Role == "button" && n.Name == "Go ahead" && n.Bounds[2] > 0 && n.Bounds[3] > 0 || hasButton(n.Children)
	})
}

func refs(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.GetAOMSnapshot, `{}`)
	if err != nil {
		return err
	}
	ref, err := refOf(r.Data.Snapshot)
	if err != nil {
		return err
	}
	params := `{"selector":"[ref=` + ref + `]","wait_after":0}`
	if _, err := h.succeed(ctx, action.Click, params); err != nil {
		return err
	}
	if r, err = h.succeed(ctx, action.GetText, `{"selector":"#out"}`); err != nil {
		return err
	}
	if strings.TrimSpace(r.Data.Text) != "clicked" {
		return fmt.Errorf("after the click the page says %q", r.Data.Text)
	}
	if _, err := h.open(ctx, "?again"); err != nil {
		return err
	}
	if r, err = h.do(ctx, action.Click, params, siteHost); err != nil {
		return err
	}
	return fails(r, pipe.CodeRefStale)
}

func storage(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	if _, err := h.succeed(ctx, action.StorageSet, `{"key":"sgclaw.conformance","value":"一"}`); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.StorageGet, `{"key":"sgclaw.conformance"}`)
	if err != nil {
		return err
	}
	if r.Data.Text != "一" || r.Data.Found == nil || !*r.Data.Found {
		return fmt.Errorf("storageGet: text %q, found %v", r.Data.Text, r.Data.Found)
	}
	if r, err = h.succeed(ctx, action.StorageGet, `{"key":"sgclaw.conformance.none"}`); err != nil {
		return err
	}
	if r.Data.Found == nil || *r.Data.Found {
		return errors.New("storageGet: a key that does not exist is not told by found: false")
	}
	if r, err = h.do(ctx, action.StorageSet, `{"key":"token","value":"x"}`, siteHost); err != nil {
		return err
	}
	return fails(r, pipe.CodeInvalidParams, pipe.CodeStorageKey)
}

func screenshot(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.PageScreenshot, `{}`)
	if err != nil {
		return err
	}
	if len(r.Data.Image) == 0 || !strings.HasPrefix(r.Data.MIME, "image/") || r.Data.Width <= 0 || r.Data.Height <= 0 {
		return fmt.Errorf("%d bytes of %q, %d by %d", len(r.Data.Image), r.Data.MIME, r.Data.Width, r.Data.Height)
	}
	return nil
}

func longAnswers(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, "big"); err != nil {
		return err
	}
	for _, c := range [][2]string{
		{action.GetText, `{"selector":"#big"}`}, {action.GetHTML, `{"selector":"#big"}`}, {action.GetAOMSnapshot, `{}`},
	} {
		r, err := h.succeed(ctx, c[0], c[1])
		if err != nil {
			return err
		}
		if !r.Data.Truncated {
			return fmt.Errorf("%s %s: truncated is not set", c[0], c[1])
		}
	}
	// A tree and a picture may have been made small enough.
	if _, err := h.succeed(ctx, action.GetAOMSnapshot, `{"format":"tree","max_tokens":100000}`); err != nil {
		return err
	}
	if _, err := h.open(ctx, "tall"); err != nil {
		return err
	}
	_, err = h.succeed(ctx, action.PageScreenshot, `{"full_page":true}`)
	return err
}

func backgroundPages(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if !slices.Contains(h.init.Capabilities, pipe.CapPageID) {
		return notApplicableError("the host does not have the capability " + pipe.CapPageID)
	}
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	r, err := h.succeed(ctx, action.ZombieSpawn, fmt.Sprintf(`{"url":%q}`, h.site.url))
	if err != nil {
		return err
	}
	id := r.Data.PageID
	if id == "" {
		return errors.New("zombieSpawn does not say its page_id")
	}
	read := func() (*pipe.Response, error) {
		c, err := h.command(action.GetText, `{"selector":"#text"}`, siteHost)
		if err != nil {
			return nil, err
		}
		c.PageID = id
		if err := pipe.Sign(c, h.key); err != nil {
			return nil, err
		}
		return h.exchange(ctx, c)
	}
	if r, err = read(); err != nil {
		return err
	}
	if !r.Success || !strings.Contains(r.Data.Text, "fox") || r.Data.Page == nil || r.Data.Page.ID != id {
		return fmt.Errorf("getText in the background page: success %v, %+v", r.Success, r.Data)
	}
	params := fmt.Sprintf(`{"page_id":%q}`, id)
	if _, err := h.succeed(ctx, action.ZombieKill, params); err != nil {
		return err
	}
	if r, err = read(); err != nil {
		return err
	}
	return fails(r, pipe.CodeZombieNotFound)
}

func cancel(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if !slices.Contains(h.init.Capabilities, pipe.CapCancel) {
		return notApplicableError("the host does not have the capability " + pipe.CapCancel)
	}
	if _, err := h.open(ctx, ""); err != nil {
		return err
	}
	c, err := h.command(action.WaitForSelector, `{"selector":"#never","timeout_ms":20000}`, siteHost)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := h.w.Write(c); err != nil {
		return err
	}
	if err := h.w.Write(&pipe.Cancel{Type: pipe.TypeCancel, Seq: c.Seq}); err != nil {
		return err
	}
	got, err := h.await(ctx, commandPatience, func(m any) bool {
		r, ok := m.(*pipe.Response)
		return ok && r.Seq == c.Seq
	})
	if err != nil {
		return err
	}
	r, ok := got.message.(*pipe.Response)
	if !ok {
		return errors.New("no response")
	}
	if err := fails(r, pipe.CodeCancelled); err != nil {
		return err
	}
	if took := time.Since(began); took > 5*time.Second {
		return fmt.Errorf("answered after %s", took.Round(time.Millisecond))
	}
	// One that is not known any more does no harm.
	if err := h.w.Write(&pipe.Cancel{Type: pipe.TypeCancel, Seq: c.Seq}); err != nil {
		return err
	}
	_, err = h.succeed(ctx, action.GetText, `{"selector":"#text"}`)
	return err
}

// delicate is a command that the policy wants confirmed, and its parameters
// in canonical form.
const delicate, delicateParams = action.ClearStorage, `{"domain":"` + siteHost + `"}`

// question sends the delicate command and takes what is to be confirmed.
// held says that the host asks by itself.
func (h *hostRun) question(ctx context.Context, g *agent.Grant) (ask *pipe.ConfirmAsk, held bool, err error) {
	return h.asks(ctx, delicate, delicateParams, g)
}

// asks is question about any command; its parameters are canonical.
func (h *hostRun) asks(ctx context.Context, name, params string, g *agent.Grant) (ask *pipe.ConfirmAsk, held bool, err error) {
	c, err := h.command(name, params, siteHost)
	if err != nil {
		return nil, false, err
	}
	c.Security.Grant = g
	if err := pipe.Sign(c, h.key); err != nil {
		return nil, false, err
	}
	if err := h.w.Write(c); err != nil {
		return nil, false, err
	}
	got, err := h.await(ctx, commandPatience, func(m any) bool {
		switch m := m.(type) {
		case *pipe.Response:
			return m.Seq == c.Seq
		case *pipe.ConfirmPending:
			return m.Seq == c.Seq
		}
		return false
	})
	if err != nil {
		return nil, false, err
	}
	switch m := got.message.(type) {
	case *pipe.ConfirmPending:
		if !slices.Contains(h.init.Capabilities, pipe.CapHoldConfirm) {
			return nil, false, errors.New("confirm_pending without the capability hold_confirm")
		}
		ask, held = &m.Ask, true
	case *pipe.Response:
		if m.Success {
			return nil, false, nil
		}
		if g != nil && m.Error.Code == pipe.CodeGrantInvalid {
			return &pipe.ConfirmAsk{}, false, nil
		}
		if err := fails(m, pipe.CodeNeedConfirm); err != nil {
			return nil, false, err
		}
		if m.Data == nil || m.Data.Confirm == nil {
			return nil, false, errors.New("MAC_NEED_CONFIRM without data.confirm")
		}
		ask = m.Data.Confirm
	}
	if want := agent.Digest(name, []byte(params), "", ask.Subject); ask.Digest != want {
		return nil, false, fmt.Errorf("digest %s, but that of the command and its subject is %s", ask.Digest, want)
	}
	return ask, held, nil
}

// asked opens the site and asks the delicate question.
func (p *agentPlayer) asked(ctx context.Context) (*hostRun, *pipe.ConfirmAsk, bool, error) {
	h, err := p.greet(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if _, err := h.open(ctx, ""); err != nil {
		h.close()
		return nil, nil, false, err
	}
	ask, held, err := h.question(ctx, nil)
	if err == nil && ask == nil {
		err = errors.New("carried out without a grant")
	}
	if err != nil {
		h.close()
		return nil, nil, false, err
	}
	return h, ask, held, nil
}

func confirm(ctx context.Context, p *agentPlayer) error {
	h, _, _, err := p.asked(ctx)
	if err != nil {
		return err
	}
	h.close()
	return nil
}

const errAsksItself = notApplicableError("the host asks a person by itself (confirm_pending)")

func yes(digest string) *agent.Grant {
	return &agent.Grant{ID: uuid.NewString(), By: "conformance", At: time.Now().UTC().Truncate(time.Millisecond), Digest: digest}
}

func grantMismatch(ctx context.Context, p *agentPlayer) error {
	h, ask, held, err := p.asked(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if held {
		return errAsksItself
	}
	for _, digest := range []string{
		strings.Repeat("ab", 32),
		agent.Digest(delicate, []byte(`{"domain":"`+otherHost+`"}`), "", ask.Subject),
		agent.Digest(action.SessionLogout, []byte(delicateParams), "", ask.Subject),
	} {
		again, _, err := h.question(ctx, yes(digest))
		if err != nil {
			return err
		}
		if again == nil {
			return errors.New("carried out with a grant for something else")
		}
	}
	return nil
}

func grant(ctx context.Context, p *agentPlayer) error {
	h, ask, held, err := p.asked(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if held {
		return errAsksItself
	}
	g := yes(ask.Digest)
	again, _, err := h.question(ctx, g)
	if err != nil {
		return err
	}
	if again != nil {
		return errors.New("not carried out in spite of a good grant")
	}
	if again, _, err = h.question(ctx, g); err != nil {
		return err
	}
	if again == nil {
		return errors.New("carried out twice with one grant")
	}
	return nil
}

func nativeDialog(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.open(ctx, "dialog"); err != nil {
		return err
	}
	const params = `{"selector":"#ask","wait_after":0}`
	says := func(want string) error {
		r, err := h.succeed(ctx, action.GetText, `{"selector":"#out"}`)
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(r.Data.Text); got != want {
			return fmt.Errorf("the page says %q, not %q", got, want)
		}
		return nil
	}
	ask, held, err := h.asks(ctx, action.Click, params, nil)
	switch {
	case err != nil:
		return err
	case ask == nil:
		return errors.New("nobody is asked about the page's confirm()")
	case ask.Rule != "native_dialog" || !strings.Contains(ask.Context, "confirm(): “"+siteQuestion+"”"):
		return fmt.Errorf("asked by rule %q in context %q", ask.Rule, ask.Context)
	case held:
		return errAsksItself
	}
	if err := says("waiting"); err != nil {
		return err
	}
	other := ask.Subject
	other.Context = strings.Replace(ask.Context, siteQuestion, "Sure?", 1)
	again, _, err := h.asks(ctx, action.Click, params, yes(agent.Digest(action.Click, []byte(params), "", other)))
	if err != nil {
		return err
	}
	if again == nil {
		return errors.New("carried out with a grant for another text")
	}
	if err := says("waiting"); err != nil {
		return err
	}
	g := yes(ask.Digest)
	for _, want := range []struct {
		asked bool
		says  string
	}{{false, "answered 1"}, {true, "answered 1"}} {
		again, _, err := h.asks(ctx, action.Click, params, g)
		if err != nil {
			return err
		}
		if (again != nil) != want.asked {
			return fmt.Errorf("asked again with the grant: %v, want %v", again != nil, want.asked)
		}
		if err := says(want.says); err != nil {
			return err
		}
	}
	return nil
}

func shutdown(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.alive(ctx); err != nil {
		return err
	}
	if err := h.ask(); err != nil {
		return err
	}
	if _, err := awaitType[pipe.Shutdown](ctx, h.wire, patience, nil); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	h.release(0)
	_, err = h.exit(ctx, 2*patience)
	return err
}

func stubborn(ctx context.Context, p *agentPlayer) error {
	if runtime.GOOS == "windows" {
		return notApplicableError("there is no SIGTERM on Windows")
	}
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.alive(ctx); err != nil {
		return err
	}
	if err := h.ask(); err != nil {
		return err
	}
	if _, err := awaitType[pipe.Shutdown](ctx, h.wire, patience, nil); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	begin := time.Now()
	select {
	case <-h.signals:
	case <-h.gone:
		return errors.New("killed without SIGTERM")
	case <-time.After(patience):
		return fmt.Errorf("no SIGTERM within %v of shutdown", patience)
	}
	if took := time.Since(begin); took < pipe.StopGrace-500*time.Millisecond {
		return fmt.Errorf("SIGTERM %v after shutdown already", took.Round(time.Millisecond))
	}
	begin = time.Now()
	if err := h.goes(ctx, patience); err != nil {
		return fmt.Errorf("after SIGTERM: %w", err)
	}
	if took := time.Since(begin); took < pipe.StopGrace-500*time.Millisecond {
		return fmt.Errorf("SIGKILL %v after SIGTERM already", took.Round(time.Millisecond))
	}
	_, err = h.exit(ctx, 2*patience)
	return err
}

func agentCrash(ctx context.Context, p *agentPlayer) error {
	h, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.alive(ctx); err != nil {
		return err
	}
	h.release(7)
	select {
	case <-h.lobby.agents:
		return errors.New("the agent was started again")
	case <-h.exited:
		return nil
	case <-time.After(pipe.StopGrace):
	}
	if err := h.ask(); err != nil {
		return err
	}
	_, err = h.exit(ctx, 2*patience)
	return err
}
