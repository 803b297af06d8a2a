package host

import (
	"bytes"
	"image"
	"image/jpeg"
	_ "image/png" // pictures come as JPEG or PNG
	"strings"
	"unicode/utf8"

	"sgclaw/internal/pipe"
)

// fit encodes a response in at most pipe.MaxLine bytes. What does not fit is
// cut, largest first in the order tree, HTML, text, snapshot, picture, and
// the response says so.
func fit(res *pipe.Response) ([]byte, error) {
	line, err := pipe.Encode(res)
	if err != nil || len(line) <= pipe.MaxLine {
		return line, err
	}
	cut := *res
	data := pipe.Data{}
	if res.Data != nil {
		data = *res.Data
	}
	cut.Data = &data
	steps := []func(over int) bool{
		func(int) bool {
			if cut.AOMSnapshot == nil {
				return false
			}
			cut.AOMSnapshot = nil
			more(&data, "the tree is too large: ask for less with root_selector, or for format text")
			return true
		},
		func(over int) bool {
			return shorten(&data.HTML, over, &data, "ask for the HTML of an element further inside")
		},
		func(over int) bool {
			return shorten(&data.Text, over, &data, "ask for the text of an element further inside")
		},
		func(over int) bool {
			return shorten(&data.Snapshot, over, &data, "ask for less with root_selector or max_tokens")
		},
		func(over int) bool { return shrink(&data, over) },
		func(int) bool {
			if data.Confirm == nil || data.Confirm.Image == nil {
				return false
			}
			ask := *data.Confirm
			ask.Image, data.Confirm = nil, &ask
			return true
		},
		func(int) bool {
			// Nothing of what is left is large unless something is wrong.
			cut.Data = &pipe.Data{Page: data.Page, PageID: data.PageID, Truncated: true, Rest: data.Rest}
			return true
		},
	}
	for _, step := range steps {
		for step(len(line) - pipe.MaxLine) {
			if line, err = pipe.Encode(&cut); err != nil || len(line) <= pipe.MaxLine {
				return line, err
			}
			if cut.Data != &data {
				break
			}
		}
	}
	return pipe.Encode(&pipe.Response{
		Seq: res.Seq, Type: res.Type, Timing: res.Timing,
		Error: pipe.Errorf(pipe.CodeInternal, "the response does not fit a line"),
	})
}

func more(d *pipe.Data, rest string) {
	d.Truncated = true
	if d.Rest == "" {
		d.Rest = rest
	}
}

// mark ends a text that was cut.
const mark = "\n… (cut)"

// shorten takes at least over bytes off the end of a text, and reports
// whether there was something to take.
func shorten(s *string, over int, d *pipe.Data, rest string) bool {
	text := strings.TrimSuffix(*s, mark)
	if len(text) < 1024 {
		return false
	}
	// Escaping makes text longer, so that this may take more than one round.
	keep := max(len(text)-over-len(mark)-256, 0)
	for keep > 0 && !utf8.RuneStart(text[keep]) {
		keep--
	}
	*s = text[:keep] + mark
	more(d, rest)
	return true
}

// shrink makes a picture smaller by half in each direction, or drops it when
// that is no use any more.
func shrink(d *pipe.Data, _ int) bool {
	if d.Image == nil {
		return false
	}
	src, _, err := image.Decode(bytes.NewReader(d.Image))
	if err != nil || src.Bounds().Dx() < 64 || src.Bounds().Dy() < 64 {
		d.Image, d.MIME = nil, ""
		more(d, "the picture does not fit; take one without full_page")
		return true
	}
	b := src.Bounds()
	half := image.NewRGBA(image.Rect(0, 0, b.Dx()/2, b.Dy()/2))
	for y := range half.Rect.Dy() {
		for x := range half.Rect.Dx() {
			half.Set(x, y, src.At(b.Min.X+2*x, b.Min.Y+2*y))
		}
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, half, &jpeg.Options{Quality: 60}); err != nil {
		d.Image, d.MIME = nil, ""
	} else {
		d.Image, d.MIME = out.Bytes(), "image/jpeg"
		if d.Scale == 0 {
			d.Scale = 1
		}
		d.Width, d.Height, d.Scale = half.Rect.Dx(), half.Rect.Dy(), d.Scale/2
	}
	more(d, "the picture was made smaller; take one without full_page")
	return true
}
