/*
 * keyd/ledger.h -- what keyd has promised, kept outside the database: the last signed size and root of the log, the
 * pinned approver, of each kind of signed documents what is in force, and the chain over all unwraps (docs/formats/audit-log.md section 15).
 *
 * ledger_change() returns only when the new state is durable: whoever releases a signature calls it first. The file
 * `ledger` in keyd's folder holds two copies; each change is written to one, fsynced, then to the other and fsynced,
 * so a crash at any moment, or one damaged copy, leaves a valid one that no released signature is ahead of. Copies
 * carry an HMAC under a key of the key ring. After a write that failed nothing more is promised: what the disk holds is
 * not known, and only who reads it anew knows. So keyd then ends, and whoever keeps it running starts it again.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "documents/format/document.h"

#define LEDGER_FILE      "ledger"
#define LEDGER_COPY_SIZE 4096 /* one block of the disk each */
#define LEDGER_KEY_SIZE  32

struct ledger_state {
    uint64_t log_size;
    uint8_t log_root[32];
    uint8_t approver[ECDSA_PUBLIC_SIZE]; /* all zero before it is pinned */
    uint64_t unwrap_count;
    uint8_t unwrap_chain[32];
    uint64_t mints[MINT_SCOPES], mints_lost;
    uint64_t mints_reserved; /* in all: so many may be signed before the ledger is written again */
    struct minter minters[MINTERS_MAX]; /* of tokens for /api/v1; the unused ones have a count of 0 */
    char finding[KEYD_FINDING_MAX + 1]; /* of a gateway, against the log: nothing of it is signed then; "": none */
    struct document_pin pins[DOCUMENT_KINDS_MAX]; /* of the kind with the number i + 1; the first is the policy set's */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX];
    uint32_t unused_below; /* versions of key-encryption keys below it: told to be unused, and not asked for since */
};

struct ledger;

/** Writes the first state (empty log) into the folder `directory`, durably. */
RESULT ledger_create(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err);
/**
 * ERROR_CONFLICT if another process has it open; ERROR_CORRUPT if neither copy is valid or there is no file: then
 * only a backup that is not older helps. A damaged second copy is mended.
 */
RESULT ledger_open(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct ledger **ledger_out,
                   struct error *err);
void ledger_read(struct ledger *ledger, struct ledger_state *state_out);

/**
 * `change` judges and alters a copy of the state; if it succeeds, the copy becomes durable, then current. One at a
 * time. Whatever it does to the fields of unwraps and mints is ignored. ERROR_UNAVAILABLE when the file can't be written.
 */
RESULT ledger_change(struct ledger *ledger,
                     RESULT (*change)(const void *context, struct ledger_state *state, struct error *err),
                     const void *context, struct error *err);

/** One more unwrap: count + 1, chain = SHA-256(chain || record). Durable with the next change or ledger_flush(). */
void ledger_count_unwrap(struct ledger *ledger, struct bytes record);
/**
 * One more token, before it is signed. The ledger on disk is never behind: it reserves MINTS_RESERVED at a time, so a
 * crash leaves up to so many that may not have been signed, which are counted as lost.
 */
RESULT ledger_count_mint(struct ledger *ledger, enum mint_scope scope, const uint8_t credential[MINTER_ID_SIZE],
                         struct error *err);
#define MINTS_RESERVED 1024
/** At the end: everything is durable as it is, and nothing is reserved. Nothing may be counted after it. */
RESULT ledger_settle(struct ledger *ledger, struct error *err);

/** Makes the unwraps counted so far durable: before they are told to anyone, and at the end. */
RESULT ledger_flush(struct ledger *ledger, struct error *err);

/** A write failed: every change is refused from now on. */
bool ledger_is_broken(const struct ledger *ledger);

void ledger_free(struct ledger *ledger);
DEFINE_OWNED(ledger);
