package scripted

import (
	"fmt"
	"regexp"
	"strings"
)

// decision is a task to decide on the requests of a list.
type decision struct {
	reject  bool
	limit   limit
	limited bool
	all     bool // no limit and no names: all of them
}

var (
	approveWords = []string{"批准", "同意", "审批通过", "通过", "approve", "accept"}
	rejectWords  = []string{"驳回", "拒绝", "reject", "decline"}
	skipWords    = []string{"跳过", "不要", "别", "除", "不批", "不动", "skip", "except", "leave", "don't", "do not", "not "}
)

// decision reads the task; false if it is another one.
func (a *actor) decision() (decision, bool) {
	d := decision{}
	approve, reject := containsAny(a.task, approveWords...), containsAny(a.task, rejectWords...)
	if !approve && !reject {
		return d, false
	}
	d.reject = reject && !approve
	d.limit, d.limited = limitOf(a.task)
	d.all = containsAny(a.task, "所有", "全部", "every", " all ")
	return d, true
}

func (d decision) words() []string {
	if d.reject {
		return rejectWords
	}
	return approveWords
}

// noteOf makes the note with which a step on a request begins; noted reads
// it again.
func (a *actor) noteOf(what string, r row) string {
	zh := map[string]string{"open": "打开", "approve": "批准", "reject": "驳回"}[what]
	en := map[string]string{"open": "Open", "approve": "Approve", "reject": "Reject"}[what]
	if a.english {
		return fmt.Sprintf("%s %s (%s). ", en, r.key(), r.about())
	}
	return fmt.Sprintf("%s %s（%s）。", zh, r.key(), r.about())
}

// Only the beginning of a note counts: what comes later may repeat what a
// page said.
var notePattern = regexp.MustCompile(`^(打开|批准|驳回|Open|Approve|Reject) (\S+?) ?[（(]([^）)]*)[）)]`)

type note struct {
	what, key, about string
}

func noted(text string) (note, bool) {
	m := notePattern.FindStringSubmatch(text)
	if m == nil {
		return note{}, false
	}
	n := note{key: m[2], about: m[3]}
	switch m[1] {
	case "打开", "Open":
		n.what = "open"
	case "批准", "Approve":
		n.what = "approve"
	default:
		n.what = "reject"
	}
	return n, true
}

// history is what the notes say of one request.
type history struct {
	about   string
	opens   int
	tries   int
	outcome string // of the last try: "done", "unknown", "refused", "failed"
	code    string
}

// recallAll reads all notes, in the order in which requests were first seen.
func (a *actor) recallAll() (map[string]*history, []string) {
	all := map[string]*history{}
	var order []string
	for _, s := range a.steps {
		n, ok := noted(s.note)
		if !ok || s.action != "click" {
			continue
		}
		h := all[n.key]
		if h == nil {
			h = &history{}
			all[n.key] = h
			order = append(order, n.key)
		}
		h.about = n.about
		switch n.what {
		case "open":
			h.opens++
		default:
			if s.outcome != "skipped" && !misplaced(s.code) {
				h.tries++
				h.outcome, h.code = s.outcome, s.code
			}
		}
	}
	return all, order
}

// misplaced tells that a code says nothing about the request: the page was
// not the one that was meant.
func misplaced(code string) bool {
	return code == "CMD_REF_STALE" || code == "CMD_NO_PAGE" || code == "MAC_DOMAIN_MISMATCH"
}

// acted tells that the newest thing that was done to a request is a try, and
// that the page was not loaded again since: whatever it shows may be from
// before.
func (a *actor) acted(key string) bool {
	for i := len(a.steps) - 1; i >= 0; i-- {
		s := a.steps[i]
		n, ok := noted(s.note)
		switch {
		case s.outcome == "failed" || s.outcome == "skipped" || s.outcome == "refused":
		case ok && s.action == "click" && n.what != "open" && n.key == key:
			return true
		case s.action == "navigate", ok && n.what == "open" && s.action == "click":
			return false
		}
	}
	return false
}

// settled tells that a request is not to be tried again.
func (h *history) settled() bool {
	if h == nil {
		return false
	}
	return h.outcome == "refused" || strings.HasPrefix(h.code, "MAC_") || h.opens >= 4 || h.tries >= 3
}

