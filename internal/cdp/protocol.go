package cdp

import "encoding/json"

// The parameters and results below are those parts of the protocol that
// package page uses. Unknown fields and values are ignored.

// TargetInfo describes a page or a frame with a process of its own.
type TargetInfo struct {
	TargetID         string `json:"targetId"`
	Type             string `json:"type"` // "page", "iframe", ...
	Title            string `json:"title"`
	URL              string `json:"url"`
	OpenerID         string `json:"openerId"`
	BrowserContextID string `json:"browserContextId"`
}

// TargetFilter picks targets by type; the first entry that fits decides.
type TargetFilter struct {
	Type    string `json:"type,omitempty"`
	Exclude bool   `json:"exclude"`
}

// SetAutoAttach is Target.setAutoAttach.
type SetAutoAttach struct {
	AutoAttach             bool           `json:"autoAttach"`
	WaitForDebuggerOnStart bool           `json:"waitForDebuggerOnStart"`
	Flatten                bool           `json:"flatten"`
	Filter                 []TargetFilter `json:"filter,omitempty"`
}

// SetDiscoverTargets is Target.setDiscoverTargets.
type SetDiscoverTargets struct {
	Discover bool           `json:"discover"`
	Filter   []TargetFilter `json:"filter,omitempty"`
}

// AttachedToTarget is the event Target.attachedToTarget.
type AttachedToTarget struct {
	SessionID          string     `json:"sessionId"`
	TargetInfo         TargetInfo `json:"targetInfo"`
	WaitingForDebugger bool       `json:"waitingForDebugger"`
}

// DetachedFromTarget is the event Target.detachedFromTarget.
type DetachedFromTarget struct {
	SessionID string `json:"sessionId"`
	TargetID  string `json:"targetId"`
}

// TargetInfoChanged is the event Target.targetInfoChanged.
type TargetInfoChanged struct {
	TargetInfo TargetInfo `json:"targetInfo"`
}

// CreateTarget is Target.createTarget.
type CreateTarget struct {
	URL        string `json:"url"`
	Background bool   `json:"background,omitempty"`
	NewWindow  bool   `json:"newWindow,omitempty"`
}

// TargetRef names a target, for Target.closeTarget, and is the result of
// Target.createTarget.
type TargetRef struct {
	TargetID string `json:"targetId"`
}

// SessionRef names a session, for Target.detachFromTarget.
type SessionRef struct {
	SessionID string `json:"sessionId"`
}

// RequestPattern picks requests for Fetch.enable.
type RequestPattern struct {
	URLPattern   string `json:"urlPattern"`
	ResourceType string `json:"resourceType,omitempty"`
	RequestStage string `json:"requestStage,omitempty"`
}

// FetchEnable is Fetch.enable.
type FetchEnable struct {
	Patterns           []RequestPattern `json:"patterns"`
	HandleAuthRequests bool             `json:"handleAuthRequests"`
}

// RequestPaused is the events Fetch.requestPaused and Fetch.authRequired.
type RequestPaused struct {
	RequestID string `json:"requestId"`
	FrameID   string `json:"frameId"`
	Request   struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	} `json:"request"`
	ResourceType        string `json:"resourceType"`
	RedirectedRequestID string `json:"redirectedRequestId"`
}

// RequestRef is Fetch.continueRequest, and with a reason Fetch.failRequest.
type RequestRef struct {
	RequestID   string `json:"requestId"`
	ErrorReason string `json:"errorReason,omitempty"`
}

// ContinueWithAuth is Fetch.continueWithAuth.
type ContinueWithAuth struct {
	RequestID string `json:"requestId"`
	Response  struct {
		Response string `json:"response"`
	} `json:"authChallengeResponse"`
}

// Navigate is Page.navigate.
type Navigate struct {
	URL string `json:"url"`
}

// NavigateResult is the result of Page.navigate.
type NavigateResult struct {
	FrameID    string `json:"frameId"`
	LoaderID   string `json:"loaderId"`
	ErrorText  string `json:"errorText"`
	IsDownload bool   `json:"isDownload"`
}

// Frame is a frame of a page.
type Frame struct {
	ID             string `json:"id"`
	ParentID       string `json:"parentId"`
	LoaderID       string `json:"loaderId"`
	URL            string `json:"url"`
	URLFragment    string `json:"urlFragment"`
	UnreachableURL string `json:"unreachableUrl"`
}

// FrameNavigated is the event Page.frameNavigated.
type FrameNavigated struct {
	Frame Frame `json:"frame"`
}

