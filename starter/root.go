package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sgclaw/internal/build"
)

// root builds the command tree.
func (a *app) root() *cobra.Command {
	// The language decides the help texts, so it is looked for before cobra
	// reads the flags.
	root := &cobra.Command{
		Use:           "starter",
		Short:         a.t("root"),
		Long:          a.t("root_long"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       build.Version(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%s", a.t("unknown_command", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.json {
				return usage("%s", a.t("want_command"))
			}
			return cmd.Help()
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.configPath, "config", "", a.t("flag_config"))
	f.BoolVar(&a.json, "json", false, a.t("flag_json"))
	f.BoolVar(&a.noDB, "no-db", false, a.t("flag_no_db"))
	f.Var(localeValue{&a.lang}, "locale", a.t("flag_locale"))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("locale") && needsConfig(cmd) {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if cfg.General.Locale != "" {
				a.lang = cfg.General.Locale
			}
		}
		if needsConfig(cmd) {
			return a.warnings()
		}
		return nil
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("starter {{.Version}}\n")
	root.SetUsageTemplate(a.usageTemplate())
	root.SetHelpCommand(a.helpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if a.json { // stdout is for programs
			root.SetOut(a.stderr)
		}
		help(cmd, args)
	})
	root.AddCommand(
		a.startCommand(), a.watchCommand(), a.confirmCommand(), a.rejectCommand(), a.abortCommand(),
		a.instructCommand(), a.moveCommand(), a.statusCommand(), a.listCommand(), a.resultCommand(),
		a.rewindCommand(), a.browsersCommand(), a.sessionCommand(), a.breakerCommand(), a.tokenCommand(), a.auditCommand(), a.migrateCommand(), a.doctorCommand(),
		a.completionCommand(), a.versionCommand(), a.exitCodesTopic(),
	)
	for _, c := range root.Commands() {
		c.InitDefaultHelpFlag()
		if h := c.Flags().Lookup("help"); h != nil {
			h.Usage = a.t("flag_help")
		}
	}
	root.InitDefaultHelpFlag()
	root.Flags().Lookup("help").Usage = a.t("flag_help")
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = a.t("version")
	return root
}

// needsConfig says whether a command uses the configuration; the others must
// work when it is broken, doctor above all.
func needsConfig(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "starter", "help", "exit-codes", "completion", "version", "doctor", "bash", "zsh", "fish", "powershell", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return false
	}
	return true
}

func (a *app) warnings() error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(a.stderr, a.yellow(a.t("warning"))+" "+w)
	}
	return nil
}

// localeValue is a flag that takes the languages that texts exist in.
type localeValue struct{ lang *string }

func (v localeValue) String() string { return "" }
func (v localeValue) Type() string   { return "zh|en" }
func (v localeValue) Set(s string) error {
	if s != "zh" && s != "en" {
		return fmt.Errorf("%q: zh | en", s)
	}
	*v.lang = s
	return nil
}

// exactly checks the number of arguments; names are for the message.
func (a *app) exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			if len(names) == 0 {
				return usage("%s", a.t("no_args", strings.Join(args, " ")))
			}
			return usage("%s", a.t("want_args", strings.Join(names, " "), len(args)))
		}
		return nil
	}
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: a.t("help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if c == nil || err != nil || len(rest) > 0 {
				return usage("%s", a.t("unknown_command", strings.Join(args, " ")))
			}
			return c.Help()
		},
	}
}

func (a *app) exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: a.t("exit_codes"), Long: a.t("exit_codes_long")}
}

// usageTemplate is cobra's, shortened and in the reader's language.
func (a *app) usageTemplate() string {
	return a.t("usage") + `{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} ` + a.t("command_word") + `{{end}}{{if .HasExample}}

` + a.t("examples") + `
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

` + a.t("commands") + `{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

` + a.t("flags") + `
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

` + a.t("global_flags") + `
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     a.t("completion"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(cmd.ValidArgs, args[0]) {
				return usage("%s", a.t("want_shell"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			}
			return root.GenPowerShellCompletionWithDesc(a.stdout)
		},
	}
}

// versionLine is what `version --json` prints.
type versionLine struct {
	Type    string `json:"type"` // "version"
	Version string `json:"version"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: a.t("version"), Args: a.exactly(),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.emit(versionLine{"version", build.Version()})
			}
			_, err := fmt.Fprintln(a.stdout, "starter", build.Version())
			return err
		},
	}
}
