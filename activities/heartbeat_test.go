package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
)

// TestHeartbeats: an activity that knows nothing of heartbeats sends them if
// it has a heartbeat timeout.
func TestHeartbeats(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{activities.Heartbeats()}})
	beaten := make(chan struct{})
	var once sync.Once
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { once.Do(func() { close(beaten) }) })
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		if activity.GetInfo(ctx).HeartbeatTimeout == 0 {
			return nil
		}
		select {
		case <-beaten:
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("no heartbeat")
		}
	}, activity.RegisterOptions{Name: "slow"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		for _, limit := range []time.Duration{0, 200 * time.Millisecond} {
			opts := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: limit}
			if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), "slow").Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Error(err)
	}
}
