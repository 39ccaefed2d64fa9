/*
 * keyd/ledger.h -- the state that keyd keeps outside the database: the last signed size and root of the log, the pinned
 * approver, the pin of each kind of signed documents, and the chain over all unwraps (docs/formats/audit-log.md section 15).
 *
 * ledger_change() returns only when the new state is durable; it is called before a signature is released. The file
 * `ledger` in keyd's folder is a journal (journal/journal.h) under a key of the key ring. After a failed write sijil-keyd
 * ends, and the service manager starts it again.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "documents/format/document.h"
#include "journal/journal.h"

#define LEDGER_FILE      "ledger"
#define LEDGER_COPY_SIZE 4096 /* one block of the disk for each copy */
#define LEDGER_KEY_SIZE  JOURNAL_KEY_SIZE

struct ledger_state {
    uint64_t log_size; /* of this log */
    uint8_t log_root[32];
    uint8_t approver[ECDSA_PUBLIC_SIZE]; /* all zero before it is pinned */
    uint64_t unwrap_count;
    uint8_t unwrap_chain[32];
    uint64_t mints[MINT_SCOPES], mints_lost;
    uint64_t mints_reserved;            /* a total: after this many tokens the ledger must be written again */
    struct minter minters[MINTERS_MAX]; /* of tokens for /api/v1; an unused one has a count of 0 */
    char finding[KEYD_FINDING_MAX +
                 1]; /* the report of a gateway that the log was changed; while there is one, no checkpoint is signed; "": none */
    struct document_pin pins[DOCUMENT_KINDS_MAX]; /* of the kind with the number i + 1; the first kind is the policy set */
    uint64_t asked[DOCUMENT_KINDS_MAX]; /* the highest event that keyd pinned or refused, of each kind but the policy set */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX];
    uint64_t witness_epoch;                       /* of the pinned policy of witnesses; 0: it is of the first configuration */
    uint8_t witness_digest[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of its text; all zero: none is pinned */
    uint8_t
        log_first_key; /* the place in the key ring of the first key of this log: the one that signed when the recovery began it */
    uint32_t log_number;     /* which of the registry's logs it is, from 1: each recovery begins the next one (keyd/recovery.h) */
    struct root_terms terms; /* how many persons must sign; all zero: the root's key alone */
    uint32_t unused_below;   /* lower versions of key-encryption keys are reported unused, and not asked for since; 0: none */
};

struct ledger;

/** Writes the initial state (empty log) into the folder `directory`, durably. */
RESULT ledger_create(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err);
/**
 * ERROR_CONFLICT if another process has it open. ERROR_CORRUPT if there is no file, or neither copy is valid: then only a
 * backup of the newest state helps. A damaged second copy is repaired.
 */
RESULT ledger_open(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct ledger **ledger_out, struct error *err);
void ledger_read(struct ledger *ledger, struct ledger_state *state_out);
/** Whether a root of approvers is pinned, and a policy of witnesses. */
bool ledger_has_approver(const struct ledger_state *state);
bool ledger_has_witnesses(const struct ledger_state *state);
/** Which of the registry's logs it is. */
uint32_t ledger_number(struct ledger *ledger);

/**
 * `change` checks and alters a copy of the state. If it succeeds, the copy becomes durable, then current. One change at a
 * time. Its changes to the counters of unwraps and tokens are ignored. ERROR_UNAVAILABLE if the file can't be written.
 */
RESULT ledger_change(struct ledger *ledger, RESULT (*change)(const void *context, struct ledger_state *state, struct error *err),
                     const void *context, struct error *err);

/** Counts an unwrap: count + 1, chain = SHA-256(chain || record). Durable with the next change or ledger_flush(). */
void ledger_count_unwrap(struct ledger *ledger, struct bytes record);
/**
 * Counts a token before it is signed. The ledger reserves MINTS_RESERVED tokens at a time, so the count on disk is never too
 * low. After a crash up to MINTS_RESERVED tokens may be counted that were never signed; they are counted as lost.
 */
RESULT ledger_count_mint(struct ledger *ledger, enum mint_scope scope, const uint8_t credential[MINTER_ID_SIZE],
                         struct error *err);
#define MINTS_RESERVED 1024
/** At the end: makes everything durable, with nothing reserved. Nothing may be counted after it. */
RESULT ledger_settle(struct ledger *ledger, struct error *err);

/** Makes the unwraps counted so far durable. Call it before their number is reported, and at the end. */
RESULT ledger_flush(struct ledger *ledger, struct error *err);

/** Whether a write has failed: then every change is refused. */
bool ledger_is_broken(const struct ledger *ledger);

void ledger_free(struct ledger *ledger);
DEFINE_OWNED(ledger);
