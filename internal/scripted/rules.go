package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// reply is what the server says: text, and calls unless it is the end.
type reply struct {
	text  string
	calls []toolCall
}

type toolCall struct {
	name string
	args json.RawMessage
}

// actor chooses a reply.
type actor struct {
	conversation
	start string // where to begin if the task names no URL
}

// say chooses between the languages.
func (a *actor) say(zh, en string, args ...any) string {
	if a.english {
		zh = en
	}
	if len(args) == 0 {
		return zh
	}
	return fmt.Sprintf(zh, args...)
}

type arguments struct {
	Action string `json:"action"`
	Params params `json:"params"`
}

type params struct {
	URL       string `json:"url,omitempty"`
	Selector  string `json:"selector,omitempty"`
	Text      string `json:"text,omitempty"`
	Domain    string `json:"domain,omitempty"`
	MaxTokens int    `json:"max_tokens,omitempty"`
}

func (a *actor) act(note, action string, p params) reply {
	b, err := json.Marshal(arguments{action, p})
	if err != nil {
		return reply{text: err.Error()}
	}
	return reply{text: note, calls: []toolCall{{a.tool, b}}}
}

func (a *actor) click(note string, e element) reply {
	return a.act(note, "click", params{Selector: "[ref=" + e.ref + "]"})
}

func (a *actor) look() reply {
	return a.act(a.say("查看页面。", "Look at the page."), "getAomSnapshot", params{})
}

func (a *actor) open(url string) reply {
	return a.act(a.say("打开 %s。", "Open %s.", url), "navigate", params{URL: url})
}

// fail gives up, by the tool if there is one.
func (a *actor) fail(reason string) reply {
	if a.giveUp == "" {
		return reply{text: reason}
	}
	b, err := json.Marshal(struct {
		Reason string `json:"reason"`
	}{reason})
	if err != nil {
		return reply{text: reason}
	}
	return reply{text: a.say("无法完成。", "This cannot be done."), calls: []toolCall{{a.giveUp, b}}}
}

var urlPattern = regexp.MustCompile(`https?://[^\s，。；、（）()"'“”「」【】<>]+`)

// target is the URL that the task is about.
func (a *actor) target() string {
	if u := strings.TrimRight(urlPattern.FindString(a.task), ".,;:!?"); u != "" {
		return u
	}
	return a.start
}

// decide chooses the next reply.
func decide(c conversation, start string) reply {
	a := &actor{conversation: c, start: start}
	if a.tool == "" {
		return reply{text: a.say("收到：", "Received: ") + a.task}
	}
	for _, in := range a.instructions {
		if containsAny(in, "停止", "到此为止", "stop now", "stop here") || strings.EqualFold(strings.Trim(in, " .!"), "stop") {
			return a.report("", a.say("按指示停止。", "Stopped as instructed."))
		}
	}
	if r, ok := a.arrive(); !ok {
		return r
	}
	if d, ok := a.decision(); ok {
		return a.approve(d)
	}
	switch {
	case a.countsRows():
		return a.count()
	case containsAny(a.task, "点击", "单击", "click"):
		return a.press()
	case containsAny(a.task, "输入", "填写", "type ", "enter "):
		return a.fill()
	case containsAny(a.task, "标题", "title"):
		return a.title()
	}
	return a.read()
}

// arrive opens the page that the task is about and gets over a failure to.
// It reports false if its reply is to be given.
func (a *actor) arrive() (reply, bool) {
	url := a.target()
	if url == "" {
		return a.fail(a.say("任务没有给出网址。", "The task names no URL.")), false
	}
	last := a.last()
	if last == nil {
		return a.open(url), false
	}
	if n := a.failuresInARow("navigate"); n > 0 {
		switch {
		case strings.HasPrefix(last.code, "MAC_"):
			return a.fail(a.say("不允许打开 %s。", "Opening %s is not allowed.", url)), false
		case n > 5:
			return a.fail(a.say("无法打开 %s：%s", "%s cannot be opened: %s", url, firstLine(last.block))), false
		case last.action == "navigate" && n%2 == 0:
			return a.look(), false
		}
		return a.open(url), false
	}
	if n := a.failuresInARow("getAomSnapshot"); n > 4 {
		return a.fail(a.say("无法读取页面：%s", "The page cannot be read: %s", firstLine(last.block))), false
	} else if n > 0 && n%2 == 0 {
		return a.open(url), false
	}
	// A browser that was started again stands nowhere.
	if v := a.current(); v != nil && (strings.HasPrefix(v.url, "about:") || strings.HasPrefix(v.url, "chrome")) {
		return a.open(url), false
	}
	if last.code == "CMD_NO_PAGE" || last.code == "CMD_PAGE_CRASHED" || last.code == "CMD_BROWSER_GONE" {
		return a.open(url), false
	}
	for _, s := range a.steps {
		if s.action == "navigate" && s.outcome != "failed" {
			return reply{}, true
		}
	}
	return a.open(url), false
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200])
	}
	return s
}

// lastPage is the newest observation that says where the page stands.
func (a *actor) lastPage() *view {
	for i := len(a.steps) - 1; i >= 0; i-- {
		if a.steps[i].block != "" {
			if v := parseView(a.steps[i].block); v.url != "" {
				return v
			}
		}
	}
	return &view{}
}

func (a *actor) title() reply {
	if v := a.lastPage(); v.title != "" {
		return reply{text: a.say("页面标题是：%s", "The title of the page is: %s", v.title)}
	}
	if a.current() == nil {
		return a.look()
	}
	return a.fail(a.say("页面没有标题。", "The page has no title."))
}

