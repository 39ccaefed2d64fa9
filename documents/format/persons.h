/*
 * documents/format/persons.h -- from which issuer the persons of an organisation come, and which subjects of other issuers are separate persons
 * (docs/identity.md, "Persons").
 *
 * A document of the kind persons, of the registry: its scope is "". Its name is the organisation's, or PERSONS_REGISTRY: then it is for the registry itself, and for
 * organisations without a document of their own. Each version replaces the one before; a withdrawal is a higher version with an empty body. Two approvers of
 * different principals sign it, or the root; one of them signs a withdrawal.
 */
#pragma once

#include "documents/format/document.h"

#define PERSONS_REGISTRY     "_registry" /* no organisation has this name */
#define PERSONS_NAME_MAX     63
#define PERSONS_DAYS_MAX     732
#define PERSONS_BYTES_MAX    ((size_t)16 * 1024)
#define PERSONS_SEPARATE_MAX 128
#define PERSONS_SEPARATE_KEY \
    68 /* "ext:" and the SHA-256 of issuer, line feed and subject, in hex: documents are kept for ever, so they name nobody */

#define PERSONS_LIFETIME_MIN \
    60 /* seconds that tokens may be asked to live at most; a shorter life is none for a client of a registry */
#define PERSONS_LIFETIME_MAX 900

/** What the tokens must be that are used in the organisation; all false and 0: nothing is demanded. */
struct token_demand {
    bool any;              /* bound to the client's key or to its certificate */
    bool key, certificate; /* bound to this one */
    bool signed_acts;      /* audit/format/acts.def: each such request is signed with the enrolled key of the person that asks */
    unsigned lifetime_max_s; /* 0: as long as the registry's tokens live */
};

/** Views into the document, which must stay. */
struct persons_rule {
    const char *issuer; /* exactly `iss` */
    struct token_demand tokens;
    size_t separate_count;
    const char *separate[PERSONS_SEPARATE_MAX];
};

/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID says what is wrong. */
RESULT persons_rule_read(const struct document *document, struct persons_rule *rule_out, struct error *err);
