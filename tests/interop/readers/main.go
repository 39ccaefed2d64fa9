// What a client that is written in Go reads in a manifest: the digests of its config, layers and manifests, its subject and
// its platforms, by encoding/json, with the structs that image-spec has. One document a line, base64, from standard input; one
// JSON array of texts a line to standard output, or null for what Go does not take.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
)

type platform struct {
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	OSVersion    string   `json:"os.version,omitempty"`
	OSFeatures   []string `json:"os.features,omitempty"`
	Variant      string   `json:"variant,omitempty"`
}

type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	URLs         []string          `json:"urls,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Data         []byte            `json:"data,omitempty"`
	Platform     *platform         `json:"platform,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        *descriptor       `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Manifests     []descriptor      `json:"manifests"`
	Subject       *descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

func said(document []byte) []string {
	var read manifest
	if json.Unmarshal(document, &read) != nil {
		return nil
	}
	found := []string{fmt.Sprint(read.SchemaVersion), read.MediaType, read.ArtifactType}
	all := append(append([]descriptor{}, read.Layers...), read.Manifests...)
	for _, single := range []*descriptor{read.Config, read.Subject} {
		if single != nil {
			all = append(all, *single)
		}
	}
	for _, one := range all {
		found = append(found, one.MediaType, one.Digest, fmt.Sprint(one.Size), fmt.Sprint(len(one.URLs)))
		if one.Platform != nil {
			found = append(found, one.Platform.Architecture, one.Platform.OS, one.Platform.OSVersion, one.Platform.Variant)
		}
	}
	return found
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		document, err := base64.StdEncoding.DecodeString(lines.Text())
		if err != nil {
			panic(err)
		}
		answer, _ := json.Marshal(said(document))
		fmt.Println(string(answer))
	}
}
