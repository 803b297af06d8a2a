// Package journal is what one browser's agent remembers on disk: which side
// effects it has sent and what came of them, the observations too long for a
// workflow's history, and the messages of the browser that Temporal has not
// got yet. It exists so that a side effect happens at most once, whatever
// dies when. It knows nothing of the pipe or of Temporal.
//
// # Life of an effect
//
//	(absent) --Begin, synced--> begun --Done, synced--> done
//	                              |
//	                              +--Void: the browser said that nothing was done--> (absent)
//
// Begin comes before the command is sent. After a crash an absent effect was
// never sent and may be, a done one has its result, and a begun one was
// possibly sent: its outcome is unknown for good, or until a late response
// makes it done.
//
// # When the file is damaged
//
// A journal that cannot be read is moved aside, with an error in the log,
// and a fresh one is begun that knows of its loss. For as long as entries
// are kept it then cannot tell a new effect from one that the lost file had
// as begun, so it does not guess: the first effect of every run that it has
// not met since is answered as begun, i.e. unknown, and the model looks
// before it goes on. Once a run has been met, its later effects are new,
// because a run decides its actions one after the other.
//
// Deleting the file by hand is different: nothing can tell that from a first
// start. It must not be done while runs are under way.
//
// # File
//
// One bbolt file a browser in the data folder, locked while open. Every
// write is synced before the method returns.
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// ErrLocked is returned by Open when another process holds the browser's
// journal: two agents must not act in one browser.
var ErrLocked = errors.New("journal is in use by another process")

// ErrNotFound is returned for a body that the journal does not have, or does
// not have any more.
var ErrNotFound = errors.New("not in the journal")

// Limits of what is kept.
const (
	// EntryAge is how long effects and answers to questions are kept.
	EntryAge = 30 * 24 * time.Hour
	// BegunAge is how long effects are kept whose outcome is unknown.
	BegunAge = 366 * 24 * time.Hour
	// BodyAge is how long observations and pictures are kept.
	BodyAge = 7 * 24 * time.Hour
	// MaxBodies bounds the bytes of all bodies; the oldest go first.
	MaxBodies = 256 << 20
	// MaxText bounds the text of one body, in bytes; the rest is cut.
	MaxText = 512 << 10
	// MaxImage bounds the picture of one body, in bytes; a larger one is
	// left out. A line of the pipe cannot carry one as large.
	MaxImage = 1 << 20
	// MaxOutbox bounds the messages that wait for Temporal.
	MaxOutbox = 10_000
)

// LockWait is how long Open waits for another process to let go of the
// journal: when a browser is restarted, the agent of the old one may still
// be leaving.
const LockWait = 4 * time.Second

var (
	bucketMeta     = []byte("meta")
	bucketEffects  = []byte("effects")  // once-only key -> record
	bucketGrants   = []byte("grants")   // grant id -> once-only key of the effect that used it
	bucketSeen     = []byte("seen")     // run id -> time, only after a loss
	bucketBodies   = []byte("bodies")   // ref -> body
	bucketOutbox   = []byte("outbox")   // sequence -> message
	bucketConfirms = []byte("confirms") // confirmation id -> question
	bucketCooling  = []byte("cooling")  // domain -> time

	keyLost = []byte("lost_at")
)

func buckets() [][]byte {
	return [][]byte{bucketMeta, bucketEffects, bucketGrants, bucketSeen, bucketBodies, bucketOutbox, bucketConfirms, bucketCooling}
}

// Journal is the open journal of one browser. All methods can be called from
// several goroutines; none may be called after Close.
type Journal struct {
	log    *slog.Logger
	db     *bolt.DB
	now    func() time.Time
	room   int64         // for all bodies
	notify chan struct{} // of Posted
}

// Open opens the journal of a browser in the data folder, which it makes if
// need be, and drops what is too old. It waits up to LockWait for another
// process to let go and then returns ErrLocked. A file that cannot be read
// is moved aside, see the package comment.
func Open(ctx context.Context, log *slog.Logger, dir, browserID string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	path := Path(dir, browserID)
	db, err := openWaiting(ctx, path)
	lost := false
	if damaged := (*damage)(nil); errors.As(err, &damaged) {
		aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
		log.Error("journal is damaged and was moved aside; the first effect of each run under way will be reported as unknown",
			"path", path, "aside", aside, "err", damaged.reason)
		if err := os.Rename(path, aside); err != nil {
			return nil, fmt.Errorf("move damaged journal aside: %w", err)
		}
		lost = true
		db, err = openWaiting(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	j := &Journal{log: log, db: db, now: time.Now, room: MaxBodies, notify: make(chan struct{}, 1)}
	if err := j.prepare(lost); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("prepare journal %s: %w", path, err)
	}
	if err := j.Prune(); err != nil {
		_ = db.Close()
		return nil, err
	}
	return j, nil
}

// Path is the journal's file of a browser.
func Path(dir, browserID string) string {
	name := browserID
	for _, r := range browserID {
		// Case is not kept apart on every file system.
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			name = ""
		}
	}
	if name == "" || len(name) > 64 {
		sum := sha256.Sum256([]byte(browserID))
		name = "h" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(dir, "browser-"+name+".journal")
}

// Close closes the file and lets go of the lock.
func (j *Journal) Close() error { return j.db.Close() }

// damage says why a file cannot be used as a journal.
type damage struct{ reason string }

func (d *damage) Error() string { return "journal is damaged: " + d.reason }

func openWaiting(ctx context.Context, path string) (*bolt.DB, error) {
	deadline := time.Now().Add(LockWait)
	for {
		db, err := openFile(path)
		if !errors.Is(err, berrors.ErrTimeout) {
			return db, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, ErrLocked
		}
	}
}

// openFile opens and reads through the file. bbolt panics, or reads beyond
// the end of the mapped file, when pages are damaged; both become a *damage.
func openFile(path string) (db *bolt.DB, err error) {
	var file *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if file != nil {
				_ = file.Close()
			}
			db, err = nil, &damage{fmt.Sprint(p)}
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:      150 * time.Millisecond,
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrInvalidMapping):
		return nil, &damage{err.Error()}
	case err != nil:
		return nil, err
	}
	if err := db.View(func(tx *bolt.Tx) error { return readThrough(tx, file) }); err != nil {
		_ = db.Close()
		return nil, &damage{err.Error()}
	}
	return db, nil
}

// readThrough visits everything but the bodies' bytes.
func readThrough(tx *bolt.Tx, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("file has %d bytes and should have %d", info.Size(), tx.Size())
	}
	for _, name := range buckets() {
		b := tx.Bucket(name)
		if b == nil {
			continue
		}
		err := b.ForEach(func(k, v []byte) error {
			if string(name) == string(bucketEffects) {
				var r record
				if err := json.Unmarshal(v, &r); err != nil {
					return fmt.Errorf("effect %q: %w", k, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) prepare(lost bool) error {
	return j.db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if lost {
			return tx.Bucket(bucketMeta).Put(keyLost, stamp(j.now()))
		}
		return nil
	})
}

// stamp and unstamp keep a time as 8 bytes that sort by time.
func stamp(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(t.UnixMilli()))
}

func unstamp(b []byte) time.Time {
	if len(b) != 8 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC()
}
