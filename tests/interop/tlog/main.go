// Reads a log over HTTPS with code that shares nothing with ours: Go's sumdb tlog and note, transparency-dev's merkle and formats, and
// tessera's fsck. The sizes are those of checkpoints that were published.
//
// usage: tlog URL CA-FILE VKEY TOKEN SIZE...   (URL: https://HOST, without the path of the log)
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	f_log "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func demand(holds bool, what string, about ...any) {
	if !holds {
		log.Fatalf(what, about...)
	}
}

type registry struct {
	base, token, origin string
	http                *http.Client
	verifier            note.Verifier
}

func (r *registry) fetch(path string, status int) []byte {
	request, err := http.NewRequest(http.MethodGet, r.base+path, nil)
	must(err)
	request.Header.Set("Authorization", "Bearer "+r.token)
	answer, err := r.http.Do(request)
	must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(err)
	demand(answer.StatusCode == status, "%s: %d, not %d: %s", path, answer.StatusCode, status, body)
	return body
}

// The checkpoint, by note and formats together.
func (r *registry) open(raw []byte) *f_log.Checkpoint {
	_, err := note.Open(raw, note.VerifierList(r.verifier))
	must(err)
	checkpoint, _, _, err := f_log.ParseCheckpoint(raw, r.origin, r.verifier)
	must(err)
	return checkpoint
}

func (r *registry) published(size uint64) *f_log.Checkpoint {
	body := r.fetch(fmt.Sprintf("/api/v1/audit/consistency?old=%d&size=%d", size, size), 200)
	checkpoint := r.open(body[bytes.Index(body, []byte("\n\n"))+2:])
	demand(checkpoint.Size == size, "the checkpoint of %d is of %d", size, checkpoint.Size)
	return checkpoint
}

func lines(text string) (first string, hashes [][]byte) {
	head := strings.Split(text[:strings.Index(text, "\n\n")], "\n")
	for _, line := range head {
		if hash, err := base64.StdEncoding.Strict().DecodeString(line); err == nil && len(hash) == 32 {
			hashes = append(hashes, hash)
		} else {
			first = line
		}
	}
	return first, hashes
}

// sumdb's tiles have the same hashes as C2SP's, in other paths.
type reader struct{ *registry }

func (r reader) Height() int { return 8 }

func (r reader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		all = append(all, r.fetch("/audit/"+layout.TilePath(uint64(tile.L), uint64(tile.N), uint8(tile.W%256)), 200))
	}
	return all, nil
}

func (r reader) SaveTiles([]tlog.Tile, [][]byte) {}

func hashOf(raw []byte) (hash tlog.Hash) {
	copy(hash[:], raw)
	return hash
}

func asTree(hashes [][]byte) (list []tlog.Hash) {
	for _, raw := range hashes {
		list = append(list, hashOf(raw))
	}
	return list
}

func equal(a []tlog.Hash, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != hashOf(b[i]) {
			return false
		}
	}
	return true
}

// The tree of one size, read through tiles that sumdb verifies: its root, and our proofs from each smaller size.
func (r *registry) checkTree(checkpoint *f_log.Checkpoint, smaller []*f_log.Checkpoint) {
	size := int64(checkpoint.Size)
	tree := tlog.TileHashReader(tlog.Tree{N: size, Hash: hashOf(checkpoint.Hash)}, reader{r})
	root, err := tlog.TreeHash(size, tree)
	must(err)
	demand(root == hashOf(checkpoint.Hash), "size %d: sumdb computes another root", size)
	for _, old := range smaller {
		text := string(r.fetch(fmt.Sprintf("/api/v1/audit/consistency?old=%d&size=%d", old.Size, size), 200))
		first, hashes := lines(text)
		demand(first == fmt.Sprintf("old %d", old.Size), "the proof begins with %q", first)
		must(proof.VerifyConsistency(rfc6962.DefaultHasher, old.Size, checkpoint.Size, hashes, old.Hash, checkpoint.Hash))
		must(tlog.CheckTree(asTree(hashes), size, hashOf(checkpoint.Hash), int64(old.Size), hashOf(old.Hash)))
		computed, err := tlog.ProveTree(size, int64(old.Size), tree)
		must(err)
		demand(equal(computed, hashes), "%d to %d: sumdb makes another proof", old.Size, size)
	}
	for _, index := range []int64{0, size / 2, size - 1} {
		r.checkEntry(checkpoint, index, tree)
	}
}

