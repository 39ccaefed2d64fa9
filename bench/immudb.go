// immudb's embedded store, measured like bench/audit_bench.c: each submitter has one transaction with one entry of 900 bytes under way, for some
// seconds. A transaction is answered when it is on the disk, as immudb does by itself; it does not wait for the index of keys.
// usage: immudb FOLDER SUBMITTERS SECONDS; prints events/s, p50, p99 and the longest wait.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"time"

	"github.com/codenotary/immudb/embedded/store"
)

func submit(log *store.ImmuStore, one int, until time.Time) []time.Duration {
	var waits []time.Duration
	entry := make([]byte, 900)
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key, uint64(one))
	for time.Now().Before(until) {
		_, err := rand.Read(entry)
		check(err)
		binary.BigEndian.PutUint64(key[8:], uint64(len(waits)))
		began := time.Now()
		tx, err := log.NewWriteOnlyTx(context.Background())
		check(err)
		check(tx.Set(key, nil, entry))
		_, err = tx.AsyncCommit(context.Background())
		check(err)
		waits = append(waits, time.Since(began))
	}
	return waits
}

func main() {
	submitters, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.Atoi(os.Args[3])
	check(err)
	options := store.DefaultOptions().WithSynced(true).WithMaxConcurrency(submitters + 1).WithMaxActiveTransactions(2*submitters + 2)
	log, err := store.Open(os.Args[1], options)
	check(err)
	measure(submitters, seconds, func(number int, until time.Time) []time.Duration { return submit(log, number, until) }, log.Close)
}
