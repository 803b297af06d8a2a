package scripted

import (
	"regexp"
	"strconv"
	"strings"
)

// element is something on a page that can be acted on.
type element struct {
	role, name, ref string
	disabled        bool
}

// row is a line of a table.
type row struct {
	cells    []string // text only; of an element its name
	elements []element
	header   []string // of the table, as far as one was seen
}

// view is a page as a snapshot showed it.
type view struct {
	url, title string
	text       string
	elements   []element
	rows       []row
	cut        bool // the snapshot said that there is more
}

var (
	refPattern  = regexp.MustCompile(`\[ref=([a-z]*\d+)\]`)
	namePattern = regexp.MustCompile(`([a-zA-Z]+)(?:\s+"([^"]*)")?(?:\s*[(\[][^()\[\]"]*[)\]])*\s*$`)
	morePattern = regexp.MustCompile(`(?i)(\.\.\.|…)\s*\d+ more`)
)

// parseView reads what an observation said about a page.
func parseView(text string) *view {
	v := &view{text: text}
	var header []string
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		low := strings.ToLower(line)
		if u, ok := strings.CutPrefix(low, "url:"); ok && v.url == "" {
			v.url = strings.TrimSpace(line[len(line)-len(u):])
			continue
		}
		if rest, ok := strings.CutPrefix(low, "title:"); ok && v.title == "" {
			v.title = strings.Trim(strings.TrimSpace(line[len(line)-len(rest):]), `"`)
			continue
		}
		if morePattern.MatchString(line) {
			v.cut = true
		}
		els := elementsOf(line)
		v.elements = append(v.elements, els...)
		cells := cellsOf(line)
		if cells == nil {
			inTable = false
			continue
		}
		if !inTable {
			header, inTable = nil, true
		}
		switch {
		case isRule(cells):
		case header == nil && len(els) == 0 && isHeader(cells):
			header = cells
		default:
			v.rows = append(v.rows, row{cells: cells, elements: els, header: header})
		}
	}
	return v
}

// elementsOf finds the elements of a line, each `role "name" … [ref=eN]`.
func elementsOf(line string) []element {
	var out []element
	from := 0
	locs := refPattern.FindAllStringSubmatchIndex(line, -1)
	for i, loc := range locs {
		before := line[from:loc[0]]
		if bar := strings.LastIndexByte(before, '|'); bar >= 0 {
			before = before[bar+1:]
		}
		end := len(line)
		if i+1 < len(locs) {
			end = locs[i+1][0]
		}
		after, _, _ := strings.Cut(line[loc[1]:end], "|")
		m := namePattern.FindStringSubmatch(before)
		e := element{ref: line[loc[2]:loc[3]]}
		if m != nil {
			e.role, e.name = strings.ToLower(m[1]), m[2]
		}
		state := after
		if q := strings.IndexByte(state, '"'); q >= 0 {
			state = state[:q]
		}
		e.disabled = strings.Contains(state, "disabled") || m != nil && strings.Contains(before[strings.LastIndex(before, `"`)+1:], "disabled")
		out = append(out, e)
		from = loc[1]
	}
	return out
}

var cellElement = regexp.MustCompile(`[a-zA-Z]+\s+"([^"]*)"(?:\s+\[?[a-z=-]+\]?)*?\s*\[ref=[a-z]*\d+\]`)

// cellsOf splits a line of a table; nil if it is none.
func cellsOf(line string) []string {
	line = strings.TrimLeft(line, "-* ")
	for _, word := range []string{"row ", "row: ", "header ", "header: "} {
		line = strings.TrimPrefix(line, word)
	}
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	parts := strings.Split(strings.Trim(line, "|"), "|")
	cells := make([]string, 0, len(parts))
	for _, p := range parts {
		p = cellElement.ReplaceAllString(p, "$1")
		p = refPattern.ReplaceAllString(p, "")
		cells = append(cells, strings.Join(strings.Fields(p), " "))
	}
	return cells
}

// isRule tells the line under a Markdown table's header.
func isRule(cells []string) bool {
	for _, c := range cells {
		if strings.Trim(c, "-: ") != "" {
			return false
		}
	}
	return true
}

