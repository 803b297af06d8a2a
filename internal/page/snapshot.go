package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"sgclaw/internal/action"
	"sgclaw/internal/pipe"
)

const (
	// siblingCap is how many equal children of one element are shown.
	siblingCap = 50
	// maxNodes bounds how many elements of a frame are looked at.
	maxNodes = 40_000
	// maxLineRunes bounds one line of a snapshot.
	maxLineRunes = 3000
	// maxFrames and maxFrameDepth bound the frames of a snapshot.
	maxFrames     = 60
	maxFrameDepth = 5
	// treeBudget is how many bytes the tree form may take in a reply.
	treeBudget = 640 << 10
	treeNodes  = 8000
)

type snapshotOptions struct {
	root     string // selector; empty: the whole page
	tokens   int
	uncapped bool // show all siblings
	events   []pipe.PageEvent
}

// snapshot is a page as text for a model.
type snapshot struct {
	text      string
	tokens    int
	truncated bool
	rest      string
}

// line is one line as the library writes it.
type line struct {
	Depth  int    `json:"d"`
	Text   string `json:"t"`
	InView int    `json:"v"`
	Y      int    `json:"y"`
	Front  int    `json:"f"` // in an open dialog
	Frame  int    `json:"i"` // iframe element
}

// walk is what the library's snapshot answers.
type walk struct {
	Lines   []line `json:"lines"`
	Hosts   []int  `json:"hosts"`
	Skipped int    `json:"skipped"`
	Cut     bool   `json:"cut"`
	Gone    bool   `json:"gone"`
	Missing bool   `json:"missing"`
	URL     string `json:"url"`
	Title   string `json:"title"`
	Ready   string `json:"ready"`
	Y       int    `json:"y"`
	View    int    `json:"view"`
	Height  int    `json:"height"`
}

func (w *walk) missing() bool { return w.Missing }

// Tokens estimates how many tokens a text has for a model. Measured on
// snapshots of Chinese and English pages it is within 12 %.
func Tokens(s string) int {
	cjk, other := 0, 0
	for _, r := range s {
		if r >= 0x2e80 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef) {
			cjk++
		} else {
			other++
		}
	}
	return int(math.Ceil(float64(cjk)*0.65 + float64(other)/2.4))
}

func getSnapshot(ctx context.Context, p *Page, r Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	params, err := action.Decode[action.GetAOMSnapshotParams](r.Params)
	if err != nil {
		return nil, nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	if params.Format == action.FormatTree {
		return getTree(ctx, p, params)
	}
	data := &pipe.Data{Events: p.takeEvents()}
	s, err := p.snapshot(ctx, snapshotOptions{root: params.RootSelector, tokens: params.MaxTokens, events: data.Events})
	if err != nil {
		return data, nil, fault(err)
	}
	data.Snapshot, data.Tokens, data.Truncated, data.Rest = s.text, s.tokens, s.truncated, s.rest
	return data, nil, nil
}

// snapshot describes the page, or the part of it at root.
func (p *Page) snapshot(ctx context.Context, o snapshotOptions) (snapshot, error) {
	f, id := p.main(), 0
	if o.root != "" {
		found, e := p.locate(ctx, o.root)
		if e != nil {
			return snapshot{}, e
		}
		if e := p.mayRead(ctx, found); e != nil {
			return snapshot{}, e
		}
		f, id = found.frame, found.id
	}
	g := &gather{p: p, left: maxFrames, most: siblingCap}
	if o.uncapped {
		g.most = 0
	}
	w, lines, err := g.frame(ctx, f, id, 0)
	if err != nil {
		return snapshot{}, err
	}
	if w.Gone {
		return snapshot{}, pipe.Errorf(pipe.CodeRefStale, "%s is gone; take a new snapshot", clip(o.root, 100))
	}
	p.update(func(s *state) {
		if f == p.main() {
			s.title = w.Title
		}
	})
	head := header(p, w, f, o)
	text, left1 := fit(lines, head, o.tokens)
	s := snapshot{text: text, tokens: Tokens(text), truncated: left1 > 0 || g.skipped > 0 || w.Cut}
	if s.truncated {
		s.rest = "not everything is shown: use root_selector for one part, scrollTo to move the view, or a larger max_tokens"
	}
	return s, nil
}

func header(p *Page, w walk, f frameKey, o snapshotOptions) string {
	var b strings.Builder
	domain := Domain(p.url())
	fmt.Fprintf(&b, "page %q %s", clip(w.Title, 150), clip(w.URL, 300))
	if domain != "" && f == p.main() {
		fmt.Fprintf(&b, " (domain %s)", domain)
	}
	b.WriteByte('\n')
	if o.root != "" {
		fmt.Fprintf(&b, "part %s\n", clip(o.root, 100))
	} else if w.Height > w.View {
		fmt.Fprintf(&b, "in view: %d-%d of %d px\n", w.Y, w.Y+w.View, w.Height)
	}
	if w.Ready == "loading" {
		b.WriteString("still loading\n")
	}
	for _, e := range o.events {
		fmt.Fprintf(&b, "event %s: %s\n", e.Kind, cleanText(e.Text))
	}
	return b.String()
}

// cleanText makes one harmless line of text that a page may have written.
func cleanText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) {
			return -1
		}
		return r
	}, s)
	return strings.ReplaceAll(s, "[ref=", "(ref=")
}

