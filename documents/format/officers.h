/*
 * documents/format/officers.h -- who is an administrator or a security officer (docs/identity.md, "Officers").
 *
 * A document of the kind officers, of the registry: its scope is "". It names one principal, an enrolled signing key of that principal, the role, and where. Its name begins with
 * the role and a dot, so no version changes the role. Two approvers of other principals sign it, or the root; one of them signs a withdrawal, whose body is empty.
 */
#pragma once

#include "documents/format/document.h"

#define OFFICERS_NAME_MAX       63
#define OFFICERS_DAYS_MAX       732
#define OFFICERS_PLACE_MAX      63
#define OFFICERS_PRINCIPAL_SIZE 80
#define OFFICERS_ADMINISTRATORS "registry-admin" /* the role whose first document ends that rows alone give these roles */

/** Views into the document, which must stay. */
struct officer {
    const char *principal; /* "ext:..." or "robot:..." as documents name it */
    const char *key;       /* RFC 7638 thumbprint */
    const char *role;
    const char *on;        /* "": the registry; else an organisation */
    unsigned restrictions; /* how many of its security officers sign a restriction of the organisation; 0: not stated */
};
/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID says what is wrong. */
RESULT officer_read(const struct document *document, struct officer *officer_out, struct error *err);
/** Whether the document, which may be a withdrawal, is about this role. */
bool officer_document_is_of(const struct document *document, const char *role);
/** A body for document_compose(); NULL when out of memory. */
json_t *officer_body(const struct officer *officer);
