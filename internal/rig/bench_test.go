package rig_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/devserver"
	"sgclaw/internal/durable"
	"sgclaw/internal/llm"
	"sgclaw/internal/pipe"
	"sgclaw/internal/postgres"
	"sgclaw/internal/rig"
	"sgclaw/workflows"
)

// Where the benchmarks run, if not on an embedded stack of their own: the
// address of a Temporal server and the URL of a database, and the process
// ids of both, so that what they work can be counted in.
const (
	benchTemporal = "SGCLAW_BENCH_TEMPORAL"
	benchDatabase = "SGCLAW_BENCH_DATABASE_URL"
	benchPIDs     = "SGCLAW_BENCH_PIDS"
)

// snapshot is a page as the browser host shows it to the model, 5 KB.
var snapshot = "page \"请假审批\" http://oa.example.com/\n" + strings.Repeat("| 张三 | 年假 | 2 天 | 待审批 | link \"查看\" [ref=e12] |\n", 70)

// connect connects to Temporal as the embedded stack has it, on an SQLite
// file, or to the server that the environment names.
func connect(b *testing.B) client.Client {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	address := os.Getenv(benchTemporal)
	if address == "" {
		srv, err := devserver.Start(b.Context(), quiet, devserver.Config{
			Path: os.Getenv(devserver.Env), DBFile: filepath.Join(b.TempDir(), "temporal.db"),
			Keywords: []string{workflows.AttrState, workflows.AttrUser, workflows.AttrBrowser, workflows.AttrSession},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(srv.Stop)
		b.Setenv(benchPIDs, os.Getenv(benchPIDs)+" "+strconv.Itoa(srv.PID()))
		address = srv.Address()
	}
	opts, err := durable.Options(quiet, durable.Config{Address: address, Namespace: "default"})
	if err != nil {
		b.Fatal(err)
	}
	opts.Logger = sdklog.NewStructuredLogger(quiet)
	c, err := client.DialContext(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	if err := durable.New(quiet, c, "default").EnsureSearchAttributes(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// database starts PostgreSQL with its data safe, or takes the one that the
// environment names.
func database(b *testing.B) string {
	b.Helper()
	if url := os.Getenv(benchDatabase); url != "" {
		return url
	}
	dir, err := os.MkdirTemp("", "sgclaw-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	pg, err := postgres.Start(b.Context(), postgres.Config{DataDir: filepath.Join(dir, "pg"), Socket: filepath.Join(dir, "run"), Database: "sgclaw"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pg.Stop)
	b.Setenv(benchPIDs, os.Getenv(benchPIDs)+" "+strconv.Itoa(pg.PID()))
	return pg.URL()
}

// bench starts a rig.
func bench(b *testing.B, model rig.Model, host *rig.Host) (*rig.Rig, client.Client) {
	b.Helper()
	c := connect(b)
	worker.SetStickyWorkflowCacheSize(durable.StickyCacheSize)
	r, err := rig.Start(b.Context(), slog.New(slog.DiscardHandler), rig.Config{
		Client: c, Namespace: "default", DatabaseURL: database(b), Dir: b.TempDir(), Model: model, Host: host,
		Settings: agent.Settings{MaxSteps: 1000, MaxTaskS: 36000},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	return r, c
}

func instant() *rig.Host {
	return &rig.Host{Forgets: true, Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done(snapshot), nil }}
}

func startTask(b *testing.B, r *rig.Rig) string {
	b.Helper()
	st, err := r.Client.StartTask(b.Context(), "", agent.Message{ID: uuid.NewString(), Text: "measure", BrowserID: rig.BrowserID})
	if err != nil {
		b.Fatal(err)
	}
	return st.RunID
}

func runTask(b *testing.B, r *rig.Rig) string {
	b.Helper()
	id := startTask(b, r)
	out, err := r.Client.WaitResult(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	if !out.Success {
		b.Fatalf("outcome %+v", out)
	}
	return id
}

// events are a workflow's history.
func events(b *testing.B, c client.Client, workflowID string) []*history.HistoryEvent {
	b.Helper()
	var out []*history.HistoryEvent
	it := c.GetWorkflowHistory(b.Context(), workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// times are durations by what took them.
type times map[string][]time.Duration

// add takes a history apart: "step" is from one model call's scheduling to
// the next one's; an activity's name is its execution; "dispatch" is from
// scheduling to starting, and "decide" from an activity's end to the
// scheduling of the next.
func (t times) add(history []*history.HistoryEvent) {
	scheduled := map[int64]*span{}
	var lastThink, lastEnd time.Time
	for _, e := range history {
		at := e.GetEventTime().AsTime()
		switch e.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			name := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
			scheduled[e.GetEventId()] = &span{name: name, scheduled: at}
			if name == activities.ThinkName {
				if !lastThink.IsZero() {
					t["step"] = append(t["step"], at.Sub(lastThink))
				}
				lastThink = at
			}
			if !lastEnd.IsZero() && !lastThink.IsZero() {
				t["decide"] = append(t["decide"], at.Sub(lastEnd))
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			a := scheduled[e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()]
			a.started = at
			t["dispatch-"+a.name] = append(t["dispatch-"+a.name], at.Sub(a.scheduled))
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			a := scheduled[e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()]
			t[a.name] = append(t[a.name], at.Sub(a.started))
			lastEnd = at
		}
	}
}

type span struct {
	name               string
	scheduled, started time.Time
}

// work is how long processors were busy for this process, for Temporal and
// for PostgreSQL with its children; 0 where the system does not tell.
type work struct{ self, temporal, postgres time.Duration }

func (w work) sub(o work) work {
	return work{w.self - o.self, w.temporal - o.temporal, w.postgres - o.postgres}
}

func (w work) add(o work) work {
	return work{w.self + o.self, w.temporal + o.temporal, w.postgres + o.postgres}
}

func (w work) all() time.Duration { return w.self + w.temporal + w.postgres }

// worked measures the work so far.
func worked(b *testing.B) work {
	b.Helper()
	self := strconv.Itoa(os.Getpid())
	pids := append(strings.Fields(os.Getenv(benchPIDs)), "", "")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	var w work
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _, _ := strings.Cut(string(stat), " ")
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		const parent, utime, stime, cutime, cstime = 1, 11, 12, 13, 14
		if len(f) <= cstime {
			continue
		}
		ticks := func(fields ...int) time.Duration {
			sum := 0
			for _, i := range fields {
				n, err := strconv.Atoi(f[i])
				if err != nil {
					b.Fatal(err)
				}
				sum += n
			}
			return time.Duration(sum) * (time.Second / 100)
		}
		switch {
		case pid == self:
			w.self += ticks(utime, stime)
		case pid == pids[0]:
			w.temporal += ticks(utime, stime)
		case pid == pids[1]:
			w.postgres += ticks(utime, stime, cutime, cstime)
		case f[parent] == pids[1]:
			w.postgres += ticks(utime, stime)
		}
	}
	return w
}

// quantile returns the q-quantile in milliseconds.
func (t times) quantile(what string, q float64) float64 {
	all := slices.Sorted(slices.Values(t[what]))
	if len(all) == 0 {
		return 0
	}
	return float64(all[min(int(float64(len(all))*q), len(all)-1)].Microseconds()) / 1000
}

// floor is a workflow with nothing in its steps but three activities with
// nothing in them, placed and started as a run's are. What it takes is what
// three activities a step cost on this server, whatever they do.
type floor struct {
	c              client.Client
	agent, browser worker.Worker
}

const floorQueue = "sgclaw-floor"

func startFloor(b *testing.B, c client.Client) *floor {
	b.Helper()
	f := &floor{c: c}
	nothing := func(context.Context) error { return nil }
	f.agent = worker.New(c, floorQueue, durable.WorkerOptions())
	f.agent.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: activities.ThinkName})
	f.agent.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: activities.CriticName})
	f.agent.RegisterWorkflowWithOptions(floorWorkflow, workflow.RegisterOptions{Name: "Floor"})
	f.browser = worker.New(c, activities.BrowserQueue("floor"), rig.BrowserOptions())
	f.browser.RegisterActivityWithOptions(nothing, activity.RegisterOptions{Name: activities.ActName})
	for _, w := range []worker.Worker{f.agent, f.browser} {
		if err := w.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(w.Stop)
	}
	return f
}

func floorWorkflow(ctx workflow.Context, steps int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 5 * time.Second})
	for range steps {
		for _, name := range []string{activities.ThinkName, activities.ActName, activities.CriticName} {
			queue := ctx
			if name == activities.ActName {
				queue = workflow.WithTaskQueue(ctx, activities.BrowserQueue("floor"))
			}
			if err := workflow.ExecuteActivity(queue, name).Get(ctx, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the workflow and returns its id.
func (f *floor) run(b *testing.B, steps int) string {
	b.Helper()
	w, err := f.c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: "floor/" + uuid.NewString(), TaskQueue: floorQueue}, "Floor", steps)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Get(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	return w.GetID()
}

// BenchmarkFloor measures a step that does nothing.
func BenchmarkFloor(b *testing.B) {
	const steps = 50
	c := connect(b)
	f := startFloor(b, c)
	f.run(b, steps)
	t, n := times{}, 0
	began := worked(b)
	for b.Loop() {
		for range 3 {
			t.add(events(b, c, f.run(b, steps)))
			n += steps
		}
	}
	b.ReportMetric(t.quantile("step", .5), "ms/step-p50")
	b.ReportMetric(t.quantile("step", .95), "ms/step-p95")
	b.ReportMetric(perStep(worked(b).sub(began).all(), n), "cpu-ms/step")
}

func perStep(d time.Duration, steps int) float64 {
	return float64(d.Microseconds()) / 1000 / float64(steps)
}

// BenchmarkStep measures what a step costs beyond model and browser: both
// answer at once. Model call, action and critic are an activity each. Runs
// take turns with the floor's, so that their ratio holds whatever else the
// machine does; the processor's time, of worker, browser, Temporal and
// PostgreSQL together, depends on that least.
func BenchmarkStep(b *testing.B) {
	const steps = 50
	r, c := bench(b, clicks(steps), instant())
	f := startFloor(b, c)
	runTask(b, r)
	f.run(b, steps)
	t, bare := times{}, times{}
	var cpu, bareCPU work
	n := 0
	for b.Loop() {
		for range 3 {
			w := worked(b)
			id := runTask(b, r)
			v := worked(b)
			other := f.run(b, steps)
			cpu, bareCPU = cpu.add(v.sub(w)), bareCPU.add(worked(b).sub(v))
			n += steps
			t.add(events(b, c, workflows.RunWorkflowID(id)))
			bare.add(events(b, c, other))
		}
	}
	b.ReportMetric(t.quantile("step", .5), "ms/step-p50")
	b.ReportMetric(t.quantile("step", .95), "ms/step-p95")
	b.ReportMetric(bare.quantile("step", .5), "floor-ms/step-p50")
	b.ReportMetric(t.quantile("step", .5)/bare.quantile("step", .5), "x-floor")
	b.ReportMetric(perStep(cpu.self, n), "cpu-ms/step-ours")
	b.ReportMetric(perStep(cpu.temporal, n), "cpu-ms/step-temporal")
	b.ReportMetric(perStep(cpu.postgres, n), "cpu-ms/step-postgres")
	b.ReportMetric(perStep(bareCPU.self, n), "floor-cpu-ms/step-ours")
	b.ReportMetric(perStep(bareCPU.temporal, n), "floor-cpu-ms/step-temporal")
	b.ReportMetric(perStep(bareCPU.postgres, n), "floor-cpu-ms/step-postgres")
	for _, name := range []string{activities.ThinkName, activities.ActName, activities.CriticName} {
		b.ReportMetric(t.quantile(name, .5), name+"-ms")
		b.ReportMetric(t.quantile("dispatch-"+name, .5), "dispatch-"+name+"-ms")
	}
	b.ReportMetric(t.quantile("decide", .5), "decide-ms")
}

// BenchmarkHistory measures the bytes of history that each step after the
// first leaves, in a run of 10 and in one of 50 steps.
func BenchmarkHistory(b *testing.B) {
	var steps atomic.Int64
	model := rig.Model{Reply: func(ctx context.Context, req llm.Request, nth int) (llm.Response, error) {
		return clicks(int(steps.Load())).Reply(ctx, req, nth)
	}}
	r, c := bench(b, model, instant())
	size := func(n int) (bytes, events int64) {
		steps.Store(int64(n))
		d, err := c.DescribeWorkflowExecution(b.Context(), workflows.RunWorkflowID(runTask(b, r)), "")
		if err != nil {
			b.Fatal(err)
		}
		return d.GetWorkflowExecutionInfo().GetHistorySizeBytes(), d.GetWorkflowExecutionInfo().GetHistoryLength()
	}
	one, oneEvents := size(1)
	for _, n := range []int{10, 50} {
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			var bytes, events int64
			for b.Loop() {
				bytes, events = size(n)
			}
			b.ReportMetric(float64(bytes-one)/float64(n-1), "bytes/step")
			b.ReportMetric(float64(events-oneEvents)/float64(n-1), "events/step")
			b.ReportMetric(float64(bytes), "bytes/run")
		})
	}
}

// BenchmarkThroughput runs 200 tasks of ten steps at once.
func BenchmarkThroughput(b *testing.B) {
	const tasks, steps = 200, 10
	r, _ := bench(b, clicks(steps), instant())
	for b.Loop() {
		began := time.Now()
		var g errgroup.Group
		for range tasks {
			g.Go(func() error {
				st, err := r.Client.StartTask(b.Context(), "", agent.Message{ID: uuid.NewString(), Text: "measure", BrowserID: rig.BrowserID})
				if err != nil {
					return err
				}
				out, err := r.Client.WaitResult(b.Context(), st.RunID)
				if err == nil && !out.Success {
					err = fmt.Errorf("outcome %+v", out)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		took := time.Since(began).Seconds()
		b.ReportMetric(tasks/took, "tasks/s")
		b.ReportMetric(tasks*steps/took, "steps/s")
	}
}

// BenchmarkParked parks 2,000 runs on a confirmation and measures what each
// takes of the worker's memory, each with a session of its own. Then it asks
// the oldest, which the worker has put out of its memory, where they stand:
// that is how long a person's answer needs to wake one.
func BenchmarkParked(b *testing.B) {
	const runs = 2000
	host := asks()
	host.Forgets = true
	r, c := bench(b, clicks(1), host)
	// What a first run brings along is not the others' to bear.
	terminate(b, c, park(b, r, c, host, 1))
	for b.Loop() {
		before, resident := memory(b)
		ids := park(b, r, c, host, runs)
		after, residentAfter := memory(b)
		b.ReportMetric((after-before)/runs/1024, "KB/parked-run")
		b.ReportMetric((residentAfter-resident)/runs/1024, "RSS-KB/parked-run")
		t := times{}
		for _, id := range ids[:100] {
			began := time.Now()
			if st, err := r.Client.State(b.Context(), id); err != nil || st.Confirm == nil {
				b.Fatalf("%+v, %v", st, err)
			}
			t["wake"] = append(t["wake"], time.Since(began))
		}
		b.ReportMetric(t.quantile("wake", .5), "wake-ms-p50")
		b.ReportMetric(t.quantile("wake", .95), "wake-ms-p95")
		terminate(b, c, ids)
	}
}

// park starts runs and returns when all of them wait for an answer.
func park(b *testing.B, r *rig.Rig, c client.Client, host *rig.Host, runs int) []string {
	b.Helper()
	first := host.Count()
	ids := make([]string, runs)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range ids {
		g.Go(func() error {
			st, err := r.Client.StartTask(b.Context(), "", agent.Message{ID: uuid.NewString(), Text: "measure", BrowserID: rig.BrowserID})
			ids[i] = st.RunID
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	poll(b, "all runs at their question", func() bool { return host.Count()-first >= runs && waiting(b, c) >= int64(runs) })
	return ids
}

// BenchmarkIdleSessions opens 10,000 sessions that have nothing to do, and
// measures what they take of the worker's memory. Ten minutes later they
// would have ended; a message opens one again.
func BenchmarkIdleSessions(b *testing.B) {
	const sessions = 10_000
	r, c := bench(b, clicks(1), asks())
	open := func(from, to int) {
		var g errgroup.Group
		g.SetLimit(32)
		for i := from; i < to; i++ {
			g.Go(func() error {
				key := fmt.Sprintf("agent:main:panel:direct:%d", i)
				_, err := c.SignalWithStartWorkflow(b.Context(), workflows.SessionID(key), workflows.AbortName, workflows.Abort{RunID: "none"},
					client.StartWorkflowOptions{TaskQueue: workflows.AgentQueue, WorkflowTaskTimeout: workflows.TaskTimeout},
					workflows.SessionType, workflows.SessionInput{Key: key})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		// The worker has had the last one's first task once it answers.
		key := fmt.Sprintf("agent:main:panel:direct:%d", to-1)
		poll(b, "the last session", func() bool { _, err := r.Client.Inbox(b.Context(), key); return err == nil })
	}
	for b.Loop() {
		open(0, 100)
		before, resident := memory(b)
		open(100, 100+sessions)
		after, residentAfter := memory(b)
		b.ReportMetric((after-before)/(1<<20), "MB/10k-sessions")
		b.ReportMetric((residentAfter-resident)/(1<<20), "RSS-MB/10k-sessions")
	}
}

// waiting counts the runs that have asked.
func waiting(b *testing.B, c client.Client) int64 {
	b.Helper()
	n, err := c.CountWorkflow(b.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: "default",
		Query:     fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType = %q AND %s = %q", workflows.RunType, workflows.AttrState, agent.StatusWaitingConfirm),
	})
	if err != nil {
		b.Fatal(err)
	}
	return n.GetCount()
}

func terminate(b *testing.B, c client.Client, ids []string) {
	b.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for _, id := range ids {
		g.Go(func() error {
			if err := c.TerminateWorkflow(b.Context(), workflows.SessionID(durable.OwnSession(id)), "", "measured"); err != nil {
				return err
			}
			return c.TerminateWorkflow(b.Context(), workflows.RunWorkflowID(id), "", "measured")
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	poll(b, "no run waits any more", func() bool { return waiting(b, c) == 0 })
}

func poll(b *testing.B, what string, ok func() bool) {
	b.Helper()
	deadline := time.Now().Add(40 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// memory is what the process holds after a collection: heap and stacks, and
// what the system counts as resident.
func memory(b *testing.B) (used, resident float64) {
	b.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// Where the system does not tell it, it stays 0.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				if _, err := fmt.Sscan(rest, &resident); err != nil {
					b.Fatal(err)
				}
				resident *= 1024
			}
		}
	}
	return float64(m.HeapInuse + m.StackInuse), resident
}

// BenchmarkAbort measures from the signal to the end of the run's workflow,
// its record written.
func BenchmarkAbort(b *testing.B) {
	abort := func(b *testing.B, r *rig.Rig, c client.Client, id string) time.Duration {
		began := time.Now()
		if err := c.SignalWorkflow(b.Context(), workflows.RunWorkflowID(id), "", workflows.AbortName, workflows.Abort{By: "bench"}); err != nil {
			b.Fatal(err)
		}
		out, err := r.Client.WaitResult(b.Context(), id)
		took := time.Since(began)
		if err != nil || out.Status != agent.StatusAborted {
			b.Fatalf("outcome %+v, %v", out, err)
		}
		return took
	}
	report := func(b *testing.B, t times) {
		b.ReportMetric(t.quantile("abort", .5), "ms-p50")
		b.ReportMetric(t.quantile("abort", .95), "ms-p95")
	}
	b.Run("thinking", func(b *testing.B) {
		thinking := make(chan struct{}, 1)
		model := rig.Model{Reply: func(ctx context.Context, _ llm.Request, _ int) (llm.Response, error) {
			thinking <- struct{}{}
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		}}
		r, c := bench(b, model, instant())
		t := times{}
		for b.Loop() {
			for range 10 {
				id := startTask(b, r)
				<-thinking
				t["abort"] = append(t["abort"], abort(b, r, c, id))
			}
		}
		report(b, t)
	})
	b.Run("acting", func(b *testing.B) {
		acting := make(chan struct{}, 1)
		host := &rig.Host{Forgets: true, Answer: func(ctx context.Context, _ pipe.Command) (pipe.Response, error) {
			acting <- struct{}{}
			<-ctx.Done()
			return pipe.Response{}, ctx.Err()
		}}
		r, c := bench(b, clicks(1), host)
		t := times{}
		for b.Loop() {
			for range 10 {
				id := startTask(b, r)
				<-acting
				t["abort"] = append(t["abort"], abort(b, r, c, id))
			}
		}
		report(b, t)
	})
	b.Run("waiting", func(b *testing.B) {
		r, c := bench(b, clicks(1), asks())
		t := times{}
		for b.Loop() {
			for range 10 {
				id := startTask(b, r)
				poll(b, "the question", func() bool {
					st, err := r.Client.State(b.Context(), id)
					return err == nil && st.Confirm != nil
				})
				t["abort"] = append(t["abort"], abort(b, r, c, id))
			}
		}
		report(b, t)
	})
}
