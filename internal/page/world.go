package page

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

//go:embed js/core.js
var coreJS string

//go:embed js/find.js
var findJS string

//go:embed js/act.js
var actJS string

//go:embed js/edit.js
var editJS string

//go:embed js/snapshot.js
var snapshotJS string

//go:embed js/end.js
var endJS string

// library is installed once in the isolated world of each document.
var library = "(() => {'use strict';\n" + coreJS + findJS + actJS + editJS + snapshotJS + endJS + "})()"

const (
	worldName = "sgclaw"
	// callPatience is how long the library may take before the page counts
	// as hung; slowPatience is for those calls that look at everything.
	callPatience = 6 * time.Second
	slowPatience = 15 * time.Second
)

// errHung means that a page's script did not let go and was stopped.
var errHung = errors.New("the page's script did not end and was stopped")

// errWorldGone means that the document of a call went away under it.
var errWorldGone = errors.New("the document went away")

// world is the isolated world of a frame's current document.
type world struct {
	context int64
	token   string
}

// args are the parameters of the library's handlers; each takes some.
type args struct {
	Token    string    `json:"token,omitempty"`
	ID       int       `json:"id,omitempty"`
	From     int       `json:"from,omitempty"`
	Parts    []string  `json:"parts,omitempty"`
	MustShow bool      `json:"mustShow,omitempty"`
	Selector string    `json:"selector,omitempty"`
	Strict   bool      `json:"strict,omitempty"`
	Expect   *identity `json:"expect,omitempty"`
	URL      string    `json:"url,omitempty"`
	Text     string    `json:"text,omitempty"`
	Value    string    `json:"value,omitempty"`
	Key      string    `json:"key,omitempty"`
	Clear    bool      `json:"clear,omitempty"`
	Enter    bool      `json:"enter,omitempty"`
	Outer    bool      `json:"outer,omitempty"`
	Guard    bool      `json:"guard,omitempty"`
	AtOnce   bool      `json:"atOnce,omitempty"`
	Again    bool      `json:"again,omitempty"`
	X        *float64  `json:"x,omitempty"`
	Y        *float64  `json:"y,omitempty"`
	Cap      int       `json:"cap,omitempty"`
	Nodes    int       `json:"nodes,omitempty"`
	Idle     int64     `json:"idle,omitempty"`
	Most     int64     `json:"most,omitempty"`
	User     string    `json:"user,omitempty"`
	Password string    `json:"password,omitempty"`
	Submit   string    `json:"submit,omitempty"`
}

// identity is what the library says about the control that a press reaches.
type identity struct {
	Role    string `json:"role"`
	Name    string `json:"name"`
	Context string `json:"context"`
	Submit  bool   `json:"submit"`
	Link    string `json:"link"`
}

// answer is what the library's handlers answer; each sets some.
type answer struct {
	Missing bool `json:"missing"` // another document has come into the same window
	// Why it was not done.
	Gone       bool     `json:"gone"`
	Changed    string   `json:"changed"`
	Other      bool     `json:"other"`
	Reason     string   `json:"reason"`
	Covered    bool     `json:"covered"`
	Cover      string   `json:"cover"`
	Uneditable string   `json:"uneditable"`
	BadValue   string   `json:"badValue"`
	NotSelect  string   `json:"notSelect"`
	NoOption   string   `json:"noOption"`
	Options    []string `json:"options"`
	More       int      `json:"more"`
	Refused    string   `json:"refused"`
	Invalid    string   `json:"invalid"`

	// What was found.
	ID         int        `json:"id"`
	Matched    int        `json:"matched"`
	Hidden     int        `json:"hidden"`
	Closed     int        `json:"closed"`
	Next       int        `json:"next"`
	X          float64    `json:"x"`
	Y          float64    `json:"y"`
	Rect       [4]float64 `json:"rect"`
	Target     identity   `json:"target"`
	SubmitName string     `json:"submitName"`
	Multi      bool       `json:"multi"`
	Native     bool       `json:"native"`
	Empty      bool       `json:"empty"`
	ToEnd      bool       `json:"toEnd"`
	State      string     `json:"state"`
	Hit        string     `json:"hit"`
	Value      string     `json:"value"`
	Text       string     `json:"text"`
	Found      bool       `json:"found"`
	Visible    bool       `json:"visible"`
	Shown      bool       `json:"shown"`
	None       bool       `json:"none"`
	User       int        `json:"user"`
	Password   int        `json:"password"`
	Submit     int        `json:"submit"`
	Height     float64    `json:"height"`
	Width      float64    `json:"width"`
	View       float64    `json:"view"`
	URL        string     `json:"url"`
	Title      string     `json:"title"`
	Ready      string     `json:"ready"`
	Status     int        `json:"status"`
}