// isHeader tells a line of column names: no numbers in it, and none empty
// but perhaps the last.
func isHeader(cells []string) bool {
	for i, c := range cells {
		if c == "" && i < len(cells)-1 || strings.ContainsAny(c, "0123456789") {
			return false
		}
	}
	return true
}

// column finds a cell by its column's name.
func (r row) column(names ...string) string {
	for i, h := range r.header {
		for _, n := range names {
			if i < len(r.cells) && strings.Contains(strings.ToLower(h), n) {
				return r.cells[i]
			}
		}
	}
	return ""
}

var idCell = regexp.MustCompile(`^[A-Za-z]{1,6}[-_]?\d{2,}$|^\d{6,}$`)

// id is the row's number, if it has one.
func (r row) id() string {
	for _, c := range r.cells {
		if idCell.MatchString(c) {
			return c
		}
	}
	return ""
}

// name is who the row is about.
func (r row) name() string {
	if c := r.column("申请人", "姓名", "applicant", "name", "employee"); c != "" {
		return c
	}
	for _, c := range r.cells {
		if c != "" && !idCell.MatchString(c) && !strings.ContainsAny(c, "0123456789") {
			return c
		}
	}
	return ""
}

// key names the row in notes: without spaces, the same each time it is seen.
func (r row) key() string {
	if id := r.id(); id != "" {
		return id
	}
	s := r.name() + "·" + strings.Join(r.cells[:min(4, len(r.cells))], "·")
	return strings.Join(strings.Fields(noBrackets.Replace(s)), "_")
}

var noBrackets = strings.NewReplacer("(", "", ")", "", "（", "", "）", "")

// about describes the row in a note.
func (r row) about() string {
	parts := []string{r.name()}
	if k := r.column("类型", "type", "kind"); k != "" {
		parts = append(parts, k)
	}
	if _, text, ok := r.days(); ok {
		parts = append(parts, text)
	}
	s := noBrackets.Replace(strings.Join(parts, " "))
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60])
	}
	return s
}

var (
	number  = regexp.MustCompile(`-?\d+(?:\.\d+)?`)
	daysInA = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(天|日|days?|d)$`)
)

// days is how many days the row is about.
func (r row) days() (n float64, text string, ok bool) {
	text = r.column("天数", "天", "days", "duration")
	if text == "" {
		for _, c := range r.cells {
			if daysInA.MatchString(strings.ToLower(c)) {
				text = c
				break
			}
		}
	}
	n, err := strconv.ParseFloat(number.FindString(text), 64)
	return n, text, err == nil
}

// pending tells whether the row still waits for a decision. A list without
// states is one of what waits.
func (r row) pending() bool {
	status := r.column("状态", "status", "state")
	if status == "" && len(r.header) > 0 {
		return true
	}
	if status == "" {
		status = strings.Join(r.cells, " ")
		if !containsAny(status, decidedWords...) {
			return true
		}
	}
	return containsAny(status, "待", "未处理", "未审", "pending", "waiting", "open", "submitted", "new")
}

var decidedWords = []string{"已批准", "已同意", "已通过", "已驳回", "已拒绝", "已处理", "approved", "rejected", "declined"}

// find returns the first enabled element with one of the roles (any, if
// none) whose name contains one of the words, taking exact names first.
func find(els []element, roles []string, words ...string) (element, bool) {
	for _, exact := range []bool{true, false} {
		for _, w := range words {
			for _, e := range els {
				name := strings.ToLower(e.name)
				if e.disabled || len(roles) > 0 && !containsRole(roles, e.role) {
					continue
				}
				if exact && name == strings.ToLower(w) || !exact && strings.Contains(name, strings.ToLower(w)) {
					return e, true
				}
			}
		}
	}
	return element{}, false
}

func containsRole(roles []string, role string) bool {
	for _, r := range roles {
		if r == role {
			return true
		}
	}
	return false
}

// containsAny tells whether s contains one of the words, whatever their case.
func containsAny(s string, words ...string) bool {
	s = strings.ToLower(s)
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
