/*
 * documents/format/signing_key.h -- the key with which a person signs, and what it may sign (docs/documents.md).
 *
 * A document of the kind signing-key: its name is the key's RFC 7638 thumbprint. Version 1 enrols the key and carries two signatures:
 * of the key itself, which shows that its holder has it, and of an approver. Version 2 withdraws it, for good.
 */
#pragma once

#include "documents/format/document.h"

/** What the approver says that the key is for. */
enum signing_purpose {
    SIGNING_APPROVE, /* approves documents, as the root does; only the root approves such a key */
    SIGNING_SIGN     /* signs what its holder asks for */
};
#define SIGNING_PURPOSES 2
const char *signing_purpose_name(enum signing_purpose purpose);
bool signing_purpose_find(const char *name, enum signing_purpose *purpose_out);

#define SIGNING_PRINCIPAL_SIZE 80 /* "robot:<uuid>", "ext:" and 64 hex digits (authz/role.h) */
#define SIGNING_KEY_DAYS_MAX   732 /* two years */
#define SIGNING_KEY_WAIT_MS    ((int64_t)7 * 86400000) /* from the holder's signature to the approver's */

struct signing_key {
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char principal[SIGNING_PRINCIPAL_SIZE]; /* whose it is */
    enum signing_purpose purpose;
};
/** The body of a document of this kind. ERROR_INVALID. */
RESULT signing_key_read(const struct document *document, struct signing_key *key_out, struct error *err);
/** A body for document_compose(); NULL: no memory. */
json_t *signing_key_body(const struct signing_key *key);
/** The name of its document. */
void signing_key_name(const struct signing_key *key, char name_out[ECDSA_THUMBPRINT_SIZE]);
/**
 * Keeps `approvers` as they must be once `document` is pinned. ERROR_DENIED for a key that was revoked, ERROR_LIMIT when all places
 * are taken. Does nothing for keys that do not approve.
 */
RESULT signing_key_note(const struct document *document, struct document_approver approvers[DOCUMENT_APPROVERS_MAX], int64_t now_ms,
                        struct error *err);