// FrameEvent is what the other events of frames have: frameStartedNavigating,
// frameRequestedNavigation, frameStoppedLoading, navigatedWithinDocument,
// lifecycleEvent.
type FrameEvent struct {
	FrameID        string `json:"frameId"`
	LoaderID       string `json:"loaderId"`
	URL            string `json:"url"`
	Name           string `json:"name"`
	NavigationType string `json:"navigationType"`
}

// DialogOpening is the event Page.javascriptDialogOpening.
type DialogOpening struct {
	URL     string `json:"url"`
	Message string `json:"message"`
	Type    string `json:"type"` // alert, confirm, prompt, beforeunload
}

// HandleDialog is Page.handleJavaScriptDialog.
type HandleDialog struct {
	Accept bool `json:"accept"`
}

// CreateIsolatedWorld is Page.createIsolatedWorld.
type CreateIsolatedWorld struct {
	FrameID   string `json:"frameId"`
	WorldName string `json:"worldName"`
}

// IsolatedWorld is its result.
type IsolatedWorld struct {
	ExecutionContextID int64 `json:"executionContextId"`
}

// AddBinding is Runtime.addBinding.
type AddBinding struct {
	Name string `json:"name"`
}

// BindingCalled is the event Runtime.bindingCalled.
type BindingCalled struct {
	Name               string `json:"name"`
	Payload            string `json:"payload"`
	ExecutionContextID int64  `json:"executionContextId"`
}

// ContextCreated is the event Runtime.executionContextCreated.
type ContextCreated struct {
	Context struct {
		ID      int64  `json:"id"`
		Origin  string `json:"origin"`
		AuxData struct {
			IsDefault bool   `json:"isDefault"`
			FrameID   string `json:"frameId"`
		} `json:"auxData"`
	} `json:"context"`
}

// ContextDestroyed is the event Runtime.executionContextDestroyed.
type ContextDestroyed struct {
	ExecutionContextID int64 `json:"executionContextId"`
}

// NewDocumentScript is Page.addScriptToEvaluateOnNewDocument.
type NewDocumentScript struct {
	Source string `json:"source"`
}

// RemoteObject is a value in a page.
type RemoteObject struct {
	Type     string          `json:"type"`
	Subtype  string          `json:"subtype"`
	Value    json.RawMessage `json:"value"`
	ObjectID string          `json:"objectId"`
}

// Evaluate is Runtime.evaluate.
type Evaluate struct {
	Expression    string `json:"expression"`
	ContextID     int64  `json:"contextId,omitempty"`
	ReturnByValue bool   `json:"returnByValue,omitempty"`
	AwaitPromise  bool   `json:"awaitPromise,omitempty"`
}

// CallArgument is an argument of CallFunctionOn: a value or an object.
type CallArgument struct {
	Value    any    `json:"value,omitempty"`
	ObjectID string `json:"objectId,omitempty"`
}

// CallFunctionOn is Runtime.callFunctionOn.
type CallFunctionOn struct {
	FunctionDeclaration string         `json:"functionDeclaration"`
	ExecutionContextID  int64          `json:"executionContextId,omitempty"`
	ObjectGroup         string         `json:"objectGroup,omitempty"`
	Arguments           []CallArgument `json:"arguments,omitempty"`
	ReturnByValue       bool           `json:"returnByValue"`
	AwaitPromise        bool           `json:"awaitPromise"`
}

// EvaluateResult is the result of both.
type EvaluateResult struct {
	Result           RemoteObject `json:"result"`
	ExceptionDetails *struct {
		Text      string `json:"text"`
		Exception *struct {
			Description string `json:"description"`
		} `json:"exception"`
	} `json:"exceptionDetails"`
}

// ReleaseObjectGroup is Runtime.releaseObjectGroup.
type ReleaseObjectGroup struct {
	ObjectGroup string `json:"objectGroup"`
}

// DescribeNode is DOM.describeNode.
type DescribeNode struct {
	ObjectID string `json:"objectId,omitempty"`
	Depth    int    `json:"depth,omitempty"`
	Pierce   bool   `json:"pierce,omitempty"`
}

// Node is a node of the DOM.
type Node struct {
	BackendNodeID  int64  `json:"backendNodeId"`
	FrameID        string `json:"frameId"`
	ShadowRootType string `json:"shadowRootType"`
	ShadowRoots    []Node `json:"shadowRoots"`
}

// DescribeNodeResult is the result of DescribeNode.
type DescribeNodeResult struct {
	Node Node `json:"node"`
}

