/*
 * documents/format/runner_key.h -- the key of a runner, and the pool and region for which it was enrolled (docs/formats/documents.md).
 *
 * A document of the kind runner. Its name is the thumbprint of the runner's key. Version 1 enrols the runner: it has the
 * signature of the runner's key, which proves that the runner has the private key, and those of two approvers (the person that
 * enrolled it, and a second person), or of the root. Version 2 withdraws the runner for ever, and states the time from which
 * its results do not count. The approvers sign pool, region, jurisdictions, devices and isolation; the runner's own claims
 * never count.
 */
#pragma once

#include "base/uuid.h"
#include "documents/format/document.h"

#define RUNNER_NAME_SIZE     64
#define RUNNER_APPROVERS     2 /* persons that sign an enrolment, if the root does not */
#define RUNNER_ASSURANCE_MAX 3 /* of an enrolled runner; 4 needs attestation by hardware */

struct runner_key {
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct uuid runner;
    char pool[RUNNER_NAME_SIZE], region[RUNNER_NAME_SIZE], isolation[RUNNER_NAME_SIZE];
    const json_t *jurisdictions; /* 1 to 16 texts; a view into the document */
    const json_t *nodes;         /* UIDs of a Kubernetes cluster's nodes, 1 to 32, likewise; NULL: the document names none */
    int64_t assurance, devices;  /* devices: the number that the runner has */
    int64_t since_ms;            /* of a withdrawal: results that were signed from then on do not count */
};
/** Reads the body of a document of this kind. ERROR_INVALID. */
RESULT runner_key_read(const struct document *document, struct runner_key *key_out, struct error *err);
