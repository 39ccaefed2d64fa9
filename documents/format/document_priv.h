/*
 * documents/format/document_priv.h -- the functions that documents/format/kinds.def names: a head and a checker for each
 * kind.
 */
#pragma once

#include "documents/format/document.h"

/** Sets scope, name, version, times and digest from document->json. ERROR_INVALID. */
typedef struct result document_head(struct document *document, struct error *err);
/** The part of document_check() that is special to a kind. */
typedef struct result document_checker(const struct document *document, const struct document_trust *trust, struct error *err);

#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) \
    document_head head;                                                                                  \
    document_checker check;
#include "documents/format/kinds.def"
#undef KIND

/** Reads a payload, which must be canonical JSON of at most `maximum` bytes. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT document_read_canonical(struct bytes payload, size_t maximum, json_t **json_out, struct error *err);
/** json_unpack() of an object that has the members of `format` and no others. ERROR_INVALID, ERROR_NO_MEMORY. */
RESULT document_unpack(const json_t *json, const char *what, struct error *err, const char *format, ...);

/** Keys whose approval does not count: the key itself, and other keys of the same principal. */
struct document_own {
    const uint8_t *point, *principal;
};
/** The number of persons that have signed with an approver's key which has not expired and was not revoked. */
RESULT document_count_approvers(const struct document *document, const struct document_trust *trust,
                                const struct document_own *but, unsigned *count_out, struct error *err);
/** The same, and the root's key counts as its holder. */
RESULT document_count_persons(const struct document *document, const struct document_trust *trust, const struct document_own *but,
                              unsigned *count_out, struct error *err);
/** For a kind that expires: whether the document is in force now. ERROR_DENIED. */
RESULT document_check_time(const struct document *document, int64_t now_ms, struct error *err);
/** For a withdrawal that says nothing but its reason. `what`: "a trust rule". ERROR_INVALID. */
RESULT document_check_empty(const struct document *document, const char *what, struct error *err);
/** For a kind that several approvers sign, or the root alone: the document is in force now, and enough persons have signed. ERROR_DENIED. */
RESULT document_check_persons(const struct document *document, const struct document_trust *trust, const char *what,
                              struct error *err);
/** For a kind whose version 1 enrols a key, and whose version 2 withdraws it for good. ERROR_INVALID. */
RESULT document_check_life(const struct document *document, struct error *err);
/** The member `issuer` of a body: the URL of an issuer, as its tokens have it. ERROR_INVALID. */
RESULT document_check_issuer(const char *issuer, struct error *err);
/** A key of P-256 in base64url. ERROR_INVALID. */
RESULT document_read_key(const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err);
/** A key of P-256 in base64url, whose thumbprint must be the document's name. ERROR_INVALID. */
RESULT document_read_point(const struct document *document, const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE],
                           struct error *err);
