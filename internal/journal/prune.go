package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// pruneBatch bounds how much one transaction removes, so that an effect does
// not wait for a long one.
const pruneBatch = 500

// Tend prunes every hour until the context ends.
func (j *Journal) Tend(ctx context.Context) {
	t := time.NewTicker(time.Hour)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := j.Prune(); err != nil {
				j.log.Error("journal could not be pruned", "err", err)
			}
		}
	}
}

// Prune removes what is older than it is kept: effects and questions after
// EntryAge, effects that nobody knows the outcome of after BegunAge, bodies after BodyAge or, the oldest first, when all together are
// more than MaxBodies. The outbox is never pruned.
func (j *Journal) Prune() error {
	now := j.now()
	tooOld := func(at time.Time) bool { return now.Sub(at) > EntryAge }
	gone := map[string]bool{}
	steps := []struct {
		bucket []byte
		old    func(k, v []byte) bool
	}{
		{bucketEffects, func(k, v []byte) bool {
			var r record
			if json.Unmarshal(v, &r) != nil || !tooOld(r.BegunAt) {
				return false
			}
			// A browser may be away for long with an effect in flight, and
			// nothing but the entry keeps it from being sent again.
			if r.State == StateBegun && now.Sub(r.BegunAt) <= BegunAge {
				return false
			}
			gone[string(k)] = true
			return true
		}},
		{bucketGrants, func(_, v []byte) bool { return gone[string(v)] }},
		{bucketConfirms, func(_, v []byte) bool {
			var q Question
			return json.Unmarshal(v, &q) == nil && tooOld(q.At)
		}},
		{bucketSeen, func(_, v []byte) bool { return tooOld(unstamp(v)) }},
		{bucketMeta, func(k, v []byte) bool { return string(k) == string(keyLost) && tooOld(unstamp(v)) }},
		{bucketCooling, func(_, v []byte) bool { return now.After(unstamp(v)) }},
	}
	for _, s := range steps {
		if err := j.sweep(s.bucket, s.old); err != nil {
			return fmt.Errorf("prune journal: %w", err)
		}
	}
	dead, err := j.deadBodies(now)
	if err != nil {
		return fmt.Errorf("prune journal: %w", err)
	}
	if err := j.sweep(bucketBodies, func(k, _ []byte) bool { return dead[string(k)] }); err != nil {
		return fmt.Errorf("prune journal: %w", err)
	}
	return nil
}

// deadBodies are those that are too old, and of the rest the oldest if all
// together are too many.
func (j *Journal) deadBodies(now time.Time) (map[string]bool, error) {
	type body struct {
		ref  string
		at   time.Time
		size int64
	}
	var bodies []body
	left := int64(0)
	err := j.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketBodies).ForEach(func(k, v []byte) error {
			b := body{ref: string(k), size: int64(len(v))}
			if len(v) >= 8 {
				b.at = unstamp(v[:8])
			}
			bodies = append(bodies, b)
			left += b.size
			return nil
		})
	})
	slices.SortFunc(bodies, func(a, b body) int { return a.at.Compare(b.at) })
	dead := map[string]bool{}
	for _, b := range bodies {
		if now.Sub(b.at) <= BodyAge && left <= j.room {
			break
		}
		dead[b.ref] = true
		left -= b.size
	}
	return dead, err
}

// sweep removes the entries for which old says so, in batches.
func (j *Journal) sweep(bucket []byte, old func(k, v []byte) bool) error {
	var keys [][]byte
	err := j.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			if old(k, v) {
				keys = append(keys, append([]byte(nil), k...))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		n := min(pruneBatch, len(keys))
		err := j.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			for _, k := range keys[:n] {
				if err := b.Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}
