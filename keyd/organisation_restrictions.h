/*
 * keyd/organisation_restrictions.h -- which restrictions of organisations are in force (documents/format/restriction.h), so that a run is decided with them although nobody believes
 * the gateway that there are no others.
 *
 * The file `organisation-restrictions` in keyd's folder is a journal (journal/journal.h) under the ledger's key. A copy: "SJOR" | u8 1 | u64 generation | u64 epoch, digest[32] before,
 * u64 epoch, digest[32] now, of restrictions | u32 count | for each: name[32] of the document in the register of keys, SHA-256[32] of the organisation's name, digest[32] of the document |
 * HMAC-SHA256[32]; zeros to the end of the block.
 *
 * Rule: a file that is missing, or older than the ledger, begins anew: restrictions count here from their next version on. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "documents/format/document.h"
#include "journal/journal.h"
#include "keyd/ledger.h"

#define ORGANISATION_RESTRICTIONS_FILE "organisation-restrictions"
#define ORGANISATION_RESTRICTIONS_MAX  2048 /* as many as 512 organisations may have */

struct organisation_restrictions;

/** A folder without the file gets one. ERROR_CORRUPT: the file is damaged; ERROR_CONFLICT: another process has it open. */
RESULT organisation_restrictions_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                      struct organisation_restrictions **restrictions_out, struct error *err);

/** A version of a restriction, or its end, that is about to be pinned. */
struct organisation_restrictions_note {
    const struct document *document;
    struct document_pin before, pin; /* of the kind */
};
/** Durable on return. ERROR_LIMIT: there are too many; ERROR_UNAVAILABLE: the file can't be written. */
RESULT organisation_restrictions_note(struct organisation_restrictions *restrictions,
                                      const struct organisation_restrictions_note *note, struct error *err);
/** The digests of those in force in an organisation, at most `most`. The number of all of them. */
size_t organisation_restrictions_find(struct organisation_restrictions *restrictions, const char *organisation,
                                      uint8_t (*digests)[DOCUMENT_DIGEST_SIZE], size_t most);
/** Whether a write has failed. */
bool organisation_restrictions_are_broken(const struct organisation_restrictions *restrictions);
void organisation_restrictions_free(struct organisation_restrictions *restrictions);
DEFINE_OWNED(organisation_restrictions);
