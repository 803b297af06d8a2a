package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

// Work that was stopped is detail; what is wrong with the server is not.
func TestSDKLogIsQuiet(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(quiet{slog.NewTextHandler(&out, nil)})
	gone := serviceerror.NewNotFound("workflow execution already completed")
	log.Info("Started Worker")
	log.Error("Activity error.", "ActivityType", "think", "Error", fmt.Errorf("call the model: %w", context.Canceled)) //nolint:sloglint // as the SDK writes it
	log.Error("Activity error.", "Error", temporal.NewCanceledError())                                                 //nolint:sloglint // as the SDK writes it
	log.Warn("RecordActivityHeartbeat with error", "Error", gone)                                                      //nolint:sloglint // as the SDK writes it
	if out.Len() > 0 {
		t.Errorf("told:\n%s", &out)
	}
	log.Error("Activity error.", "Error", errors.New("no space left"))              //nolint:sloglint // as the SDK writes it
	log.Error("Worker received non-retriable error. Shutting down.", "Error", gone) //nolint:sloglint // as the SDK writes it
	log.Warn("Failed to poll for task.", "Error", context.DeadlineExceeded)         //nolint:sloglint // as the SDK writes it
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("%d lines, want 3:\n%s", got, &out)
	}
}
