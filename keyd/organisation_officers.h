/*
 * keyd/organisation_officers.h -- the security officers of organisations, as the documents of officers name them that keyd has pinned: they sign the restrictions of their
 * organisation (documents/format/restriction.h).
 *
 * The file `organisation-officers` in keyd's folder is a journal (journal/journal.h) under the ledger's key. A copy: "SJOO" | u8 1 | u64 generation | u64 epoch, digest[32] before,
 * u64 epoch, digest[32] now, of documents of officers | u32 count | for each: name[32] of the document in the register of keys, thumbprint[32] of its key, SHA-256[32] of the
 * principal, SHA-256[32] of the organisation's name, u64 end in ms, u8 persons that sign a restriction, 0: not stated | HMAC-SHA256[32]; zeros to the end of the block.
 *
 * Rule: nobody is an officer by a file that is missing, or older than the ledger: it begins anew, empty, and documents of officers count from their next version on.
 * Whether a document or a key was withdrawn, the register of keys says. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "documents/format/restriction.h"
#include "journal/journal.h"
#include "keyd/key_register.h"
#include "keyd/ledger.h"

#define ORGANISATION_OFFICERS_FILE "organisation-officers"
#define ORGANISATION_OFFICERS_MAX  1024

struct organisation_officers;

/** A folder without the file gets one. ERROR_CORRUPT: the file is damaged; ERROR_CONFLICT: another process has it open. */
RESULT organisation_officers_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                  struct organisation_officers **officers_out, struct error *err);

/** A document of officers that is about to be pinned. */
struct organisation_officers_note {
    const struct document *document;
    struct document_pin before, pin; /* of the kind */
    int64_t now_ms;
};
/** Durable on return. ERROR_UNAVAILABLE: the file can't be written. */
RESULT organisation_officers_note(struct organisation_officers *officers, const struct organisation_officers_note *note,
                                  struct error *err);

/** Who may sign for an organisation now, of those whose keys are among `points`. */
struct organisation_officers_query {
    struct key_register *keys;
    const char *organisation;
    struct bytes points; /* ECDSA_PUBLIC_SIZE bytes each */
    int64_t now_ms;
};
/** The number of persons is the highest that a document in force states, whether its key counts or not, at least 1. */
void organisation_officers_find(struct organisation_officers *officers, const struct organisation_officers_query *query,
                                struct restriction_officers *found_out);
/** Whether a write has failed. */
bool organisation_officers_are_broken(const struct organisation_officers *officers);
void organisation_officers_free(struct organisation_officers *officers);
DEFINE_OWNED(organisation_officers);
