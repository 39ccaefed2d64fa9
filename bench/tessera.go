// Tessera's POSIX back end, measured like bench/audit_bench.c: 256 submitters, each with one entry of 900 bytes under way, for some seconds.
// usage: tessera FOLDER SUBMITTERS SECONDS; prints events/s, p50, p99 and the longest wait until an entry has its number.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"strconv"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

func submit(appender *tessera.Appender, until time.Time) []time.Duration {
	var waits []time.Duration
	entry := make([]byte, 900)
	for time.Now().Before(until) {
		_, err := rand.Read(entry)
		check(err)
		began := time.Now()
		_, err = appender.Add(context.Background(), tessera.NewEntry(entry))()
		check(err)
		waits = append(waits, time.Since(began))
	}
	return waits
}

func main() {
	ctx := context.Background()
	submitters, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.Atoi(os.Args[3])
	check(err)
	secret, _, err := note.GenerateKey(rand.Reader, "bench.example/log")
	check(err)
	signer, err := note.NewSigner(secret)
	check(err)
	driver, err := posix.New(ctx, posix.Config{Path: os.Args[1]})
	check(err)
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer).WithCheckpointInterval(time.Second).
		WithBatching(uint(submitters), 10*time.Millisecond)
	appender, shutdown, _, err := tessera.NewAppender(ctx, driver, options)
	check(err)
	measure(submitters, seconds, func(number int, until time.Time) []time.Duration { return submit(appender, until) }, func() error { return shutdown(ctx) })
}
