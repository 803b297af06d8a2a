package gateway

import (
	"encoding/json"
	"strconv"

	"sgclaw/internal/agent"
)

// nativeFrame is an event as our own clients get it: as it is.
func nativeFrame(e agent.Event) *Frame {
	f := &Frame{Event: EventNative, Payload: e, To: ToNative, at: e.At}
	if e.Kind != agent.EventDelta {
		return f
	}
	var d agent.DeltaEvent
	if json.Unmarshal(e.Data, &d) != nil {
		return f
	}
	f.Key = e.RunID + "/" + strconv.Itoa(d.Step) + "/" + strconv.Itoa(d.Attempt)
	f.Merge = func(earlier any) any {
		before, ok := earlier.(agent.Event)
		if !ok {
			return e
		}
		var first agent.DeltaEvent
		if json.Unmarshal(before.Data, &first) != nil {
			return e
		}
		first.Text += d.Text
		data, err := json.Marshal(first)
		if err != nil {
			return e
		}
		merged := e
		merged.Data = data
		return merged
	}
	return f
}
