/*
 * embedded/recovery.h -- a log that lost entries goes on under a new origin (docs/recovery.md): sijild --recover-plan and sijild --recover.
 *
 * For the operator, with the settings of a gateway, while no gateway runs, and for `sijild --embedded`. Two officers sign the plan in between (`sijil admin recover sign`), and sijil-keyd
 * checks their signatures. Both functions may be repeated.
 */
#pragma once

#include "gateway/settings/settings.h"

struct recovery_options {
    const struct settings *settings;
    const char *database_owner; /* connection string; RECOVERY_RENAME alone */
    const char *reason;         /* recovery_plan() alone, like the next one */
    struct bytes
        checkpoint; /* the newest cosigned checkpoint of the log that ends, from a witness or an auditor; empty: the newest one in the database */
    unsigned officers;         /* recovery_plan() alone: at least so many, SUCCESSION_OFFICERS or 1 (audit/format/succession.h) */
    struct bytes signed_plans; /* not of recovery_plan(): DSSE envelopes, one a line */
};

/**
 * Checks what is left of the log in the database, and appends the statement for the officers (audit/format/succession.h), and to `keys` the keys of the log
 * that ends: later nobody has its handovers (audit/format/log_keys.h). ERROR_CONFLICT: nothing is lost.
 * ERROR_FORKED: rows of the database contradict each other. Changes nothing.
 */
RESULT recovery_plan(const struct recovery_options *options, struct buffer *statement, struct buffer *keys, struct error *err);
/**
 * sijil-keyd takes the statement, the log in the database gets its new name, and its first entry of its own says why. Goes on where an earlier call ended. The
 * errors of keyd_recover(), for example ERROR_DENIED: too few officers have signed.
 */
RESULT recovery_run(const struct recovery_options *options, struct error *err);
/** Its parts, in this order, for one machine where other users do them: the gateway's, the owner of the database, the gateway's. */
enum recovery_part { RECOVERY_TAKE, RECOVERY_RENAME, RECOVERY_RECORD };
RESULT recovery_run_part(const struct recovery_options *options, enum recovery_part part, struct error *err);
