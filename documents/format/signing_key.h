/*
 * documents/format/signing_key.h -- the key with which a person signs, and its purpose (docs/documents.md).
 *
 * A document of the kind signing-key. Its name is the key's RFC 7638 thumbprint. Version 1 enrols the key and has two
 * signatures: one by the key itself, which proves that the holder has the private key, and one by an approver.
 * Version 2 withdraws the key for ever. A document may name another key of the same person (`replaces`), which signs it, too: then a person with power needs no
 * wait for its new key, and takes one back that waits (docs/documents.md).
 */
#pragma once

#include "documents/format/document.h"

/** The purpose of the key, which the approver confirms. */
enum signing_purpose {
    SIGNING_APPROVE, /* approves documents, as the root does; only the root approves such a key */
    SIGNING_SIGN     /* signs its holder's requests */
};
#define SIGNING_PURPOSES 2
bool signing_purpose_find(const char *name, enum signing_purpose *purpose_out);

#define SIGNING_PRINCIPAL_SIZE 80                      /* "robot:<uuid>", "ext:" and 64 hex digits (authz/role.h) */
#define SIGNING_KEY_DAYS_MAX   732                     /* two years */
#define SIGNING_KEY_WAIT_MS    ((int64_t)7 * 86400000) /* from the holder's signature to the approver's */

struct signing_key {
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char principal[SIGNING_PRINCIPAL_SIZE]; /* the key's owner */
    enum signing_purpose purpose;
    uint8_t replaces[ECDSA_PUBLIC_SIZE]; /* another key of this principal, which has signed, too; all zero: none has */
};
/** Whether the document names another key of its principal. Whether that is one of its keys, only sijil-keyd's register can say. */
bool signing_key_has_old(const struct signing_key *key);
/** Reads the body of a document of this kind. ERROR_INVALID. */
RESULT signing_key_read(const struct document *document, struct signing_key *key_out, struct error *err);
/**
 * Checks a draft before others are asked to approve it: a recent enrolment, signed with the key itself. ERROR_DENIED,
 * ERROR_INVALID.
 */
RESULT signing_key_check_holder(const struct document *document, int64_t now_ms, struct signing_key *key_out, struct error *err);
/** Whether the root, or an approver that is another person than the key's owner, has signed this document of a signing key. ERROR_INVALID,
 *  ERROR_NO_MEMORY. */
RESULT signing_key_is_approved(const struct document *document, const struct document_trust *trust, bool *is_approved_out,
                               struct error *err);
/** Whether this is an approver's key of this principal that counts now. */
bool signing_key_approves(const struct document_approver approvers[DOCUMENT_APPROVERS_MAX],
                          const uint8_t point[ECDSA_PUBLIC_SIZE], const char *principal, int64_t now_ms);
/** A body for document_compose(); NULL when out of memory. */
json_t *signing_key_body(const struct signing_key *key);
/** The name of the key's document. */
void signing_key_name(const struct signing_key *key, char name_out[ECDSA_THUMBPRINT_SIZE]);
/**
 * Updates `approvers` for the pinned `document`. ERROR_DENIED for a key that was revoked, ERROR_LIMIT if all slots are in
 * use. Does nothing for a key that does not approve.
 */
RESULT signing_key_note(const struct document *document, struct document_approver approvers[DOCUMENT_APPROVERS_MAX],
                        int64_t now_ms, struct error *err);