func (r *registry) checkEntry(checkpoint *f_log.Checkpoint, index int64, tree tlog.HashReader) {
	entry := r.fetch(fmt.Sprintf("/api/v1/audit/events/%d/entry", index), 200)
	text := string(r.fetch(fmt.Sprintf("/api/v1/audit/events/%d/proof?size=%d", index, checkpoint.Size), 200))
	demand(strings.HasPrefix(text, fmt.Sprintf("c2sp.org/tlog-proof@v1\nindex %d\n", index)), "another form of proof: %s", text)
	same := r.open([]byte(text[strings.Index(text, "\n\n")+2:]))
	demand(same.Size == checkpoint.Size && bytes.Equal(same.Hash, checkpoint.Hash), "the proof is under another checkpoint")
	_, hashes := lines(text)
	leaf := rfc6962.DefaultHasher.HashLeaf(entry)
	must(proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), checkpoint.Size, leaf, hashes, checkpoint.Hash))
	must(tlog.CheckRecord(asTree(hashes), int64(checkpoint.Size), hashOf(checkpoint.Hash), index, tlog.RecordHash(entry)))
	computed, err := tlog.ProveRecord(int64(checkpoint.Size), index, tree)
	must(err)
	demand(equal(computed, hashes), "entry %d of %d: sumdb makes another proof", index, checkpoint.Size)
}

// The partial tiles and bundles of the size, at each level.
func (r *registry) checkPartials(size uint64) {
	for level := uint64(0); level < 4; level++ {
		width := uint8(size >> (8 * level))
		if width == 0 {
			continue
		}
		tile := r.fetch("/audit/"+layout.TilePath(level, size>>(8*level)>>8, width), 200)
		demand(len(tile) == 32*int(width), "a partial tile of %d bytes", len(tile))
	}
	if width := uint8(size); width > 0 {
		bundle := api.EntryBundle{}
		must(bundle.UnmarshalText(r.fetch("/audit/"+layout.EntriesPath(size>>8, width), 200)))
		demand(len(bundle.Entries) == int(width), "a bundle of %d entries", len(bundle.Entries))
	}
}

// A log of an older size for fsck, which reads the newest checkpoint otherwise. All tiles come from the server.
type frozen struct {
	*client.HTTPFetcher
	raw []byte
}

func (f frozen) ReadCheckpoint(context.Context) ([]byte, error) { return f.raw, nil }

func hashes(raw []byte) ([][]byte, error) {
	bundle, found := api.EntryBundle{}, [][]byte{}
	if err := bundle.UnmarshalText(raw); err != nil {
		return nil, err
	}
	for _, entry := range bundle.Entries {
		found = append(found, rfc6962.DefaultHasher.HashLeaf(entry))
	}
	return found, nil
}

func (r *registry) fsck(size uint64) error {
	root, err := url.Parse(r.base + "/audit/")
	must(err)
	fetcher, err := client.NewHTTPFetcher(root, r.http)
	must(err)
	fetcher.SetAuthorizationHeader("Bearer " + r.token)
	body := r.fetch(fmt.Sprintf("/api/v1/audit/consistency?old=%d&size=%d", size, size), 200)
	older := frozen{fetcher, body[bytes.Index(body, []byte("\n\n"))+2:]}
	return fsck.New(r.origin, r.verifier, older, hashes, fsck.Opts{N: 2}).Check(context.Background())
}

func open(arguments []string) *registry {
	ca, err := os.ReadFile(arguments[1])
	must(err)
	pool := x509.NewCertPool()
	demand(pool.AppendCertsFromPEM(ca), "no certificate in %s", arguments[1])
	verifier, err := note.NewVerifier(arguments[2])
	must(err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return &registry{base: arguments[0], token: arguments[3], origin: verifier.Name(), http: &http.Client{Transport: transport}, verifier: verifier}
}

func main() {
	demand(len(os.Args) > 5, "usage: tlog URL CA-FILE VKEY TOKEN SIZE...")
	r := open(os.Args[1:])
	newest := r.open(r.fetch("/audit/checkpoint", 200))
	var smaller []*f_log.Checkpoint
	for _, word := range os.Args[5:] {
		size, err := strconv.ParseUint(word, 10, 64)
		must(err)
		checkpoint := r.published(size)
		r.checkTree(checkpoint, smaller)
		r.checkPartials(size)
		must(r.fsck(size))
		smaller = append(smaller, checkpoint)
		fmt.Printf("ok   %d entries: sumdb tlog and note, merkle, formats, fsck\n", size)
	}
	demand(newest.Size >= smaller[len(smaller)-1].Size, "the newest checkpoint is older than a published one")
	r.fetch("/audit/"+layout.TilePath(0, newest.Size>>8+1000, 0), 404)
	r.fetch("/audit/"+layout.TilePath(3, 0, 1), 404)
	var page struct {
		Checkpoints []struct {
			Size uint64
			Note string
		}
	}
	must(json.Unmarshal(r.fetch("/api/v1/audit/checkpoints?limit=1000", 200), &page))
	for _, row := range page.Checkpoints {
		if row.Size >= smaller[0].Size { // earlier ones may have an earlier key of the log
			r.open([]byte(row.Note))
		}
	}
	demand(len(page.Checkpoints) >= len(smaller), "a history of %d checkpoints", len(page.Checkpoints))
	fmt.Printf("ok   %d checkpoints of the history\n", len(page.Checkpoints))
}