func (a *answer) missing() bool { return a.Missing }

// lookup is what every answer type has.
type lookup interface{ missing() bool }

// frames are the frames of a page and the isolated worlds in them.
type frames struct {
	log     *slog.Logger
	conn    *cdp.Conn
	target  string // also the id of the main frame
	session string

	mu     sync.Mutex
	worlds map[frameKey]world
	oopif  map[string]string // frame id -> session, for frames with a process of their own
	owners map[string]node   // frame id -> its iframe element
}

// main is the frame of the page's own document.
func (fs *frames) main() frameKey { return frameKey{session: fs.session, id: fs.target} }

// world returns the isolated world of a frame, with the library in it.
func (fs *frames) world(ctx context.Context, f frameKey) (world, error) {
	fs.mu.Lock()
	w, ok := fs.worlds[f]
	fs.mu.Unlock()
	if ok {
		return w, nil
	}
	return fs.enter(ctx, f)
}

func (fs *frames) enter(ctx context.Context, f frameKey) (world, error) {
	var iso cdp.IsolatedWorld
	err := fs.patiently(ctx, f.session, slowPatience, "Page.createIsolatedWorld", cdp.CreateIsolatedWorld{FrameID: f.id, WorldName: worldName}, &iso)
	if err != nil {
		return world{}, err
	}
	var res cdp.EvaluateResult
	err = fs.patiently(ctx, f.session, slowPatience, "Runtime.evaluate", cdp.Evaluate{Expression: library, ContextID: iso.ExecutionContextID, ReturnByValue: true}, &res)
	if err != nil {
		return world{}, err
	}
	w := world{context: iso.ExecutionContextID}
	if err := json.Unmarshal(res.Result.Value, &w.token); err != nil || w.token == "" {
		return world{}, fmt.Errorf("install library: %s", exception(res))
	}
	fs.mu.Lock()
	fs.worlds[f] = w
	fs.mu.Unlock()
	return w, nil
}

func (fs *frames) leave(f frameKey) {
	fs.mu.Lock()
	delete(fs.worlds, f)
	fs.mu.Unlock()
}