// wanted tells whether a pending request is to be decided on. It heeds what
// was added in mid-run, the newest last.
func (a *actor) wanted(d decision, r row) (yes, skipped bool) {
	n, _, ok := r.days()
	switch {
	case d.limited:
		yes = ok && d.limit.holds(n)
		if yes && containsAny(a.task, "跳过", "除", "skip", "except") && r.namedIn(a.task) {
			yes, skipped = false, true
		}
	case d.all:
		yes = true
		if containsAny(a.task, "跳过", "除", "skip", "except") && r.namedIn(a.task) {
			yes, skipped = false, true
		}
	default:
		yes = r.namedIn(a.task)
	}
	for _, in := range a.instructions {
		lim, limited := limitOf(in)
		switch {
		case r.namedIn(in) && containsAny(in, skipWords...):
			yes, skipped = false, true
		case r.namedIn(in) && containsAny(in, d.words()...):
			yes, skipped = true, false
		case limited && containsAny(in, skipWords...) && ok && lim.holds(n):
			yes, skipped = false, true
		}
	}
	return yes, skipped
}

// namedIn tells whether a text names the request, by its number or by who
// asked.
func (r row) namedIn(text string) bool {
	text = strings.ToLower(text)
	id, name := strings.ToLower(r.id()), strings.ToLower(r.name())
	return id != "" && strings.Contains(text, id) || len([]rune(name)) >= 2 && strings.Contains(text, name)
}

// approve is the next step of deciding on the requests of a list.
func (a *actor) approve(d decision) reply {
	past, _ := a.recallAll()
	last := a.last()
	if last.outcome == "unknown" {
		// What the page shows may be from before; only a new request tells
		// whether the last one took effect.
		if n, ok := noted(last.note); ok && n.what != "open" {
			return a.act(a.say("%s 的结果未知，重新打开列表核实。", "The outcome for %s is unknown; open the list again to see.", n.key), "navigate", params{URL: a.listURL()})
		}
	}
	v := a.current()
	if v == nil {
		return a.look()
	}
	if r, ok := a.logIn(v); ok {
		return r
	}
	if list := requests(v); len(list) > 0 {
		return a.onList(d, v, list, past)
	}
	return a.elsewhere(d, v, past)
}

// requests are the rows of a view that look like requests in a list.
func requests(v *view) []row {
	var out []row
	for _, r := range v.rows {
		if _, _, ok := r.days(); ok && len(r.elements) > 0 && r.name() != "" {
			out = append(out, r)
		}
	}
	return out
}

// listURL is where the list was last seen, else where the task begins.
func (a *actor) listURL() string {
	for i := len(a.steps) - 1; i >= 0; i-- {
		if v := a.steps[i].view; v != nil && v.url != "" && len(requests(v)) > 0 {
			return v.url
		}
	}
	for i := len(a.steps) - 1; i >= 0; i-- {
		if u := a.steps[i].param("url"); a.steps[i].action == "navigate" && u != "" {
			return u
		}
	}
	return a.target()
}

// logIn asks the browser to log in, once, where a page wants a password.
func (a *actor) logIn(v *view) (reply, bool) {
	if !containsAny(v.text, "password", "密码") || len(requests(v)) > 0 {
		return reply{}, false
	}
	if _, ok := find(v.elements, []string{"textbox", "password", "textarea"}, "密码", "password"); !ok {
		return reply{}, false
	}
	for _, s := range a.steps {
		if s.action == "sessionLogin" {
			if s.outcome == "done" {
				return a.open(a.target()), a.last().action == "sessionLogin"
			}
			return a.fail(a.say("需要登录，但登录没有成功。", "A log-in is needed, and it did not succeed.")), true
		}
	}
	if !strings.Contains(a.actions, "sessionLogin") {
		return a.fail(a.say("需要登录。", "A log-in is needed.")), true
	}
	return a.act(a.say("需要登录。", "A log-in is needed."), "sessionLogin", params{Domain: host(v.url)}), true
}

func host(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	h, _, _ := strings.Cut(rest, ":")
	return h
}

