package page

import "sync"

// frameKey is a frame as DevTools addresses it.
type frameKey struct {
	session string
	id      string
}

// node is an element: its number in the library of one document.
type node struct {
	frame frameKey
	token string // of the document
	id    int
}

// refTable gives elements the numbers that refs show. One table serves a
// whole browser, so that a number never means two things.
type refTable struct {
	mu     sync.Mutex
	last   int
	nodes  map[int]refEntry
	number map[nodeKey]int
}

type refEntry struct {
	page *Page
	node node
}

type nodeKey struct {
	token string
	id    int
}

func newRefTable() *refTable {
	return &refTable{nodes: map[int]refEntry{}, number: map[nodeKey]int{}}
}

// ref returns the element's number, a new one if it has none.
func (t *refTable) ref(p *Page, n node) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := nodeKey{n.token, n.id}
	if num, ok := t.number[key]; ok {
		return num
	}
	t.last++
	t.number[key] = t.last
	t.nodes[t.last] = refEntry{p, n}
	if len(t.nodes) > maxRefs {
		t.forgetOld()
	}
	return t.last
}

// maxRefs bounds the table. What is older than half of that many is forgotten
// then, and stale.
const maxRefs = 40_000

func (t *refTable) forgetOld() {
	for num, e := range t.nodes {
		if num <= t.last-maxRefs/2 {
			delete(t.nodes, num)
			delete(t.number, nodeKey{e.node.token, e.node.id})
		}
	}
}

// find returns the element of a number.
func (t *refTable) find(num int) (refEntry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.nodes[num]
	return e, ok
}
