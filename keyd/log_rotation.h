/*
 * keyd/log_rotation.h -- which keys of the log sign, and from which size on each counts (docs/keys.md, "A new key of the log").
 *
 * The root of approvers orders that the newest key of the key ring follows the one that counts now. From then on the new key signs each
 * checkpoint. The old one signs, too, until the overlap is over. Both sign a handover: the state of the log at which the new key follows.
 *
 * Rule: a checkpoint is signed while log_rotation_hold() is held, so none is made by the old key alone after the handover. The file
 * `log-keys` in keyd's folder is a journal (journal/journal.h) under the ledger's key. Thread-safe.
 */
#pragma once

#include "audit/format/log_keys.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"

#define LOG_ROTATION_FILE "log-keys"

struct log_rotation;

/** For a key ring whose first key alone counts. */
RESULT log_rotation_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err);
/** `keyring` must outlive it. A key ring with one key of the log gets a new file if there is none. ERROR_CORRUPT: the file is missing, is damaged, or
 *  knows more keys than the key ring. ERROR_CONFLICT: another process has it open. */
RESULT log_rotation_open(int directory, const struct keyring *keyring, struct log_rotation **rotation_out, struct error *err);
/** Which log of the registry it is, is in the ledger (keyd/recovery.h); borrowed. Without one it is the first log. ERROR_CORRUPT: that log begins with a later
 *  key than the file knows, or the file knows a later log: one of both is an older copy. */
RESULT log_rotation_use(struct log_rotation *rotation, struct ledger *ledger, struct error *err);
/** The name of the registry. */
const char *log_rotation_registry(const struct log_rotation *rotation);
/** The place in the key ring of the key that counts now. Call it while it is held. */
uint8_t log_rotation_newest(const struct log_rotation *rotation);
void log_rotation_free(struct log_rotation *rotation);
DEFINE_OWNED(log_rotation);

/** All keys that count or have counted. */
void log_rotation_keys(struct log_rotation *rotation, struct log_keys *keys_out);
/** Appends the first key and the handovers, as log_keys_read() takes them. */
RESULT log_rotation_text(struct log_rotation *rotation, struct buffer *text, struct error *err);
struct log_rotation_state {
    bool has_next;
    struct note_key next; /* in the key ring, and not used yet */
    int64_t retires_s;    /* when the key before the newest one stops to sign; 0: there was none */
};
void log_rotation_state(struct log_rotation *rotation, struct log_rotation_state *state_out);

/** Does what the root has ordered, durably. The same order again changes nothing. ERROR_DENIED: not the root has signed, or it names other keys.
 *  ERROR_CONFLICT: the last overlap is not over. */
RESULT log_rotation_follow(struct log_rotation *rotation, struct ledger *ledger, struct bytes envelope, int64_t now_ms,
                           struct error *err);

void log_rotation_hold(struct log_rotation *rotation);
void log_rotation_release(struct log_rotation *rotation);
/** Appends the checkpoint of this text with the signatures that count for its size and at this time. Call it while it is held. */
RESULT log_rotation_sign(struct log_rotation *rotation, struct bytes text, uint64_t size, int64_t now_ms, struct buffer *note,
                         struct error *err);

/** Whether a write has failed: then nothing is changed any more. */
bool log_rotation_is_broken(const struct log_rotation *rotation);