// onList takes the next request, or the next page, or reports.
func (a *actor) onList(d decision, v *view, list []row, past map[string]*history) reply {
	var left []string
	for _, r := range list {
		if !r.pending() {
			continue
		}
		yes, _ := a.wanted(d, r)
		if !yes {
			left = append(left, r.key()+" "+r.about())
			continue
		}
		if past[r.key()].settled() {
			continue
		}
		if a.acted(r.key()) {
			return a.act(a.say("重新打开列表核实。", "Open the list again to see."), "navigate", params{URL: a.listURL()})
		}
		if e, ok := find(r.elements, []string{"button"}, d.words()...); ok {
			return a.click(a.noteOf(d.verb(), r), e)
		}
		e, ok := find(r.elements, nil, "查看", "详情", "打开", "处理", "审批", "view", "details", "open", "review")
		if !ok {
			e = r.elements[len(r.elements)-1]
		}
		return a.click(a.noteOf("open", r), e)
	}
	if next, ok := find(v.elements, []string{"link", "button"}, "下一页", "next page", "next"); ok && a.pagesTurned() < 50 {
		return a.click(a.say(leftZH, leftEN)+strings.Join(left, a.say("；", "; ")), next)
	}
	return a.finish(d, list, v.cut)
}

// Before the list is turned to its next page, a note keeps what is left on
// this one.
const (
	leftZH = "下一页。本页保留："
	leftEN = "Next page. Left on this one: "
)

func (a *actor) pagesTurned() int {
	n := 0
	for _, s := range a.steps {
		if strings.HasPrefix(s.note, leftZH) || strings.HasPrefix(s.note, leftEN) {
			n++
		}
	}
	return n
}

func (d decision) verb() string {
	if d.reject {
		return "reject"
	}
	return "approve"
}

// elsewhere acts on a page that is not the list: a request's own page, or
// one on the way.
func (a *actor) elsewhere(d decision, v *view, past map[string]*history) reply {
	button, canDecide := find(v.elements, []string{"button"}, d.words()...)
	r, ok := a.opened(v)
	if canDecide && ok {
		if yes, _ := a.wanted(d, r); yes && !past[r.key()].settled() && !a.acted(r.key()) {
			return a.click(a.noteOf(d.verb(), r), button)
		}
		return a.back(v, "")
	}
	if containsAny(v.text, "没有请假", "没有待", "没有数据", "没有记录", "暂无", "no leave requests", "no requests", "no pending", "no data", "no records") {
		return a.finish(d, nil, false)
	}
	// Not from where that leads: when all views of the list are out of date,
	// it is the page where the task began.
	if a.seenList() && a.listURL() != v.url {
		note := ""
		if ok && containsAny(v.text, decidedWords...) {
			note = a.say("%s 已处理。", "%s has been decided. ", r.key())
		}
		return a.back(v, note)
	}
	// On the way to the list.
	if e, ok := find(v.elements, []string{"link", "button", "menuitem", "tab"}, "请假审批", "待审批", "待办", "请假", "审批", "leave requests", "approvals", "leave"); ok && a.clicks(e.name) < 3 {
		return a.click(a.say("打开“%s”。", "Go to %q.", e.name), e)
	}
	return a.fail(a.say("页面上没有找到待审批的列表。", "There is no list of requests on the page."))
}

// clicks counts how often a link on the way was followed since a page was
// opened by its URL.
func (a *actor) clicks(name string) int {
	n := 0
	for _, s := range a.steps {
		switch {
		case s.action == "navigate":
			n = 0
		case s.action == "click" && s.outcome == "done" && strings.Contains(s.note, name):
			n++
		}
	}
	return n
}

func (a *actor) seenList() bool {
	for _, s := range a.steps {
		if n, ok := noted(s.note); ok && n.what != "" {
			return true
		}
		if s.view != nil && len(requests(s.view)) > 0 {
			return true
		}
	}
	return false
}

