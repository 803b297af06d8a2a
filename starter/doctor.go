package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/chrome"
	"sgclaw/internal/config"
	"sgclaw/internal/durable"
	"sgclaw/internal/policy"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// Results of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// checkLine is what `doctor --json` prints for each check. Message and Fix
// are text for people.
type checkLine struct {
	Type    string `json:"type"` // "check"
	Check   string `json:"check"`
	Result  string `json:"result"` // "ok", "warn" or "fail"
	Message string `json:"message,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// checkTimeout bounds each check.
const checkTimeout = 10 * time.Second

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: a.t("doctor"), Long: a.t("doctor_long"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a}
			if err := d.run(cmd.Context()); err != nil {
				return err
			}
			if d.fails > 0 {
				a.code = exitFailed
			}
			if a.json {
				return nil
			}
			return a.out(nil, func(w io.Writer) {
				fmt.Fprintln(w)
				switch {
				case d.fails > 0:
					fmt.Fprintln(w, a.red(a.count("doctor_fail", d.fails)))
				case d.warns > 0:
					fmt.Fprintln(w, a.yellow(a.count("doctor_warn", d.warns)))
				default:
					fmt.Fprintln(w, a.green(a.t("doctor_ok")))
				}
			})
		},
	}
}

// doctor runs the checks and counts what is wrong.
type doctor struct {
	app          *app
	fails, warns int
	err          error // of writing
}

func (d *doctor) run(ctx context.Context) error {
	cfg := d.config()
	d.temporal(ctx)
	d.database(ctx, cfg)
	d.model(ctx, cfg)
	d.chrome(cfg)
	d.rules(cfg)
	return errors.Join(d.err, ctx.Err())
}

// tell reports a check; fix is for warnings and failures.
func (d *doctor) tell(check, result, message, fix string) {
	a := d.app
	switch result {
	case checkWarn:
		d.warns++
	case checkFail:
		d.fails++
	default:
		fix = ""
	}
	err := a.out(checkLine{"check", check, result, message, fix}, func(w io.Writer) {
		mark := map[string]string{checkOK: a.green("✓"), checkWarn: a.yellow("!"), checkFail: a.red("✗")}[result]
		name := a.t("check_" + check)
		fmt.Fprintf(w, "%s %s%s  %s\n", mark, name, strings.Repeat(" ", max(0, 18-cells(name))), strings.ReplaceAll(message, "\n", "\n"+strings.Repeat(" ", 22)))
		if fix != "" {
			fmt.Fprintf(w, "%s%s %s\n", strings.Repeat(" ", 22), a.dim(a.t("fix")), fix)
		}
	})
	d.err = errors.Join(d.err, err)
}

// config checks the configuration; where it is wrong the other checks go by
// the defaults.
func (d *doctor) config() *config.Config {
	a := d.app
	cfg, err := a.load()
	if err != nil {
		d.tell("config", checkFail, err.Error(), a.t("fix_config"))
		def := config.Default(a.getenv)
		a.cfg = &def
		return a.cfg
	}
	if cfg.General.Locale != "" && a.getenv("SGCLAW_LOCALE") == "" {
		a.lang = cfg.General.Locale
	}
	where := cfg.Path
	if where == "" {
		where = a.t("no_file")
	}
	if len(cfg.Warnings) > 0 {
		d.tell("config", checkWarn, where+"\n"+strings.Join(cfg.Warnings, "\n"), a.t("fix_config"))
	} else {
		d.tell("config", checkOK, where, "")
	}
	return cfg
}

func (d *doctor) temporal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*checkTimeout)
	defer cancel()
	a := d.app
	t := a.cfg.Temporal
	c, err := a.durable(ctx)
	if err != nil {
		d.tell("temporal", checkFail, err.Error(), a.t("fix_temporal"))
		for _, check := range []string{"namespace", "worker", "browser"} {
			d.tell(check, checkWarn, a.t("skipped"), "")
		}
		return
	}
	d.tell("temporal", checkOK, t.Address, "")
	if err := c.CheckNamespace(ctx); err != nil {
		d.tell("namespace", checkFail, err.Error(), a.t("fix_namespace", t.Namespace))
		return
	}
	d.tell("namespace", checkOK, t.Namespace, "")
	switch missing, err := c.MissingSearchAttributes(ctx); {
	case err != nil:
		d.tell("attributes", checkWarn, err.Error(), a.t("fix_attributes"))
	case len(missing) > 0:
		d.tell("attributes", checkWarn, a.t("missing", strings.Join(missing, ", ")), a.t("fix_attributes"))
	default:
		d.tell("attributes", checkOK, "", "")
	}
	switch workers, err := c.Workers(ctx); {
	case err != nil:
		d.tell("worker", checkFail, err.Error(), a.t("fix_worker"))
	case len(workers) == 0:
		d.tell("worker", checkFail, a.t("no_workers", workflows.AgentQueue), a.t("fix_worker"))
	default:
		var names []string
		for _, w := range workers {
			names = append(names, w.Identity)
		}
		d.tell("worker", checkOK, strings.Join(names, ", "), "")
	}
	d.browsers(ctx, c)
}

func (d *doctor) browsers(ctx context.Context, c *durable.Client) {
	a := d.app
	list, err := c.Browsers(ctx)
	if err != nil {
		d.tell("browser", checkWarn, err.Error(), a.t("fix_browser"))
		return
	}
	var online []string
	configured := a.cfg.Browser.ID == ""
	for _, b := range list {
		if b.Online {
			online = append(online, b.ID)
			configured = configured || b.ID == a.cfg.Browser.ID
		}
	}
	switch {
	case len(online) == 0:
		d.tell("browser", checkWarn, a.t("none_online"), a.t("fix_browser"))
	case !configured:
		d.tell("browser", checkWarn, a.t("configured_away", a.cfg.Browser.ID), a.t("fix_browser"))
	default:
		d.tell("browser", checkOK, strings.Join(online, ", "), "")
	}
}

func (d *doctor) database(ctx context.Context, cfg *config.Config) {
	a := d.app
	if cfg.Origin("database.url") == "default" {
		d.tell("database", checkWarn, a.t("unused"), a.t("fix_database"))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	db, err := a.database(ctx)
	if err != nil {
		d.tell("database", checkFail, err.Error(), a.t("fix_database"))
		return
	}
	d.tell("database", checkOK, "", "")
	d.schema(ctx, db)
}

func (d *doctor) schema(ctx context.Context, db *store.Store) {
	a := d.app
	rows, err := db.MigrationStatus(ctx)
	if err != nil {
		d.tell("schema", checkFail, err.Error(), a.t("fix_schema"))
		return
	}
	pending := 0
	for _, m := range rows {
		if !m.Applied {
			pending++
		}
	}
	text := a.t("migrations", len(rows)-pending, pending)
	if pending > 0 {
		d.tell("schema", checkFail, text, a.t("fix_schema"))
		return
	}
	d.tell("schema", checkOK, text, "")
}

// openAI is where the provider is when no base URL is configured.
const openAI = "https://api.openai.com/v1"

// model asks the model service for its models, which shows that it is there
// and takes the key, and costs nothing. The key is never shown.
func (d *doctor) model(ctx context.Context, cfg *config.Config) {
	a := d.app
	key, err := cfg.ModelKey()
	if err != nil {
		d.tell("model", checkFail, err.Error(), a.t("fix_model_key"))
		return
	}
	if key == "" && cfg.LLM.BaseURL == "" {
		d.tell("model", checkWarn, a.t("no_model"), a.t("fix_model_key"))
		return
	}
	if err := cfg.RequireModel(); err != nil {
		d.tell("model", checkFail, err.Error(), a.t("fix_config"))
		return
	}
	base := strings.TrimSuffix(cfg.LLM.BaseURL, "/")
	if base == "" {
		base = openAI
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	code, models, err := listModels(ctx, base, key.Reveal())
	switch {
	case err != nil:
		d.tell("model", checkFail, err.Error(), a.t("fix_model_net"))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		d.tell("model", checkFail, a.t("model_denied", base, code), a.t("fix_model_key"))
	case code != http.StatusOK || models == nil:
		d.tell("model", checkWarn, a.t("model_odd", base, code), a.t("fix_model_url"))
	case !contains(models, cfg.LLM.Model):
		d.tell("model", checkWarn, a.t("model_unlisted", base, cfg.LLM.Model), a.t("fix_model_name"))
	default:
		d.tell("model", checkOK, a.t("model_ok", base, cfg.LLM.Model), "")
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// listModels returns the status of the answer, and the models if it is such
// a list.
func listModels(ctx context.Context, base, key string) (code int, models []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	// An answer that is something else is told by its status.
	if json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&list) == nil && list.Data != nil {
		models = []string{}
		for _, m := range list.Data {
			models = append(models, m.ID)
		}
	}
	return resp.StatusCode, models, nil
}

func (d *doctor) chrome(cfg *config.Config) {
	a := d.app
	path, err := chrome.Find(cfg.Browserhost.Chrome)
	switch {
	case err != nil && cfg.Browserhost.Chrome != "":
		d.tell("chrome", checkFail, err.Error(), a.t("fix_chrome"))
	case err != nil:
		d.tell("chrome", checkWarn, a.t("no_chrome"), a.t("fix_chrome"))
	default:
		d.tell("chrome", checkOK, path, "")
	}
}

func (d *doctor) rules(cfg *config.Config) {
	a := d.app
	path := cfg.RulesPath()
	_, err := policy.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.tell("rules", checkWarn, a.t("no_rules", path), a.t("fix_rules"))
	case err != nil:
		d.tell("rules", checkFail, err.Error(), a.t("fix_rules"))
	default:
		d.tell("rules", checkOK, path, "")
	}
}
