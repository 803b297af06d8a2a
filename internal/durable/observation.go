package durable

import (
	"context"

	"sgclaw/activities"
	"sgclaw/internal/agent"
)

// Observation fetches the body that a browser's journal keeps under ref. It
// asks by a query, which leaves no trace in any history; the browser's
// pipehost must be there to answer.
func (c *Client) Observation(ctx context.Context, browserID, ref string) (agent.Body, error) {
	var b agent.Body
	err := c.ask(ctx, activities.BrowserQueue(browserID), activities.ObservationQuery, &b, ref)
	return b, err
}
