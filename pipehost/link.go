package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/durable"
	"sgclaw/workflows"
)

const (
	firstRetry  = 250 * time.Millisecond // after Temporal could not be reached
	lastRetry   = 5 * time.Second        // the longest pause between attempts
	healthEvery = 2 * time.Second
	appearEvery = 15 // looks at the server's health
)

// link keeps the connection to Temporal until the context ends.
func (s *session) link(ctx context.Context) {
	pause := firstRetry
	for {
		began := time.Now()
		err := s.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("temporal is away", "address", s.settings.temporal.Address, "err", err)
		s.status.server(fmt.Errorf("temporal at %s: %w", s.settings.temporal.Address, err))
		if time.Since(began) > time.Minute {
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastRetry)
	}
}

// connected dials, serves the browser's queue and delivers the outbox until
// the context ends or the worker cannot go on. A server that goes away for a
// while ends neither: the SDK goes on trying, and the browser is told.
func (s *session) connected(ctx context.Context) error {
	cfg := s.settings.temporal
	cfg.Identity = "pipehost-" + s.shake.Ack.AgentID[:8]
	c, err := durable.Dial(ctx, s.log, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	fatal := make(chan error, 1)
	w := s.worker(c.Temporal(), fatal)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer w.Stop()
	if err := s.appear(ctx, c.Temporal()); err != nil {
		return err
	}
	s.status.server(nil)
	s.log.Info("serving", "queue", activities.BrowserQueue(s.shake.Ack.BrowserID), "temporal", cfg.Address)
	ctx, cancel := context.WithCancel(ctx)
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		s.deliver(ctx, c)
	}()
	err = s.watch(ctx, c.Temporal(), fatal)
	cancel()
	<-delivered
	return err
}

// worker serves the browser's queue.
func (s *session) worker(c client.Client, fatal chan<- error) worker.Worker {
	w := worker.New(c, activities.BrowserQueue(s.shake.Ack.BrowserID), worker.Options{
		// Short, because it stands in every event.
		BuildID: "sgclaw", //nolint:staticcheck // its successor turns versioning on
		// The main page takes one command at a time, background pages may
		// each have one; whatever is more waits here with heartbeats.
		MaxConcurrentActivityExecutionSize:     8,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentWorkflowTaskExecutionSize: 4,
		// A cancellation comes back with a heartbeat.
		MaxHeartbeatThrottleInterval:     200 * time.Millisecond,
		DefaultHeartbeatThrottleInterval: 200 * time.Millisecond,
		WorkerStopTimeout:                finishGrace,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	w.RegisterActivityWithOptions(s.acts.Act, activity.RegisterOptions{Name: activities.ActName})
	w.RegisterActivityWithOptions(s.acts.Notify, activity.RegisterOptions{Name: activities.NotifyName})
	w.RegisterWorkflowWithOptions((&workflows.Browser{Shelf: s}).Run, workflow.RegisterOptions{Name: activities.BrowserWorkflow})
	return w
}

// appear starts the workflow that stands for the browser, if it is not there.
func (s *session) appear(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	id := s.shake.Ack.BrowserID
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       activities.BrowserQueue(id),
		TaskQueue:                activities.BrowserQueue(id),
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "browser " + id,
		StaticDetails:            "Stands for the browser and answers queries. It never ends and does nothing.",
	}, activities.BrowserWorkflow)
	if err != nil {
		return fmt.Errorf("start the browser's workflow: %w", err)
	}
	return nil
}

// watch tells the browser when the server goes and comes, and returns when
// the context ends or the worker cannot go on. Now and then, and after an
// absence, it makes sure that the browser's workflow is still there: a
// server may have lost it, or an operator ended it.
func (s *session) watch(ctx context.Context, c client.Client, fatal <-chan error) error {
	t := time.NewTicker(healthEvery)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-fatal:
			return fmt.Errorf("worker: %w", err)
		case <-t.C:
			err := healthy(ctx, c)
			if err == nil && n >= appearEvery {
				err, n = s.appear(ctx, c), 0
			} else if err != nil {
				n = appearEvery
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				err = fmt.Errorf("temporal at %s: %w", s.settings.temporal.Address, err)
			}
			s.status.server(err)
		}
	}
}

func healthy(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, healthEvery)
	defer cancel()
	_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer")
	}
	return err
}