// textOf is the result of the newest getText of the page, or asks for it.
func (a *actor) textOf(selector string) (string, reply, bool) {
	for i := len(a.steps) - 1; i >= 0; i-- {
		s := a.steps[i]
		if s.action != "getText" || s.param("selector") != selector {
			continue
		}
		if s.outcome != "done" {
			break
		}
		if _, text, ok := strings.Cut("\n"+s.block, "\ntext:\n"); ok {
			return text, reply{}, true
		}
		return s.block, reply{}, true
	}
	if n := a.failuresInARow("getText"); n > 2 {
		return "", a.fail(a.say("无法读取页面文字：%s", "The page's text cannot be read: %s", firstLine(a.last().block))), false
	}
	return "", a.act(a.say("读取文字。", "Read the text."), "getText", params{Selector: selector}), false
}

func (a *actor) read() reply {
	text, r, ok := a.textOf("body")
	if !ok {
		return r
	}
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 600 {
		text = string(r[:600]) + "…"
	}
	return reply{text: a.say("页面“%s”的文字：%s", "The text of the page %q: %s", a.lastPage().title, text)}
}

var quotedText = regexp.MustCompile(`[“"「『'‘]([^”"」』'’]+)[”"」』'’]`)

func (a *actor) quotes() []string {
	var out []string
	for _, m := range quotedText.FindAllStringSubmatch(a.task, -1) {
		out = append(out, m[1])
	}
	return out
}

var clickWords = regexp.MustCompile(`(?i)(?:点击|单击|click(?: on)?(?: the)?)\s*([^，。,.;；]+)`)

func (a *actor) press() reply {
	for _, s := range a.steps {
		if s.action != "click" {
			continue
		}
		switch s.outcome {
		case "done":
			v := a.current()
			if v == nil {
				return a.look()
			}
			return reply{text: a.say("已点击。现在的页面：%s（%s）", "Clicked. The page is now: %s (%s)", v.title, v.url)}
		case "refused":
			return reply{text: a.say("对方不同意点击，没有点击。", "The person refused; it was not clicked.")}
		case "unknown":
			if a.current() == nil {
				return a.look()
			}
			return a.fail(a.say("点击已发出，但不知道是否生效，没有重复。", "The click was sent, but whether it took effect is not known; it was not repeated."))
		}
	}
	v := a.current()
	if v == nil {
		return a.look()
	}
	names := a.quotes()
	if m := clickWords.FindStringSubmatch(urlPattern.ReplaceAllString(a.task, "")); len(names) == 0 && m != nil {
		names = []string{strings.TrimSpace(m[1])}
		if words := strings.Fields(m[1]); len(words) > 0 {
			names = append(names, words[0])
		}
	}
	e, ok := find(v.elements, nil, names...)
	if !ok || a.failuresInARow("click") > 2 {
		return a.fail(a.say("页面上没有能点击的 %s。", "There is no %s to click on the page.", strings.Join(names, " / ")))
	}
	return a.click(a.say("点击 %s。", "Click %s.", e.name), e)
}

// fill types a quoted text into a field that is named by another.
func (a *actor) fill() reply {
	if last := a.last(); last.action == "type" && last.outcome == "done" {
		return reply{text: a.say("已填写。", "Filled in.")}
	}
	v := a.current()
	if v == nil {
		return a.look()
	}
	q := a.quotes()
	if len(q) < 2 || a.failuresInARow("type") > 2 {
		return a.fail(a.say("无法完成填写。", "It cannot be filled in."))
	}
	fields := []string{"textbox", "searchbox", "combobox", "spinbutton", "textarea", "input"}
	for i, name := range q {
		if e, ok := find(v.elements, fields, name); ok {
			return a.act(a.say("填写 %s。", "Fill in %s.", e.name), "type", params{Selector: "[ref=" + e.ref + "]", Text: q[(i+1)%len(q)]})
		}
	}
	return a.fail(a.say("页面上没有这样的输入框。", "There is no such field on the page."))
}

func (a *actor) countsRows() bool {
	return containsAny(a.task, "多少行", "行数", "几行", "统计", "count", "how many rows", "number of rows")
}

// count counts the rows of the page's table that fit the task's limit, on
// the column that the task names, else the last one.
func (a *actor) count() reply {
	text, r, ok := a.textOf("table")
	if !ok {
		return r
	}
	lim, limited := limitOf(a.task)
	var header []string
	column, n, all := -1, 0, 0
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(cells) < 2 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if header == nil {
			header = cells
			for i, h := range header {
				if h != "" && strings.Contains(strings.ToLower(a.task), strings.ToLower(h)) {
					column = i
				}
			}
			if column < 0 {
				column = len(header) - 1
			}
			continue
		}
		if len(cells) < len(header) {
			continue
		}
		all++
		var v float64
		if _, err := fmt.Sscan(number.FindString(cells[column]), &v); err == nil && (!limited || lim.holds(v)) {
			n++
		}
	}
	if header == nil {
		return a.fail(a.say("页面上没有表格。", "There is no table on the page."))
	}
	if !limited {
		return reply{text: a.say("表格共有 %d 行。", "The table has %d rows.", all)}
	}
	return reply{text: a.say("表格共有 %d 行，其中 %d 行的“%s”%s。", "Of the table's %d rows, %d have %q %s.", all, n, header[column], a.limitText(lim))}
}
