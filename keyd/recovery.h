/*
 * keyd/recovery.h -- lets the log go on under a new origin, when two officers have signed that (audit/format/succession.h).
 *
 * The statement names the size and the root that this keyd has signed last, so it counts once, and for this log alone. There is no other way to have a
 * shorter log signed. From then on the log has the size and the root that the officers have signed, and continues from there.
 */
#pragma once

#include "keyd/checkpoint.h"
#include "keyd/key_register.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/replacement.h"

struct recovery_place {
    struct checkpoint_signer signer;
    struct key_register *keys;
    struct replacements *replacements;
    bool one_officer; /* a registry on one machine: the root alone may sign a statement that says so (sijil-keyd --one-officer) */
};
/**
 * Durable on return. The statement names the key that signs the log from now on. The same statement again is no error, until the new log has grown. ERROR_DENIED: fewer than two persons have signed whose keys count, the
 * quorum of the pinned witnesses has not cosigned the checkpoint, or the statement is about another log. ERROR_CONFLICT: keyd has signed more since, another key signs now, or the log is a later one already.
 */
RESULT recovery_take(const struct recovery_place *place, const struct keyd_recovery *request, int64_t now_ms, struct error *err);

/** Appends the newest checkpoint again, whatever the database has now: for a statement about it. */
RESULT recovery_last_checkpoint(const struct checkpoint_signer *signer, int64_t now_ms, struct buffer *note, struct error *err);
