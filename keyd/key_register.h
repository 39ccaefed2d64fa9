/*
 * keyd/key_register.h -- each enrolment of a key of a person or a runner, and each version of a trust rule, that keyd has pinned: its owner
 * and its event, and whether the key or the rule was withdrawn. And the highest version of each trust rule, sink, detection rule, legal hold, document of
 * persons, document of roles of groups, broken glass, role, officer and restriction.
 *
 * These hold for keys, in all scopes: a thumbprint belongs to the owner whose document was pinned first, as long as one of its documents has not ended, and
 * KEY_REGISTER_KEPT_DAYS longer; and a withdrawn key stays withdrawn for ever. When a share is full, entries that have ended go. keyd does not believe the gateway that these rules hold. The event names one document, so a document that keyd has
 * refused is never taken for one that it has pinned, even if both are of one key.
 *
 * Of what has versions, keyd pins none that is not higher than all before, in its scope: with an older one a gateway would bring back, without a signature, what
 * was withdrawn or replaced. Only what is withdrawn may be withdrawn again, with any version, which changes nothing. It does not know the version of what an earlier keyd has pinned; then any version is higher.
 *
 * The file `keys` in keyd's folder is a journal (journal/journal.h) under the ledger's key. Each entry is written before its document
 * is pinned in the ledger. So the register also keeps the last pin of each kind and the pin before, and key_register_open()
 * compares them with the ledger: if only one of the files is replaced by an older one, this is noticed. Thread-safe.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/ecdsa.h"
#include "documents/format/document.h"
#include "journal/journal.h"
#include "keyd/ledger.h"

#define KEY_REGISTER_FILE "keys"
#define KEY_REGISTER_MAX  16384 /* enrolments and versions of rules: 1.8 MiB in memory, twice, and twice 1.3 MiB on disk */
#define KEY_REGISTER_KEPT_DAYS \
    32 /* after the end of its document: what it asked for may live for 30 days, and be admitted a day later */

struct key_register;

/** For a new key ring: no key is known. */
RESULT key_register_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err);
/**
 * A folder without the file gets a new one, if `ledger` has pinned nothing of these kinds yet but trust rules; these then ask for no run. ERROR_CORRUPT: the file is missing, damaged, or
 * does not belong to this ledger. ERROR_CONFLICT: another process has it open.
 */
RESULT key_register_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                         struct key_register **keys_out, struct error *err);

/** Whether the register keeps documents of this kind. */
bool key_register_has_kind(enum document_kind kind);
/** The owner of a document that has versions: its kind, scope and name. It is the name of its entry, too, as a thumbprint is that of a key. */
void key_register_owner(const struct document *document, uint8_t owner_out[DOCUMENT_DIGEST_SIZE]);
/** A checked document that is about to be pinned. */
struct key_register_note {
    const struct document *document;
    uint64_t sequence;               /* of its event */
    int64_t now_ms;                  /* by keyd's clock */
    bool is_approved;                /* the root or an approver has signed it: only then it may withdraw a key without an entry */
    struct document_pin before, pin; /* of its kind */
};
/**
 * Durable on return. The same document again changes nothing. ERROR_DENIED: the key belongs to another owner, or was withdrawn; the version is not higher than one that was pinned;
 * or the document withdraws a key that has no entry, and is_approved is false. Otherwise anybody could fill the register with
 * keys that nobody enrolled. ERROR_LIMIT: the share of its organisation is taken, or the register is full. ERROR_UNAVAILABLE: the file can't be written.
 */
RESULT key_register_note(struct key_register *keys, const struct key_register_note *note, struct error *err);
/** ERROR_DENIED: keyd has not pinned this document as the event `sequence`. The key or the rule may have been withdrawn since. */
RESULT key_register_check_enrolment(struct key_register *keys, const struct document *document, uint64_t sequence,
                                    struct error *err);
/** ERROR_DENIED: this is not the newest version of the trust rule, or the rule was withdrawn. */
RESULT key_register_check_newest(struct key_register *keys, const struct document *rule, uint64_t sequence, struct error *err);
/** ERROR_DENIED: the key with this thumbprint was withdrawn in a scope, or was never pinned. */
RESULT key_register_check(struct key_register *keys, const char *thumbprint, struct error *err);

/** Whose a key should be. */
struct key_register_holder {
    const char *thumbprint; /* NULL: has it had any? One that was withdrawn or has ended counts, too */
    const uint8_t *owner;   /* SHA-256 of the principal */
    int64_t now_ms;
};
/** ERROR_DENIED: the key was withdrawn, or no pinned enrolment that has not ended gives it to this owner. */
RESULT key_register_check_holder(struct key_register *keys, const struct key_register_holder *holder, struct error *err);

/**
 * For a log that goes on under a new origin (keyd/recovery.h). What is withdrawn stays so. Other enrolments by events that are lost go: their documents are not in
 * the log any more, and other events have these numbers. Versions before a lost one are still too low. Durable on return.
 */
struct key_register_past {
    const struct document_pin *before,
        *pins;     /* DOCUMENT_KINDS_MAX of each: of the log that ends, and what is in force from now on */
    uint64_t size; /* events from this number on are lost */
};
RESULT key_register_set_back(struct key_register *keys, const struct key_register_past *past, struct error *err);

/** Whether a write has failed: then every new entry is refused. */
bool key_register_is_broken(const struct key_register *keys);
void key_register_free(struct key_register *keys);
DEFINE_OWNED(key_register);
