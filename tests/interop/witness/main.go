// A witness that Sijil did not write: that of omniwitness (github.com/transparency-dev/witness), over TLS. It prints its public key, in the form
// from before April 2026, and then serves add-checkpoint for one log. Usage: witness VKEY-OF-THE-LOG ADDRESS CERTIFICATE KEY
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"os"

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
	verifier, err := note.NewVerifier(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	w, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(),
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return verifier, origin == verifier.Name(), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(public)
	http.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(w).AddCheckpoint)
	log.Fatal(http.ListenAndServeTLS(os.Args[2], os.Args[3], os.Args[4], nil))
}