// ResolveNode is DOM.resolveNode.
type ResolveNode struct {
	BackendNodeID      int64  `json:"backendNodeId"`
	ExecutionContextID int64  `json:"executionContextId,omitempty"`
	ObjectGroup        string `json:"objectGroup,omitempty"`
}

// ResolveNodeResult is its result.
type ResolveNodeResult struct {
	Object RemoteObject `json:"object"`
}

// MouseEvent is Input.dispatchMouseEvent.
type MouseEvent struct {
	Type       string  `json:"type"`
	X          float64 `json:"x"`
	Y          float64 `json:"y"`
	Button     string  `json:"button,omitempty"`
	Buttons    int     `json:"buttons,omitempty"`
	ClickCount int     `json:"clickCount,omitempty"`
}

// KeyEvent is Input.dispatchKeyEvent.
type KeyEvent struct {
	Type                  string `json:"type"`
	Key                   string `json:"key,omitempty"`
	Code                  string `json:"code,omitempty"`
	Text                  string `json:"text,omitempty"`
	UnmodifiedText        string `json:"unmodifiedText,omitempty"`
	WindowsVirtualKeyCode int    `json:"windowsVirtualKeyCode,omitempty"`
	Modifiers             int    `json:"modifiers,omitempty"`
}

// InsertText is Input.insertText.
type InsertText struct {
	Text string `json:"text"`
}

// Viewport is a piece of a page for a screenshot, in CSS pixels of the
// document.
type Viewport struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Scale  float64 `json:"scale"`
}

// CaptureScreenshot is Page.captureScreenshot.
type CaptureScreenshot struct {
	Format                string    `json:"format"`
	Quality               int       `json:"quality,omitempty"`
	Clip                  *Viewport `json:"clip,omitempty"`
	CaptureBeyondViewport bool      `json:"captureBeyondViewport,omitempty"`
	OptimizeForSpeed      bool      `json:"optimizeForSpeed,omitempty"`
}

// Screenshot is its result.
type Screenshot struct {
	Data []byte `json:"data"`
}

// LayoutMetrics is the result of Page.getLayoutMetrics.
type LayoutMetrics struct {
	CSSLayoutViewport struct {
		PageX        float64 `json:"pageX"`
		PageY        float64 `json:"pageY"`
		ClientWidth  float64 `json:"clientWidth"`
		ClientHeight float64 `json:"clientHeight"`
	} `json:"cssLayoutViewport"`
	CSSContentSize struct {
		Width  float64 `json:"width"`
		Height float64 `json:"height"`
	} `json:"cssContentSize"`
}

// SetDownloadBehavior is Browser.setDownloadBehavior.
type SetDownloadBehavior struct {
	Behavior      string `json:"behavior"`
	DownloadPath  string `json:"downloadPath,omitempty"`
	EventsEnabled bool   `json:"eventsEnabled"`
}

// DownloadEvent is the events Browser.downloadWillBegin and
// Browser.downloadProgress.
type DownloadEvent struct {
	FrameID           string  `json:"frameId"`
	GUID              string  `json:"guid"`
	URL               string  `json:"url"`
	SuggestedFilename string  `json:"suggestedFilename"`
	TotalBytes        float64 `json:"totalBytes"`
	ReceivedBytes     float64 `json:"receivedBytes"`
	State             string  `json:"state"`
}

// DownloadRef names a download, for Browser.cancelDownload.
type DownloadRef struct {
	GUID string `json:"guid"`
}

// Cookie is a cookie, as far as deleting it needs.
type Cookie struct {
	Name         string          `json:"name"`
	Domain       string          `json:"domain"`
	Path         string          `json:"path"`
	PartitionKey json.RawMessage `json:"partitionKey,omitempty"`
}

// Cookies is the result of Storage.getCookies.
type Cookies struct {
	Cookies []Cookie `json:"cookies"`
}

// ClearDataForOrigin is Storage.clearDataForOrigin.
type ClearDataForOrigin struct {
	Origin       string `json:"origin"`
	StorageTypes string `json:"storageTypes"`
}

// Toggle is the parameter of commands that take a switch only.
type Toggle struct {
	Enabled bool `json:"enabled"`
	Cancel  bool `json:"cancel,omitempty"`
	Bypass  bool `json:"bypass,omitempty"`
}

// NetworkRequest is the events Network.requestWillBeSent, loadingFinished and
// loadingFailed.
type NetworkRequest struct {
	RequestID string `json:"requestId"`
	Type      string `json:"type"`
	Request   struct {
		Method string `json:"method"`
	} `json:"request"` // of requestWillBeSent
}
