package prompt

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"

	"sgclaw/internal/action"
)

//go:embed *.tmpl
var files embed.FS

// builtIn are the templates of this package, parsed once; they never change.
var builtIn = template.Must(template.ParseFS(files, "*.tmpl"))

// Template is the template of a system prompt (seed 001 §2.2,
// system_prompt_template), in the syntax of text/template. It is given
//
//	.Locale   "zh" or "en"
//	.Actions  names of the permitted actions, separated by commas
//	.Tool     name of the tool that acts in the browser
//	.GiveUp   name of the tool that ends the task as not done
//
// What the model is told about untrusted text is added to what it renders and
// cannot be left out.
type Template struct{ t *template.Template }

// ParseTemplate parses a template and tries it in both languages.
func ParseTemplate(text string) (*Template, error) {
	t, err := template.New("system").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("system prompt template: %w", err)
	}
	tmpl := &Template{t}
	for _, locale := range []string{"zh", "en"} {
		s, err := tmpl.own(Input{Locale: locale, Actions: action.Names()})
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, errors.New("system prompt template: it renders to nothing")
		}
	}
	return tmpl, nil
}

// Load reads a template from a file.
func Load(path string) (*Template, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("system prompt template: %w", err)
	}
	return ParseTemplate(string(b))
}

type templateData struct {
	Locale, Actions, Tool, GiveUp string
}

// render is the whole system prompt; a nil template is the built-in one. The
// run's marker comes last, so that everything before it is the same for all
// runs.
func (t *Template) render(in Input) (string, error) {
	text, err := t.own(in)
	if err != nil {
		return "", err
	}
	var guard strings.Builder
	if err := builtIn.ExecuteTemplate(&guard, "guard."+in.Locale+".tmpl", in); err != nil {
		return "", fmt.Errorf("system prompt: %w", err)
	}
	return text + "\n\n" + strings.TrimSpace(guard.String()), nil
}

// own is what the template itself renders to.
func (t *Template) own(in Input) (string, error) {
	system := builtIn.Lookup("system." + in.Locale + ".tmpl")
	if t != nil {
		system = t.t
	}
	var b strings.Builder
	d := templateData{Locale: in.Locale, Actions: strings.Join(in.Actions, ", "), Tool: action.ToolName, GiveUp: GiveUpName}
	if err := system.Execute(&b, d); err != nil {
		return "", fmt.Errorf("system prompt template: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}
