// immudb's embedded store, measured like bench/audit_bench.c: each submitter has one transaction with one entry of 900 bytes under way, for some
// seconds. A transaction is answered when it is on the disk, as immudb does by itself; it does not wait for the index of keys.
// usage: immudb FOLDER SUBMITTERS SECONDS; prints events/s, p50, p99 and the longest wait.
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/codenotary/immudb/embedded/store"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "immudb:", err)
		os.Exit(1)
	}
}

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
	var group sync.WaitGroup
	all := make([][]time.Duration, submitters)
	began := time.Now()
	for i := range all {
		group.Add(1)
		go func() {
			defer group.Done()
			all[i] = submit(log, i, began.Add(time.Duration(seconds)*time.Second))
		}()
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	check(log.Close())
	var waits []float64
	for _, some := range all {
		for _, wait := range some {
			waits = append(waits, float64(wait.Microseconds())/1000)
		}
	}
	sort.Float64s(waits)
	fmt.Printf("%.0f events/s, p50 %.2f ms, p99 %.2f ms, longest %.2f ms, 0 failed\n", float64(len(waits))/elapsed, waits[len(waits)/2],
		waits[len(waits)*99/100], waits[len(waits)-1])
}
