// A log that Sijil did not write: Tessera's POSIX back end, which publishes a checkpoint only when the witnesses of its policy have cosigned it. It prints
// its public key. The first line of its standard input begins; each further one is a number of entries to add: it answers with the size that was published
// with them, or with why nothing was published within SECONDS. The key of the log stays in KEY, also for another folder.
// usage: tessera FOLDER KEY POLICY CA-FILE SECONDS
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func signer(path string) note.Signer {
	text, err := os.ReadFile(path)
	if err != nil {
		secret, public, err := note.GenerateKey(rand.Reader, "tessera.test/log")
		must(err)
		text = []byte(secret + "\n" + public + "\n")
		must(os.WriteFile(path, text, 0600))
	}
	lines := strings.Split(string(text), "\n")
	fmt.Println(lines[1])
	one, err := note.NewSigner(lines[0])
	must(err)
	return one
}

func caller(ca string) *http.Client {
	text, err := os.ReadFile(ca)
	must(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		log.Fatal("no certificate in ", ca)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}
}

func main() {
	key := signer(os.Args[2])
	seconds, err := strconv.Atoi(os.Args[5])
	must(err)
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	policy, err := os.ReadFile(os.Args[3])
	must(err)
	witnesses, err := tessera.NewWitnessGroupFromPolicy(policy)
	must(err)
	ctx := context.Background()
	driver, err := posix.New(ctx, posix.Config{HTTPClient: caller(os.Args[4]), Path: os.Args[1]})
	must(err)
	options := tessera.NewAppendOptions().WithCheckpointSigner(key).WithCheckpointInterval(time.Second).WithBatching(256, 50*time.Millisecond).
		WithWitnesses(witnesses, nil)
	appender, _, reader, err := tessera.NewAppender(ctx, driver, options)
	must(err)
	for lines.Scan() {
		count, err := strconv.Atoi(lines.Text())
		must(err)
		fmt.Println(grow(appender, reader, count, time.Duration(seconds)*time.Second))
	}
}

func grow(appender *tessera.Appender, reader tessera.LogReader, count int, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last tessera.IndexFuture
	entry := make([]byte, 100)
	for range count {
		_, err := rand.Read(entry)
		must(err)
		last = appender.Add(ctx, tessera.NewEntry(append([]byte{}, entry...)))
	}
	_, checkpoint, err := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, 100*time.Millisecond).Await(ctx, last)
	if err != nil {
		return "not published: " + err.Error()
	}
	return strings.Split(string(checkpoint), "\n")[1]
}
