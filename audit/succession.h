/*
 * audit/succession.h -- what is left of a log in a database that lost entries, and the log that goes on under a new origin (docs/recovery.md).
 *
 * For the program of the recovery (embedded/recovery.h). Nothing here decides that a log may go on: sijil-keyd does (keyd/recovery.h).
 */
#pragma once

#include "audit/format/log_keys.h"
#include "audit/format/succession.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

extern const struct pg_table audit_succession_table;       /* for gateways */
extern const struct pg_table audit_succession_owner_table; /* for the owner of the database */

/** The log in the database: its name, and the number of the first entry that it has under this name. */
struct audit_log_name {
    char name[CHECKPOINT_ORIGIN_MAX + 1];
    uint64_t begins;
};
RESULT audit_log_name(struct pg *pg, struct audit_log_name *name_out, struct error *err);

/** What of the log is left. */
struct audit_remains {
    struct audit_log_name log;
    uint64_t size;
    struct merkle_hash root;
    uint64_t
        proven; /* so many of its first entries are those of a checkpoint that the log key has signed, and which is in the database */
    bool has_all; /* it continues what sijil-keyd has signed last: nothing is lost */
    int64_t last_time_ms;
};
/** Checks all entries, leaf by leaf. `keys` and `identity` are those of the log that ends. ERROR_FORKED names a difference between the rows: then this database is not what a log goes on from. */
RESULT audit_remains_read(const char *conninfo, const struct log_keys *keys, const struct keyd_identity *identity,
                          struct audit_remains *remains_out, struct error *err);
/** The newest pins of documents that this database knows; of policy sets, the newest set. */
RESULT audit_stored_pins(struct pg *pg, struct document_pin pins_out[DOCUMENT_KINDS_MAX], struct error *err);

/** Gives the log in the database its new name, as the owner. The same statement again changes nothing. ERROR_INVALID or others of the database: its log has another size. */
RESULT audit_succeed(struct pg *owner, const struct succession *succession, struct bytes statement, struct error *err);
