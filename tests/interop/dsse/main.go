// The signed documents of docs/formats/documents-vectors.json, verified by go-securesystemslib and sigstore, as docs/formats/documents.md
// says. Without a key id they skip our signatures: they compare the id with one of their own.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"math/big"
	"os"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstore "github.com/sigstore/sigstore/pkg/signature/dsse"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// RFC 7638
func thumbprint(key *ecdsa.PublicKey) string {
	url := base64.RawURLEncoding
	x, y := key.X.FillBytes(make([]byte, 32)), key.Y.FillBytes(make([]byte, 32))
	jwk := fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, url.EncodeToString(x), url.EncodeToString(y))
	sum := sha256.Sum256([]byte(jwk))
	return url.EncodeToString(sum[:])
}

func verify(envelope *dsse.Envelope, key *ecdsa.PublicKey, keyID string) error {
	inner, err := signature.LoadECDSAVerifier(key, crypto.SHA256)
	must(err)
	verifier, err := dsse.NewEnvelopeVerifier(&sigstore.VerifierAdapter{SignatureVerifier: inner, Pub: key, PubKeyID: keyID})
	must(err)
	_, err = verifier.Verify(context.Background(), envelope)
	return err
}

// sigstore's wrapper takes no key id, so the envelope must have none. No signature covers it.
func verifyWrapped(envelope dsse.Envelope, key *ecdsa.PublicKey) error {
	inner, err := signature.LoadECDSAVerifier(key, crypto.SHA256)
	must(err)
	text, err := json.Marshal(envelope)
	must(err)
	return sigstore.WrapVerifier(inner).VerifySignature(bytes.NewReader(text), nil)
}

func withoutKeyIDs(envelope dsse.Envelope) dsse.Envelope {
	envelope.Signatures = append([]dsse.Signature{}, envelope.Signatures...)
	for i := range envelope.Signatures {
		envelope.Signatures[i].KeyID = ""
	}
	return envelope
}

func check(name string, envelope dsse.Envelope, key, other *ecdsa.PublicKey) {
	changed := envelope
	changed.Payload = base64.StdEncoding.EncodeToString([]byte("{}"))
	for _, one := range []struct {
		what string
		is   bool
		got  error
	}{
		{"the thumbprint as key id", true, verify(&envelope, key, thumbprint(key))},
		{"no key id", false, verify(&envelope, key, "")},
		{"another key with the right id", false, verify(&envelope, other, thumbprint(key))},
		{"another payload", false, verify(&changed, key, thumbprint(key))},
		{"sigstore's wrapper", false, verifyWrapped(envelope, key)},
		{"sigstore's wrapper, without key ids", true, verifyWrapped(withoutKeyIDs(envelope), key)},
		{"sigstore's wrapper, without key ids, another key", false, verifyWrapped(withoutKeyIDs(envelope), other)},
	} {
		if (one.got == nil) != one.is {
			log.Fatalf("%s: %s: %v", name, one.what, one.got)
		}
	}
}

func main() {
	var vectors struct {
		Keys  map[string]string
		Cases []struct {
			Name      string
			Signers   []string
			Envelopes []string
		}
	}
	text, err := os.ReadFile(os.Args[1])
	must(err)
	must(json.Unmarshal(text, &vectors))
	keys := map[string]*ecdsa.PublicKey{}
	for name, point := range vectors.Keys {
		raw, err := hex.DecodeString(point)
		must(err)
		keys[name] = &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(raw[1:33]), Y: new(big.Int).SetBytes(raw[33:])}
	}
	checked := 0
	for _, one := range vectors.Cases {
		for i, text := range one.Envelopes {
			var envelope dsse.Envelope
			must(json.Unmarshal([]byte(text), &envelope))
			signer := one.Signers[i]
			other := keys["root"]
			if signer == "root" {
				other = keys["holder"]
			}
			check(one.Name, envelope, keys[signer], other)
			checked++
		}
	}
	if checked < 4 {
		log.Fatalf("only %d envelopes", checked)
	}
	fmt.Printf("%d envelopes verified\n", checked)
}