// gather collects the lines of a frame and those inside it.
type gather struct {
	p    *Page
	most int // siblings

	mu      sync.Mutex
	left    int // frames that may still be read
	skipped int
}

func (g *gather) frame(ctx context.Context, f frameKey, id, depth int) (walk, []line, error) {
	p := g.p
	var w walk
	a := args{ID: id, Cap: g.most, Nodes: maxNodes}
	for range 2 {
		w = walk{}
		if err := p.ask(ctx, f, "snapshot", a, &w); err != nil {
			return w, nil, err
		}
		if !p.openRoots(ctx, f, w.Hosts) {
			break
		}
	}
	if w.Gone {
		return w, nil, nil
	}
	token, err := p.world(ctx, f)
	if err != nil {
		return w, nil, err
	}
	g.mu.Lock()
	g.skipped += w.Skipped
	g.mu.Unlock()
	lines := w.Lines
	var frames []int
	for i := range lines {
		lines[i].Text = p.number(lines[i].Text, f, token.token)
		if lines[i].Frame > 0 && depth < maxFrameDepth {
			frames = append(frames, i)
		}
	}
	if len(frames) == 0 {
		return w, lines, nil
	}
	inside := make([][]line, len(frames))
	var wg sync.WaitGroup
	for k, i := range frames {
		g.mu.Lock()
		ok := g.left > 0
		g.left--
		g.mu.Unlock()
		if !ok {
			continue
		}
		wg.Go(func() {
			inside[k] = g.inner(ctx, node{frame: f, token: token.token, id: lines[i].Frame}, lines[i], depth)
		})
	}
	wg.Wait()
	out := make([]line, 0, len(lines)+len(frames)*8)
	k := 0
	for i := range lines {
		out = append(out, lines[i])
		if k < len(frames) && frames[k] == i {
			out = append(out, inside[k]...)
			k++
		}
	}
	return w, out, nil
}

// inner is the lines of the frame in an iframe element. A frame that cannot
// be read has none.
func (g *gather) inner(ctx context.Context, owner node, at line, depth int) []line {
	f, err := g.p.child(ctx, owner)
	if err != nil {
		return nil
	}
	w, lines, err := g.frame(ctx, f, 0, depth+1)
	if err != nil {
		g.p.log.Debug("frame not read", "err", err)
		return nil
	}
	if Domain(w.URL) != "" && g.p.b.allowed(w.URL) != nil {
		return nil
	}
	for i := range lines {
		lines[i].Depth += at.Depth + 1
		lines[i].InView &= at.InView
		lines[i].Front |= at.Front
		lines[i].Y += at.Y
	}
	return lines
}

// number replaces the library's marks by refs.
func (p *Page) number(text string, f frameKey, token string) string {
	if !strings.Contains(text, "\x01") {
		return text
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "\x01")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		digits, after, _ := strings.Cut(rest, "\x02")
		if id, err := strconv.Atoi(digits); err == nil {
			b.WriteString(refName(p.b.refs.ref(p, node{frame: f, token: token, id: id})))
		}
		text = after
	}
}

// fit writes as many lines as the budget allows, those of open dialogs and
// of the viewport first, and says how many are left out.
func fit(lines []line, head string, budget int) (string, int) {
	costs := make([]int, len(lines))
	total := Tokens(head)
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = strings.Repeat(" ", min(l.Depth, 12)) + cutLine(l.Text) + "\n"
		costs[i] = Tokens(texts[i])
		total += costs[i]
	}
	keep := make([]bool, len(lines))
	if total <= budget {
		for i := range keep {
			keep[i] = true
		}
	} else {
		const reserve = 60 // for the marks of gaps
		spent := Tokens(head) + reserve
		for _, i := range byImportance(lines) {
			if spent+costs[i] > budget {
				if spent+20 > budget {
					break
				}
				continue
			}
			keep[i] = true
			spent += costs[i]
		}
	}
	var b strings.Builder
	b.WriteString(head)
	left, gap := 0, 0
	flush := func() {
		if gap > 0 {
			fmt.Fprintf(&b, "... %d more lines (root_selector or scrollTo)\n", gap)
			left += gap
			gap = 0
		}
	}
	for i := range lines {
		if !keep[i] {
			gap++
			continue
		}
		flush()
		b.WriteString(texts[i])
	}
	flush()
	return b.String(), left
}

// byImportance orders lines: open dialogs, the viewport, what follows it,
// what is before it, nearest first.
func byImportance(lines []line) []int {
	var front, view, after, before []int
	last := -1
	for i, l := range lines {
		if l.InView != 0 {
			last = i
		}
	}
	for i, l := range lines {
		switch {
		case l.Front != 0:
			front = append(front, i)
		case l.InView != 0:
			view = append(view, i)
		case i > last || l.Y > 0:
			after = append(after, i)
		default:
			before = append(before, i)
		}
	}
	slices.Reverse(before)
	return slices.Concat(front, view, after, before)
}

