package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
)

// RequireModel checks that a model can be called: provider, key. The error
// is a *[FaultsError] that says how to set right what is missing.
func (c *Config) RequireModel() error {
	var faults []Fault
	if c.LLM.Provider != "openai" {
		faults = append(faults, c.faultOf("llm.provider",
			"provider %q is not available in this version; use \"openai\", with llm.base_url for any service that speaks its protocol (Ollama: http://localhost:11434/v1)", c.LLM.Provider))
	}
	key, err := c.ModelKey()
	switch {
	case err != nil:
		faults = append(faults, c.faultOf("llm.api_key_file", "%v", err))
	case key == "" && c.LLM.BaseURL == "":
		faults = append(faults, c.faultOf("llm.api_key",
			"the model needs an API key: set SGCLAW_LLM_API_KEY, or llm.api_key_file to a file that holds it; a service of your own (llm.base_url) may do without"))
	}
	return faultsError(faults)
}

// RequireDatabase checks that a database is named.
func (c *Config) RequireDatabase() error {
	if c.Database.URL != "" {
		return nil
	}
	return faultsError([]Fault{c.faultOf("database.url",
		"no database is named: set SGCLAW_DATABASE_URL or database.url to postgres://user:password@host:5432/database")})
}

// RequireRules checks that the rules file that this side uses is there; path
// is Security.RulesPath or RulesPath().
func (c *Config) RequireRules(path string) error {
	if path == "" {
		return faultsError([]Fault{c.faultOf("security.rules_path",
			"no rules file is named: set SGCLAW_RULES_PATH or security.rules_path")})
	}
	if _, err := os.Stat(path); err != nil {
		key := "security.rules_path"
		if path == c.Browserhost.Rules {
			key = "browserhost.rules"
		}
		return faultsError([]Fault{c.faultOf(key,
			"%v; without rules nothing is allowed: begin with rules.example.json and see docs/policy.md", err)})
	}
	return nil
}

// RequireDataDir checks that there is a place for data on this machine, and
// makes the directory, for its owner alone, if need be.
func (c *Config) RequireDataDir() error {
	if c.Pipehost.DataDir == "" {
		return faultsError([]Fault{c.faultOf("pipehost.data_dir",
			"the system names no data directory for this user: set SGCLAW_PIPEHOST_DATA_DIR or pipehost.data_dir")})
	}
	if err := os.MkdirAll(c.Pipehost.DataDir, 0o700); err != nil {
		return faultsError([]Fault{c.faultOf("pipehost.data_dir", "%v", err)})
	}
	return nil
}

// minToken is the length of the shortest token, in bytes, that is safe where
// others than this machine's users can try.
const minToken = 16

// RequireGateway checks that a gateway can be started: its token and its
// certificate can be read, and the token is not one that others could guess.
// Whether there is any token at all the gateway asks the database, too.
func (c *Config) RequireGateway() error {
	var faults []Fault
	token, err := c.GatewayToken()
	switch {
	case err != nil:
		faults = append(faults, c.faultOf("gateway.token_file", "%v", err))
	case c.GatewayLoopback() || token == "":
	case len(token) < minToken:
		faults = append(faults, c.faultOf("gateway.token",
			"is too short for a gateway that other machines can reach: at least %d characters", minToken))
	}
	if g := c.Gateway; g.TLSCertFile != "" {
		if _, err := tls.LoadX509KeyPair(g.TLSCertFile, g.TLSKeyFile); err != nil {
			faults = append(faults, c.faultOf("gateway.tls_cert_file", "%v", err))
		}
	}
	return faultsError(faults)
}

// GatewayLoopback is true if only this machine can reach the gateway.
func (c *Config) GatewayLoopback() bool {
	host, _, _ := net.SplitHostPort(c.Gateway.Listen)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// faultOf makes a fault that names where the key was set, if it was.
func (c *Config) faultOf(key, format string, args ...any) Fault {
	f := Fault{Key: key, Message: fmt.Sprintf(format, args...)}
	if o := c.origins[key]; o != "" {
		f.Message += " (set by " + o + ")"
	}
	return f
}
