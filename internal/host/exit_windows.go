package host

import "os"

func exitCode(s *os.ProcessState) int { return s.ExitCode() }
