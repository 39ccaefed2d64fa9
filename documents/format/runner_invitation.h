/*
 * documents/format/runner_invitation.h -- an invitation: the place for which a runner may be enrolled, signed by the person that enrolls it
 * (docs/formats/documents.md, "Invitations").
 *
 * It is no document and brings nothing into force. With the key of the runner, all of the runner's document follows from it, so the runner itself
 * chooses nothing but its key.
 */
#pragma once

#include "documents/format/runner_key.h"

#define RUNNER_INVITATION_TYPE  "application/vnd.sijil.runner-invitation.v1+json"
#define RUNNER_INVITATION_MAX   ((size_t)16 * 1024) /* bytes of an envelope */
#define RUNNER_INVITATION_HOURS 24                  /* it is valid for at most so long */
#define RUNNER_AUDIENCE_SIZE    128                 /* docs/formats/run.md */

struct runner_invitation {
    struct dsse *dsse;
    json_t *json;
    char audience[RUNNER_AUDIENCE_SIZE]; /* origin of the registry's log */
    char scope[DOCUMENT_SCOPE_SIZE];     /* "": the registry; "acme": an organisation */
    struct uuid runner;
    int64_t issued_ms, expires_ms; /* its own life; the runner's document begins when it was issued */
    int64_t runner_expires_ms;     /* end of the runner's document */
};

struct runner_invitation_parts {
    const char *audience, *scope, *pool, *region, *isolation;
    struct uuid runner;
    const json_t *jurisdictions; /* texts */
    const json_t *nodes;         /* likewise: UIDs of a Kubernetes cluster's nodes; NULL: none are named */
    const json_t *attestation;   /* as in the body of the runner's document; NULL: it is not attested */
    int64_t devices, assurance;
    int64_t issued_ms, expires_ms, runner_expires_ms;
};
/** Appends an envelope with this key's signature. ERROR_INVALID names the member that no runner's document may have so. */
RESULT runner_invitation_write(const struct runner_invitation_parts *parts, const struct ecdsa_key *key, struct buffer *envelope,
                               struct error *err);

/** Reads an envelope. Verifies no signature. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT runner_invitation_read(struct bytes envelope, struct runner_invitation **invitation_out, struct error *err);
/** The key that signed it: the root's, or that of an approver that counts. ERROR_DENIED, ERROR_NO_MEMORY. */
RESULT runner_invitation_signer(const struct runner_invitation *invitation, const struct document_trust *trust,
                                uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err);
/** Appends the payload of the document that enrolls this key. */
RESULT runner_invitation_document(const struct runner_invitation *invitation, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                  struct buffer *payload, struct error *err);

void runner_invitation_free(struct runner_invitation *invitation);
DEFINE_OWNED(runner_invitation);
