package pipe

import (
	"fmt"
	"strings"
	"testing"

	"sgclaw/internal/agent"
)

func TestDecodeRefuses(t *testing.T) {
	schemas := compile(t)
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	for _, tt := range []struct {
		line string
		want Code
		// beyond says that a JSON Schema cannot express the fault.
		beyond bool
	}{
		{`{`, CodeInvalidJSON, true},
		{`{"type":"shutdown"} {}`, CodeInvalidJSON, true},
		{"{\"type\":\"shutdown\",\"x\":\"\xff\"}", CodeInvalidJSON, true},
		{`{"type":"shutdown","type":"shutdown"}`, CodeInvalidJSON, true},
		{`{"type":"shutdown","\u0074ype":"init"}`, CodeInvalidJSON, true},
		{`{"type":"shutdown","Type":"init"}`, CodeInvalidJSON, true},
		{`{"type":"shutdown","x":{"a":1,"b":[{"c":1,"c":2}]}}`, CodeInvalidJSON, true},
		{`{"type":"shutdown",` + strings.Join(many, ",") + `,"K7":1}`, CodeInvalidJSON, true},
		{`{"type":"shutdown","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, CodeInvalidJSON, true},
		{`{"type":"shutdown","x":"` + strings.Repeat("x", MaxLine) + `"}`, CodeMessageTooLarge, true},
		{`[]`, CodeInvalidMessage, true},
		{`null`, CodeInvalidMessage, true},
		{`"type"`, CodeInvalidMessage, true},
		{`{}`, CodeInvalidMessage, true},
		{`{"type":5}`, CodeInvalidMessage, true},
		{`{"type":"dance"}`, CodeUnknownType, true},
		{`{"type":"init","version":"1.0"}`, CodeInvalidMessage, false},
		{`{"type":"init","version":"1","hmac_seed":"` + goodSeed + `"}`, CodeInvalidMessage, false},
		{`{"type":"init","version":1.0,"hmac_seed":"` + goodSeed + `"}`, CodeInvalidMessage, false},
		{`{"type":"init","version":"1.0","hmac_seed":"` + goodSeed + `","browser_id":"a b"}`, CodeInvalidMessage, false},
		{`{"type":"init_ack","version":"1.0","agent_id":"me"}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":0,"action":"click","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":-1,"action":"click","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1.5,"action":"click","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":"1","action":"click","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":9007199254740992,"action":"click","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1,"action":"click","params":[],"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1,"action":"","params":{},"security":{"expected_domain":"","hmac":""}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1,"action":"click","params":{}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1,"action":"click","params":null,"security":{}}`, CodeInvalidMessage, false},
		{`{"type":"command","seq":1,"action":"click","params":{},"security":{"grant":{"id":"x"}}}`, CodeInvalidMessage, false},
		{`{"type":"response","seq":1}`, CodeInvalidMessage, false},
		{`{"type":"response","seq":1,"success":"yes"}`, CodeInvalidMessage, false},
		{`{"type":"response","seq":1,"success":false}`, CodeInvalidMessage, false},
		{`{"type":"response","seq":1,"success":false,"error":{"code":""}}`, CodeInvalidMessage, false},
		{`{"type":"response","seq":1,"success":true,"data":[]}`, CodeInvalidMessage, false},
		{`{"type":"confirm_pending","seq":1,"ask":{}}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"","instruction":"x"}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"a b","instruction":"x"}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"` + strings.Repeat("x", 129) + `","instruction":"x"}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"t","instruction":" \n"}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"t","instruction":"` + strings.Repeat("x", agent.MaxInstruction+1) + `"}`, CodeInvalidMessage, false},
		{`{"type":"submit_task","task_id":"t","instruction":"x","locale":"fr"}`, CodeInvalidMessage, false},
		{`{"type":"abort_task"}`, CodeInvalidMessage, false},
		{`{"type":"confirm","action_id":"x"}`, CodeInvalidMessage, false},
		{`{"type":"confirm","action_id":"","approved":true}`, CodeInvalidMessage, false},
		{`{"type":"log","time":"now","level":"info","message":""}`, CodeInvalidMessage, false},
		{`{"type":"log","time":"2026-03-03T10:23:01Z","level":"loud","message":""}`, CodeInvalidMessage, false},
		{`{"type":"state","state":"happy"}`, CodeInvalidMessage, false},
		{`{"type":"error","message":"x"}`, CodeInvalidMessage, false},
	} {
		name := tt.line[:min(len(tt.line), 100)]
		m, bad := Decode([]byte(tt.line))
		if bad == nil {
			t.Errorf("%s: accepted as %T", name, m)
			continue
		}
		if bad.Code != tt.want || bad.Message == "" || len(bad.Message) > 300 {
			t.Errorf("%s: %v, want %s", name, bad, tt.want)
		}
		if tt.beyond {
			continue
		}
		typ, _ := Peek([]byte(tt.line))
		if validate(t, schemas[typ], []byte(tt.line)) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

func TestDecodeTolerates(t *testing.T) {
	for _, line := range []string{
		` { "type" : "shutdown" , "new":{"a":[1,2,{"a":3}]} } `,
		`{"type":"response","seq":1,"success":true,"data":null,"error":null}`,
		`{"type":"command","seq":9007199254740991,"action":"dance","params":{"any":"thing"},"security":{"expected_domain":"","hmac":""}}`,
		`{"type":"response","seq":1,"success":true,"data":{"text":"{\"a\":1,\"a\":2} \\\" [[["}}`,
	} {
		if m, bad := Decode([]byte(line)); bad != nil {
			t.Errorf("%s: %T %v", line, m, bad)
		}
	}
}

func TestPeek(t *testing.T) {
	for _, tt := range []struct {
		line string
		typ  Type
		seq  uint64
	}{
		{`{"type":"command","seq":7,"params":[]}`, TypeCommand, 7},
		{`{"type":7,"seq":7}`, "", 7},
		{`{"type":"command","seq":-7}`, TypeCommand, 0},
		{`{"type":"command","seq":"7"}`, TypeCommand, 0},
		{`{"type":"command","seq":18446744073709551615}`, TypeCommand, 0},
		{`[]`, "", 0},
		{`{"seq":7`, "", 0},
	} {
		if typ, seq := Peek([]byte(tt.line)); typ != tt.typ || seq != tt.seq {
			t.Errorf("%s: %q, %d", tt.line, typ, seq)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range full() {
		line, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"type":"shutdown","x":{"a":1,"\u0061":2}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		Peek(line)
		m, bad := Decode(line)
		if bad != nil {
			if m != nil || bad.Code == "" || bad.Message == "" {
				t.Fatalf("%v, %v", m, bad)
			}
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > MaxLine {
			return // escapes may make it longer
		}
		if _, bad := Decode(again); bad != nil {
			t.Fatalf("%s: %v", again, bad)
		}
	})
}

func BenchmarkDecodeResponse(b *testing.B) {
	nodes := make([]AOMNode, 0, 1000)
	for i := range cap(nodes) {
		nodes = append(nodes, AOMNode{Role: "button", Name: fmt.Sprintf("批准第 %d 号申请", i), Bounds: [4]int{1, 2, 300, 40}, Ref: fmt.Sprintf("e%d", i)})
	}
	for _, bb := range []struct {
		name string
		m    *Response
	}{
		{"text", &Response{Seq: 1, Type: TypeResponse, Success: true, Data: &Data{Text: strings.Repeat("批准 x", 12500)}}},
		{"tree", &Response{Seq: 1, Type: TypeResponse, Success: true, AOMSnapshot: nodes}},
	} {
		line, err := Encode(bb.m)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, bad := Decode(line); bad != nil {
					b.Fatal(bad)
				}
			}
		})
	}
}
