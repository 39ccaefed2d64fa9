// A witness that Sijil did not write: that of omniwitness (github.com/transparency-dev/witness), over TLS. It prints its public key, in the form
// from before April 2026, and then serves add-checkpoint for one log. Each line of its standard input is another key of the log, which is trusted from
// then on in place of the one before, as an operator would change it; the state stays. Usage: witness VKEY-OF-THE-LOG ADDRESS CERTIFICATE KEY
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"

	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	secret, public, err := note.GenerateKey(rand.Reader, "omniwitness.test/w")
	if err != nil {
		log.Fatal(err)
	}
	signer, err := f_note.NewSignerForCosignatureV1(secret)
	if err != nil {
		log.Fatal(err)
	}
	var verifier atomic.Pointer[note.Verifier]
	trust := func(vkey string) {
		one, err := note.NewVerifier(vkey)
		if err != nil {
			log.Fatal(err)
		}
		verifier.Store(&one)
	}
	trust(os.Args[1])
	w, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(),
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			one := *verifier.Load()
			return one, origin == one.Name(), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(public)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			trust(lines.Text())
			fmt.Println("trusted")
		}
	}()
	http.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	log.Fatal(http.ListenAndServeTLS(os.Args[2], os.Args[3], os.Args[4], nil))
}
