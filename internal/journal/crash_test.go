package journal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"sgclaw/internal/agent"
)

// crashEnv makes the test binary the process that is killed.
const crashEnv = "SGCLAW_JOURNAL_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		os.Exit(crashing(dir))
	}
	os.Exit(m.Run())
}

// crashing begins and ends effects for ever and says so after each write.
func crashing(dir string) int {
	j, err := Open(context.Background(), quiet(), dir, "b1")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for step := 0; ; step++ {
		e := effect("run", step)
		if _, fresh, err := j.Begin(e); err != nil || !fresh {
			fmt.Println("begin", fresh, err)
			return 1
		}
		fmt.Println("begun", step)
		if err := j.Done(e, agent.Result{Outcome: agent.OutcomeDone, Text: strconv.Itoa(step)}, map[string]agent.Body{newRef(): {Text: "x"}}); err != nil {
			fmt.Println("done", err)
			return 1
		}
		fmt.Println("done", step)
	}
}

// TestKill kills a process at whatever moment and holds the journal against
// what the process had been told.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, lines := range []int{1, 2, 5, 24, 51} {
		t.Run(strconv.Itoa(lines), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), crashEnv+"="+dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := map[string]int{"begun": -1, "done": -1}
			sc := bufio.NewScanner(out)
			for n := 0; sc.Scan(); n++ {
				word, num, _ := strings.Cut(sc.Text(), " ")
				step, err := strconv.Atoi(num)
				if err != nil {
					t.Fatalf("the process says %q", sc.Text())
				}
				said[word] = step
				if n+1 == lines {
					_ = cmd.Process.Kill()
				}
			}
			_ = cmd.Wait()

			j := openIn(t, dir)
			effects, err := j.Effects("run")
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]Effect{}
			for _, e := range effects {
				have[e.Key] = e
			}
			for step := 0; step <= said["begun"]; step++ {
				e, ok := have[effect("run", step).Key()]
				if !ok {
					t.Fatalf("effect %d was begun and is lost", step)
				}
				if step <= said["done"] && (e.State != StateDone || e.Result == nil || e.Result.Text != strconv.Itoa(step)) {
					t.Fatalf("effect %d was done and is %+v", step, e)
				}
			}
			// One more of each may have been written and not said.
			if n := len(effects); n > said["begun"]+2 {
				t.Errorf("%d effects, the last said is %d", n, said["begun"])
			}
		})
	}
}
