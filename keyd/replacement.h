/*
 * keyd/replacement.h -- another key of a person whose key gives power: of an approver, or of somebody that a document of officers has named, or that has broken a glass (docs/keys.md,
 * "Replaced keys").
 *
 * Such a key is enrolled at once if a live key of the same person has signed its document, too. Else it waits: an event of the signed log names the document, and
 * REPLACEMENT_WAIT_MS later, by keyd's clock, the enrolment may be pinned. In that time the person's other key or an approver withdraws it, for ever.
 *
 * The file `replacements` in keyd's folder is a journal (journal/journal.h) under the ledger's key: the persons that documents of officers have named, the last two pins of these
 * documents, and the keys that wait. It is written before the ledger, and names that are missing from it are none: a key whose wait is lost waits anew. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "crypto/keyd_replacement.h"
#include "documents/format/document.h"
#include "documents/format/signing_key.h"
#include "journal/journal.h"
#include "keyd/key_register.h"
#include "keyd/ledger.h"

#define REPLACEMENT_FILE       "replacements"
#define REPLACEMENT_WAIT_MS    INT64_C(86400000)
#define REPLACEMENT_KEPT_MS    (8 * INT64_C(86400000)) /* an enrolment can't be pinned a week after its holder has signed */
#define REPLACEMENT_NAMED_MAX  1024                    /* persons: four times the documents of officers that a gateway takes */
#define REPLACEMENT_ADMINS_MAX 256 /* documents of administrators: as many as a gateway takes of all officers */
#define REPLACEMENT_LONG_DAYS  32  /* after the end of its document a person is forgotten, if its place is needed */

struct replacements;

RESULT replacements_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err);
/**
 * A folder without the file gets a new one. If documents of officers were pinned before, it does not know whom they name: from then on everybody counts as named.
 * ERROR_CORRUPT: the file is damaged, or does not belong to this ledger. ERROR_CONFLICT: another process has it open.
 */
RESULT replacements_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                         struct replacements **replacements_out, struct error *err);
void replacements_free(struct replacements *replacements);
DEFINE_OWNED(replacements);
/** Whether a write has failed. */
bool replacements_are_broken(const struct replacements *replacements);

/** Where an enrolment is looked at. */
struct replacement_place {
    struct replacements *replacements;
    struct ledger *ledger;
    struct key_register *keys;
};

/**
 * A document of officers, or of a broken glass, that is about to be pinned: its person counts as named from then on. Changes nothing yet. ERROR_LIMIT. ERROR_DENIED: it withdraws the last document in force of an
 * administrator whose key counts. So of two that withdraw each other's at the same moment, at whichever gateways, the second one is refused.
 */
struct replacement_naming {
    struct key_register *keys;
    const struct document *document;
    struct document_pin before, pin; /* of the kind */
    int64_t now_ms;
};
RESULT replacements_try(struct replacements *replacements, const struct replacement_naming *naming, struct error *err);
/** The same, when the register of keys has let it in; durable on return. */
RESULT replacements_name(struct replacements *replacements, const struct replacement_naming *naming, struct error *err);

/** What keyd asks of another key of this principal. */
void replacements_power(const struct replacement_place *place, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                        struct key_power *power_out);
/**
 * For an enrolment or a withdrawal of a signing key whose signatures were checked. *by_old_out: the person's other key has withdrawn a key that waits. ERROR_DENIED: the enrolment is of another
 * key than the person had, and neither has the other one signed, nor is its wait over; or `replaces` is no live key of this person.
 */
RESULT replacements_check(const struct replacement_place *place, const struct document *document, int64_t now_ms,
                          bool *by_old_out, struct error *err);
/** Begins the wait, durably; the same document again changes nothing. *counts_ms_out: when it is over. ERROR_CONFLICT: this enrolment needs no wait. ERROR_LIMIT. */
RESULT replacements_begin(const struct replacement_place *place, const struct document *document, int64_t now_ms,
                          int64_t *counts_ms_out, struct error *err);
/** The key is pinned or withdrawn: it waits no more. */
RESULT replacements_end(struct replacements *replacements, const char *thumbprint, struct error *err);

/** For a log that goes on under a new origin (keyd/recovery.h): no wait has an event any more that is certain to be in the log. */
RESULT replacements_set_back(struct replacements *replacements, const struct document_pin *before, const struct document_pin *pin,
                             struct error *err);
