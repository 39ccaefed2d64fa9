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

#include "base/network.h"
#include "base/uuid.h"
#include "documents/format/document.h"

#define RUNNER_NAME_SIZE          64
#define RUNNER_APPROVERS          2 /* persons that sign an enrolment, if the root does not; of an attested runner in any case */
#define RUNNER_ASSURANCE_MAX      3 /* of an enrolled runner */
#define RUNNER_ASSURANCE_ATTESTED 4 /* only with an attestation, and no attestation without it */
#define RUNNER_ATTESTED_MARK      "attested:"
#define RUNNER_PLACE_SIZE         (RUNNER_NAME_SIZE + sizeof RUNNER_ATTESTED_MARK)
#define RUNNER_NETWORKS_MAX       8  /* of an attestation: one machine has few addresses */
#define RUNNER_NETWORK_IPV4_BITS  16 /* at least: no network is wider than that of a site */
#define RUNNER_NETWORK_IPV6_BITS  48

struct runner_key {
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct uuid runner;
    char pool[RUNNER_NAME_SIZE], region[RUNNER_NAME_SIZE], isolation[RUNNER_NAME_SIZE];
    const json_t *jurisdictions; /* 1 to 16 texts; a view into the document */
    const json_t *nodes;         /* UIDs of a Kubernetes cluster's nodes, 1 to 32, likewise; NULL: the document names none */
    const json_t *attestation;   /* of an attested runner: {"by", "evidence", "networks"}, likewise; NULL: it is none */
    struct networks networks;    /* those of the attestation: what comes from elsewhere is not attested */
    int64_t assurance, devices;  /* devices: the number that the runner has */
    int64_t since_ms;            /* of a withdrawal: results that were signed from then on do not count */
};
/** Reads the body of a document of this kind. ERROR_INVALID. */
RESULT runner_key_read(const struct document *document, struct runner_key *key_out, struct error *err);
/**
 * Where the runner is, as policies are asked about it: its region, and for an attested runner "attested:REGION" (policy/set.h). The record alone is asked:
 * a caller with a connection of the runner looks at its networks, too.
 */
void runner_key_place(const struct runner_key *key, char place_out[RUNNER_PLACE_SIZE]);
