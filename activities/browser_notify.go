package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"sgclaw/internal/pipe"
)

// ErrBadNotification is the type of the application error of a notification
// that can never be sent.
const ErrBadNotification = "BadNotification"

// maxTold bounds how many written notifications are remembered.
const maxTold = 4096

// Notify is the activity "notify": it writes one message to the browser. A
// message with a key that this process has written already is not written
// again.
func (b *Browser) Notify(ctx context.Context, in NotifyInput) error {
	message, bad := pipe.Decode(in.Message)
	if bad != nil {
		return temporal.NewNonRetryableApplicationError("message for the browser cannot be used: "+bad.Message, ErrBadNotification, nil)
	}
	switch m := message.(type) {
	case *pipe.TaskAccepted, *pipe.Log, *pipe.State, *pipe.TaskComplete:
	case *pipe.ConfirmRequired:
		if in.PictureRef != "" {
			// The picture is a help, not a condition: it may be pruned, or
			// lie in another browser's journal.
			body, err := b.journal.Body(in.PictureRef)
			if err != nil {
				b.log.Warn("picture of a question not found", "ref", in.PictureRef, "err", err)
			}
			m.Image = body.Image
		}
		if err := b.journal.Ask(m.ActionID, m.TaskID); err != nil {
			return err
		}
	default:
		return temporal.NewNonRetryableApplicationError("message must not be sent as a notification", ErrBadNotification, nil)
	}
	if b.alreadyTold(in.Key) {
		return nil
	}
	if err := b.host.Send(ctx, message); err != nil {
		if refused := (*pipe.Error)(nil); errors.As(err, &refused) {
			return temporal.NewNonRetryableApplicationError("message for the browser cannot be sent: "+refused.Message, ErrBadNotification, nil)
		}
		return fmt.Errorf("tell the browser: %w", err)
	}
	b.noteTold(in.Key)
	return nil
}

func (b *Browser) alreadyTold(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told[key]
}

func (b *Browser) noteTold(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key == "" || b.told[key] {
		return
	}
	b.told[key] = true
	b.toldAll = append(b.toldAll, key)
	if len(b.toldAll) > maxTold {
		delete(b.told, b.toldAll[0])
		b.toldAll = b.toldAll[1:]
	}
}
