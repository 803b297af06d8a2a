package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// Heartbeats makes every activity that has a heartbeat timeout tell the
// server, five times within it, that its worker lives. So an activity whose
// worker was killed is tried again soon, on another one, and not only when
// the time that it may take at most is over. It is an option of a worker;
// activities of a browser send their own.
func Heartbeats() interceptor.WorkerInterceptor { return &heartbeats{} }

type heartbeats struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &heartbeat{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type heartbeat struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (h *heartbeat) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	limit := activity.GetInfo(ctx).HeartbeatTimeout
	if limit <= 0 {
		return h.Next.ExecuteActivity(ctx, in)
	}
	beat, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(limit / 5)
		defer t.Stop()
		for {
			select {
			case <-beat.Done():
				return
			case <-t.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	})
	defer wg.Wait()
	defer stop()
	return h.Next.ExecuteActivity(ctx, in)
}
