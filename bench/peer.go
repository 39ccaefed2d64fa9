// What the peers of the log have in common: submitters as those of bench/audit_bench.c, and the line of figures. script/bench builds it into each of them.
package main

import (
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[0]+":", err)
		os.Exit(1)
	}
}

// A submitter has one entry under way, again and again, until the time is over. The number is its own, from 0 on; of each entry it returns how long it took.
type submitter func(number int, until time.Time) []time.Duration

// Runs the submitters beside each other, calls `done`, and prints events/s, p50, p99 and the longest wait.
func measure(count, seconds int, submit submitter, done func() error) {
	var group sync.WaitGroup
	all := make([][]time.Duration, count)
	began := time.Now()
	for i := range all {
		group.Add(1)
		go func() {
			defer group.Done()
			all[i] = submit(i, began.Add(time.Duration(seconds)*time.Second))
		}()
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	check(done())
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
