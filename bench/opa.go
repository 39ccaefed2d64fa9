// Decisions of Open Policy Agent's own library. usage: opa MODULE DATA QUESTIONS SECONDS; prints CPU nanoseconds a decision, and a digit for each answer.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "opa:", err)
		os.Exit(1)
	}
}

func read(path string, into any) {
	text, err := os.ReadFile(path)
	check(err)
	check(json.Unmarshal(text, into))
}

func cpu() int64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return used.Utime.Nano() + used.Stime.Nano()
}

func main() {
	ctx := context.Background()
	var data map[string]any
	var questions []map[string]any
	module, err := os.ReadFile(os.Args[1])
	check(err)
	read(os.Args[2], &data)
	read(os.Args[3], &questions)
	seconds, err := strconv.Atoi(os.Args[4])
	check(err)
	query, err := rego.New(rego.Query("data.sijil.allow"), rego.Module("sijil.rego", string(module)), rego.Store(inmem.NewFromObject(data))).PrepareForEval(ctx)
	check(err)
	var asked []ast.Value
	for _, question := range questions {
		value, err := ast.InterfaceToValue(question)
		check(err)
		asked = append(asked, value)
	}
	var answers strings.Builder
	began, decided := cpu(), 0
	for cpu()-began < int64(seconds)*1e9 {
		for _, question := range asked {
			found, err := query.Eval(ctx, rego.EvalParsedInput(question))
			check(err)
			if decided++; decided <= len(asked) {
				answers.WriteByte("01"[map[bool]int{true: 1}[found.Allowed()]])
			}
		}
	}
	fmt.Println((cpu()-began)/int64(decided), answers.String())
}