// ask calls a handler of the library in a frame and decodes what it answers.
// If the frame has got a new document in the meantime, the new one is asked;
// an id in a, which belongs to the old one, is then answered as gone.
func (fs *frames) ask(ctx context.Context, f frameKey, method string, a args, into lookup) error {
	for try := 0; ; try++ {
		err := fs.askOnce(ctx, f, method, a, into)
		var refused *cdp.Error
		switch {
		case err == nil && !into.missing():
			return nil
		case err == nil:
		case !errors.As(err, &refused):
			return err
		}
		fs.leave(f)
		if try == 3 || ctx.Err() != nil {
			if err == nil {
				err = errWorldGone
			}
			return fmt.Errorf("%s: %w", method, err)
		}
		if try > 0 {
			if err := pause(ctx, 30*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// do is ask for handlers that must not run twice: if the document goes away
// under the call, the answer is errWorldGone.
func (fs *frames) do(ctx context.Context, f frameKey, method string, a args, into lookup) error {
	err := fs.askOnce(ctx, f, method, a, into)
	var refused *cdp.Error
	if errors.As(err, &refused) || (err == nil && into.missing()) {
		fs.leave(f)
		return fmt.Errorf("%s: %w", method, errWorldGone)
	}
	return err
}

func (fs *frames) askOnce(ctx context.Context, f frameKey, method string, a args, into lookup) error {
	w, err := fs.world(ctx, f)
	if err != nil {
		return err
	}
	most := callPatience
	if method == "snapshot" || method == "tree" {
		most = slowPatience
	}
	var res cdp.EvaluateResult
	call := cdp.CallFunctionOn{
		FunctionDeclaration: "function(m,a){return globalThis.sgclaw(m,a)}", ExecutionContextID: w.context,
		Arguments: []cdp.CallArgument{{Value: method}, {Value: a}}, ReturnByValue: true, AwaitPromise: true,
	}
	if err := fs.patiently(ctx, f.session, most, "Runtime.callFunctionOn", call, &res); err != nil {
		return err
	}
	if res.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", method, exception(res))
	}
	if err := json.Unmarshal(res.Result.Value, into); err != nil {
		return fmt.Errorf("%s: decode answer: %w", method, err)
	}
	return nil
}

// patiently makes a call that needs the page's main thread. If it is not
// answered in time, the script that is running there is stopped.
func (fs *frames) patiently(ctx context.Context, session string, most time.Duration, method string, params, result any) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := fs.conn.Call(limited, session, method, params, result)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	fs.stopScript(ctx, session)
	return fmt.Errorf("%s: %w", method, errHung)
}

// stopScript ends whatever script runs in a session's process.
func (fs *frames) stopScript(ctx context.Context, session string) {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := fs.conn.Call(short, session, "Runtime.terminateExecution", nil, nil); err != nil {
		fs.log.Warn("hung script not stopped", "err", err)
	}
}

func exception(res cdp.EvaluateResult) string {
	if d := res.ExceptionDetails; d != nil {
		if d.Exception != nil && d.Exception.Description != "" {
			return d.Exception.Description
		}
		return d.Text
	}
	return "no value"
}

// object returns a handle on an element, in the given group.
func (fs *frames) object(ctx context.Context, n node, group string) (string, error) {
	w, err := fs.world(ctx, n.frame)
	if err != nil {
		return "", err
	}
	var res cdp.EvaluateResult
	err = fs.patiently(ctx, n.frame.session, callPatience, "Runtime.callFunctionOn", cdp.CallFunctionOn{
		FunctionDeclaration: "function(a){return globalThis.sgclaw('object',a)}", ExecutionContextID: w.context,
		Arguments: []cdp.CallArgument{{Value: args{Token: n.token, ID: n.id}}}, ObjectGroup: group,
	}, &res)
	if err != nil {
		return "", err
	}
	if res.Result.Subtype != "node" {
		return "", errWorldGone
	}
	return res.Result.ObjectID, nil
}

// child returns the frame inside an iframe element, and remembers the
// element as its owner.
func (fs *frames) child(ctx context.Context, owner node) (frameKey, error) {
	const group = "sgclaw-frames"
	object, err := fs.object(ctx, owner, group)
	if err != nil {
		return frameKey{}, err
	}
	defer func() {
		_ = fs.conn.Post(ctx, owner.frame.session, "Runtime.releaseObjectGroup", cdp.ReleaseObjectGroup{ObjectGroup: group})
	}()
	var res cdp.DescribeNodeResult
	if err := fs.conn.Call(ctx, owner.frame.session, "DOM.describeNode", cdp.DescribeNode{ObjectID: object}, &res); err != nil {
		return frameKey{}, err
	}
	if res.Node.FrameID == "" {
		return frameKey{}, errWorldGone
	}
	f := frameKey{session: owner.frame.session, id: res.Node.FrameID}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if s := fs.oopif[f.id]; s != "" {
		f.session = s
	}
	fs.owners[f.id] = owner
	return f, nil
}

// chain returns the iframe elements around a frame, innermost first.
func (fs *frames) chain(f frameKey) []node {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var list []node
	for id := f.id; len(list) < 20; {
		owner, ok := fs.owners[id]
		if !ok {
			return list
		}
		list = append(list, owner)
		id = owner.frame.id
	}
	return list
}

// apart notes that a frame has got a process of its own.
func (fs *frames) apart(frame, session string) {
	fs.mu.Lock()
	fs.oopif[frame] = session
	fs.mu.Unlock()
}

// together notes that a session of a frame is gone.
func (fs *frames) together(session string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for id, s := range fs.oopif {
		if s == session {
			delete(fs.oopif, id)
		}
	}
	for f := range fs.worlds {
		if f.session == session {
			delete(fs.worlds, f)
		}
	}
}

// leaveAll forgets all frames but the main one, when its document goes.
func (fs *frames) leaveAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.owners = map[string]node{}
	for f := range fs.worlds {
		if f != fs.main() {
			delete(fs.worlds, f)
		}
	}
}

// reveal scrolls so that a frame can be seen, through those around it.
func (fs *frames) reveal(ctx context.Context, f frameKey) error {
	for _, owner := range fs.chain(f) {
		var ans answer
		if err := fs.ask(ctx, owner.frame, "reveal", args{Token: owner.token, ID: owner.id}, &ans); err != nil {
			return err
		}
	}
	return nil
}

// outward maps a point in a frame to the page, through the frames around it.
// why says what covers it there.
func (fs *frames) outward(ctx context.Context, f frameKey, x, y float64, guard bool) (px, py float64, why string, _ *pipe.Error) {
	for _, owner := range fs.chain(f) {
		var ans answer
		if err := fs.ask(ctx, owner.frame, "through", args{Token: owner.token, ID: owner.id, X: &x, Y: &y, Guard: guard}, &ans); err != nil {
			return 0, 0, "", fault(err)
		}
		switch {
		case ans.Gone:
			return 0, 0, "", pipe.Errorf(pipe.CodeRefStale, "the frame is gone; take a new snapshot")
		case ans.Cover != "":
			return 0, 0, "its frame is covered by " + ans.Cover, nil
		}
		x, y = ans.X, ans.Y
	}
	return x, y, "", nil
}

// openRoots finds closed shadow roots of the elements that may have one, and
// shows them to the library. It tells whether there was any.
func (fs *frames) openRoots(ctx context.Context, f frameKey, hosts []int) bool {
	if len(hosts) == 0 {
		return false
	}
	w, err := fs.world(ctx, f)
	if err != nil {
		return false
	}
	const group = "sgclaw-roots"
	defer func() {
		_ = fs.conn.Post(ctx, f.session, "Runtime.releaseObjectGroup", cdp.ReleaseObjectGroup{ObjectGroup: group})
	}()
	any := false
	for _, id := range hosts {
		object, err := fs.object(ctx, node{frame: f, token: w.token, id: id}, group)
		if err != nil {
			continue
		}
		var res cdp.DescribeNodeResult
		err = fs.conn.Call(ctx, f.session, "DOM.describeNode", cdp.DescribeNode{ObjectID: object, Depth: 1, Pierce: true}, &res)
		if err != nil || len(res.Node.ShadowRoots) == 0 || res.Node.ShadowRoots[0].ShadowRootType != "closed" {
			continue
		}
		var root cdp.ResolveNodeResult
		err = fs.conn.Call(ctx, f.session, "DOM.resolveNode", cdp.ResolveNode{
			BackendNodeID: res.Node.ShadowRoots[0].BackendNodeID, ExecutionContextID: w.context, ObjectGroup: group,
		}, &root)
		if err != nil {
			continue
		}
		var done cdp.EvaluateResult
		err = fs.patiently(ctx, f.session, callPatience, "Runtime.callFunctionOn", cdp.CallFunctionOn{
			FunctionDeclaration: "function(id,root){globalThis.sgclaw('closed',{id,root})}", ExecutionContextID: w.context,
			Arguments: []cdp.CallArgument{{Value: id}, {ObjectID: root.Object.ObjectID}}, ReturnByValue: true,
		}, &done)
		any = any || err == nil && done.ExceptionDetails == nil
	}
	return any
}

// pause waits, or fails when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