// opened is the request that was opened last, if the view shows it.
func (a *actor) opened(v *view) (row, bool) {
	for i := len(a.steps) - 1; i >= 0; i-- {
		n, ok := noted(a.steps[i].note)
		if !ok {
			continue
		}
		r := rowOf(n)
		name, _, _ := strings.Cut(n.about, " ")
		if r.id() != "" && strings.Contains(v.text, r.id()) || r.id() == "" && name != "" && strings.Contains(v.text, name) {
			return r, true
		}
		return row{}, false
	}
	return row{}, false
}

// rowOf makes a row of what a note says.
func rowOf(n note) row {
	r := row{}
	if idCell.MatchString(n.key) {
		r.cells = append(r.cells, n.key)
		r.header = append(r.header, "id")
	}
	// What is before the kind and the number is the name, which may be of
	// several words.
	words := strings.Fields(n.about)
	at := len(words)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			at = i
			break
		}
	}
	name := words[:max(0, at)]
	if len(name) > 1 {
		name, words = name[:len(name)-1], words[len(name)-1:]
		r.cells = append(r.cells, strings.Join(name, " "), words[0], strings.Join(words[1:], " "))
	} else {
		r.cells = append(r.cells, strings.Join(name, " "), "", strings.Join(words[at:], " "))
	}
	r.header = append(r.header, "name", "type", "days")
	return r
}

// back returns to the list, by the page's own link or by its URL.
func (a *actor) back(v *view, note string) reply {
	// Not twice in a row by the link: it may lead elsewhere.
	if last := a.last(); last.action != "click" || !strings.Contains(last.note, a.say("返回列表", "Back to the list")) {
		if e, ok := find(v.elements, []string{"link", "button"}, "返回列表", "返回", "back to list", "back"); ok {
			return a.click(note+a.say("返回列表。", "Back to the list."), e)
		}
	}
	return a.act(note+a.say("返回列表。", "Back to the list."), "navigate", params{URL: a.listURL()})
}

// finish reports what was done and what was left.
func (a *actor) finish(d decision, list []row, cut bool) reply {
	past, order := a.recallAll()
	still := map[string]bool{}
	var left, skipped, refused, failed, done []string
	for _, s := range a.steps {
		for _, mark := range []string{leftZH, leftEN} {
			if rest, ok := strings.CutPrefix(s.note, mark); ok {
				for _, item := range strings.FieldsFunc(rest, func(r rune) bool { return r == '；' || r == ';' }) {
					left = append(left, strings.TrimSpace(item))
				}
			}
		}
	}
	for _, r := range list {
		if !r.pending() {
			continue
		}
		still[r.key()] = true
		item := r.key() + " " + r.about()
		yes, skip := a.wanted(d, r)
		switch {
		case skip:
			skipped = append(skipped, item)
		case !yes:
			left = append(left, item)
		}
	}
	for _, key := range order {
		h := past[key]
		item := key + " " + h.about
		switch {
		case h.outcome == "refused":
			refused = append(refused, item)
		case h.tries > 0 && !still[key]:
			done = append(done, item)
		case still[key] && h.settled():
			failed = append(failed, item)
		}
	}
	var b strings.Builder
	part := func(zh, en string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "%s%s\n", a.say(zh, en, len(items)), strings.Join(items, a.say("；", "; ")))
		}
	}
	if d.reject {
		part("已驳回 %d 张：", "Rejected (%d): ", done)
	} else {
		part("已批准 %d 张：", "Approved (%d): ", done)
	}
	part("保留未动 %d 张：", "Left alone (%d): ", unique(left))
	part("按指示跳过 %d 张：", "Skipped as instructed (%d): ", skipped)
	part("人工不同意，未处理 %d 张：", "Refused by the person, left alone (%d): ", refused)
	part("未能处理 %d 张：", "Could not be decided (%d): ", failed)
	if cut {
		b.WriteString(a.say("列表没有显示完整，可能还有其他请假单。\n", "The list was not shown as a whole; there may be more.\n"))
	}
	if len(done)+len(left)+len(skipped)+len(refused)+len(failed) == 0 {
		b.WriteString(a.say("没有待审批的请假单。\n", "There are no pending requests.\n"))
	}
	return a.report(b.String(), a.say("任务完成。", "Done."))
}

func (a *actor) report(body, head string) reply {
	return reply{text: strings.TrimSpace(head + "\n" + body)}
}

func unique(items []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range items {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