// cutLine shortens a line without cutting through a ref.
func cutLine(s string) string {
	if len(s) <= maxLineRunes {
		return s
	}
	runes := []rune(s)
	if len(runes) <= maxLineRunes {
		return s
	}
	cut := string(runes[:maxLineRunes])
	if open := strings.LastIndexByte(cut, '['); open >= 0 && !strings.Contains(cut[open:], "]") {
		cut = cut[:open]
	}
	return cut + "…"
}

// treeNode is a node as the library writes it.
type treeNode struct {
	Role     string     `json:"role"`
	Name     string     `json:"name"`
	Bounds   [4]int     `json:"bounds"`
	Value    string     `json:"value"`
	Ref      string     `json:"ref"`
	States   []string   `json:"states"`
	Frame    int        `json:"frame"`
	Children []treeNode `json:"children"`
}

type treeAnswer struct {
	Nodes   []treeNode `json:"nodes"`
	Cut     bool       `json:"cut"`
	Hosts   []int      `json:"hosts"`
	Gone    bool       `json:"gone"`
	Missing bool       `json:"missing"`
}

func (t *treeAnswer) missing() bool { return t.Missing }

func getTree(ctx context.Context, p *Page, params action.GetAOMSnapshotParams) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	f, id := p.main(), 0
	if params.RootSelector != "" {
		found, e := p.locate(ctx, params.RootSelector)
		if e != nil {
			return nil, nil, e
		}
		if e := p.mayRead(ctx, found); e != nil {
			return nil, nil, e
		}
		f, id = found.frame, found.id
	}
	t := &trees{p: p, left: treeNodes}
	nodes, err := t.frame(ctx, f, id, 0)
	if err != nil {
		return nil, nil, fault(err)
	}
	budget := treeBudget
	kept := prune(nodes, &budget)
	data := &pipe.Data{Text: fmt.Sprintf("%d nodes", countNodes(kept))}
	if t.cut || budget < 0 {
		data.Truncated = true
		data.Rest = "not all nodes are there: use root_selector for one part"
	}
	return data, kept, nil
}

// trees collects the tree of a page, frame by frame.
type trees struct {
	p    *Page
	left int
	cut  bool
}

func (t *trees) frame(ctx context.Context, f frameKey, id, depth int) ([]pipe.AOMNode, error) {
	var a treeAnswer
	for range 2 {
		a = treeAnswer{}
		if err := t.p.ask(ctx, f, "tree", args{ID: id, Nodes: t.left}, &a); err != nil {
			return nil, err
		}
		if !t.p.openRoots(ctx, f, a.Hosts) {
			break
		}
	}
	if a.Gone {
		return nil, pipe.Errorf(pipe.CodeRefStale, "the element is gone; take a new snapshot")
	}
	w, err := t.p.world(ctx, f)
	if err != nil {
		return nil, err
	}
	t.cut = t.cut || a.Cut
	return t.convert(ctx, f, w.token, a.Nodes, depth), nil
}

func (t *trees) convert(ctx context.Context, f frameKey, token string, nodes []treeNode, depth int) []pipe.AOMNode {
	out := make([]pipe.AOMNode, 0, len(nodes))
	for _, n := range nodes {
		t.left--
		node1 := pipe.AOMNode{
			Role: n.Role, Name: n.Name, Bounds: n.Bounds, Value: n.Value, States: n.States,
			Ref: t.p.number(n.Ref, f, token), Children: t.convert(ctx, f, token, n.Children, depth),
		}
		if len(node1.Children) == 0 {
			node1.Children = nil
		}
		if n.Frame > 0 && depth < maxFrameDepth {
			inner, err := t.p.child(ctx, node{frame: f, token: token, id: n.Frame})
			if err == nil {
				if kids, err := t.frame(ctx, inner, 0, depth+1); err == nil {
					node1.Children = kids
				} else if errors.Is(err, context.Canceled) {
					return out
				}
			}
		}
		out = append(out, node1)
	}
	return out
}

// prune keeps what fits the budget, in document order; the budget is below
// zero afterwards if that is not all.
func prune(nodes []pipe.AOMNode, budget *int) []pipe.AOMNode {
	for i := range nodes {
		kids := nodes[i].Children
		nodes[i].Children = nil
		raw, err := json.Marshal(nodes[i])
		if err == nil {
			*budget -= len(raw) + len(`,"children":[],`)
		}
		if *budget < 0 || err != nil {
			return nodes[:i]
		}
		nodes[i].Children = prune(kids, budget)
		if *budget < 0 {
			return nodes[:i+1]
		}
	}
	return nodes
}

func countNodes(nodes []pipe.AOMNode) int {
	n := len(nodes)
	for _, c := range nodes {
		n += countNodes(c.Children)
	}
	return n
}
