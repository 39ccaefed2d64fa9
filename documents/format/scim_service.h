/*
 * documents/format/scim_service.h -- the one issuer whose persons and groups a program provisions by SCIM (docs/scim.md).
 *
 * A document of the kind scim-service, of the registry: its scope is "". Each version replaces the one before; a withdrawal is a higher version with an
 * empty body. Two approvers of different principals sign it, or the root; one of them signs a withdrawal.
 */
#pragma once

#include "documents/format/claim_match.h"
#include "documents/format/document.h"

#define SCIM_SERVICE_NAME_MAX  63
#define SCIM_SERVICE_DAYS_MAX  366
#define SCIM_ENDS_MAX          10000 /* persons that may be deactivated within an hour */
#define SCIM_SERVICE_CLAIM_SUB "/sub"

/** Views into the document, which must stay. */
struct scim_service {
    const char *issuer; /* exactly `iss` */
    const char *claim;  /* JSON Pointer of the claim that is equal to a person's externalId, and that the issuer never changes */
    const char *client; /* the robot that provisions, as documents name principals: "robot:ID" */
    bool admits_others; /* persons of the issuer that were never provisioned may log in, too */
    int64_t ends_in_hour; /* deactivations within an hour; then it takes a new version */
};

/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID says what is wrong. */
RESULT scim_service_read(const struct document *document, struct scim_service *service_out, struct error *err);
