/*
 * authz/issuer_jobs.h -- the work of the server on issuers that are followed: who is asked next, and what came of it.
 *
 * Rule: it needs no permit, because the server does it by itself; only new keys change what anybody may do, and they have an event of their own. No code
 * that serves a request may include this (tests/lint/closed_headers.txt). All gateways share the rows: one of them asks an issuer at a time.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/issuer_documents.h"

/** Statements of this header and of struct issuer_renew, for pg_open(); the second also for struct sequencer_options. */
extern const struct pg_table issuer_jobs_table;
extern const struct pg_table issuer_renew_table;

#define ISSUER_ASK_EVERY_S   900 /* as long as all is well, and a minute more at most */
#define ISSUER_ASK_AGAIN_S   30  /* at least so long after an attempt, whatever tokens come; doubled after each failure */
#define ISSUER_CHECK_AGAIN_S 5   /* the same after an administrator asked */
#define ISSUER_CLAIM_S       60  /* an attempt ends long before */
#define ISSUER_WISHES_MAX    64

/** An issuer that this gateway asks now. */
struct issuer_task {
    struct uuid id;
    char url[ISSUER_URL_SIZE], keys_url[ISSUER_KEYS_URL_SIZE]; /* keys_url "": its metadata names it */
    unsigned algorithms;
    int64_t failures, attempted_ms;
    char jwks_sha256[65]; /* of the keys that count, in hex */
};
/**
 * Takes the issuer that waits longest, if one is due. Issuers whose last attempt failed are taken apart (`failed`), so that they delay no other.
 */
RESULT issuer_task_claim(struct pg *pg, bool failed, struct issuer_task *task_out, bool *found_out, struct error *err);

struct issuer_report {
    const char *problem; /* at most 400 characters; NULL: the keys were read, and count */
    const char *report;  /* JSON */
};
/** Ends an attempt. Nothing happens if it is not the newest one. */
RESULT issuer_task_end(struct pg *pg, const struct issuer_task *task, const struct issuer_report *report, struct error *err);

/** Has these issuers asked soon, at least ISSUER_ASK_AGAIN_S after the last attempt. */
RESULT issuer_wish(struct pg *pg, const struct uuid *ids, size_t count, struct error *err);

/** For each issuer that is followed: when it last confirmed its keys (0: never). */
RESULT issuer_confirmations(struct pg *pg, void (*each)(void *context, const char *url, int64_t confirmed_ms), void *context,
                            struct error *err);

/**
 * Replaces the keys of an issuer, under a permit for ACTION_ISSUER_KEYS on the system. ERROR_CONFLICT: it was changed or removed meanwhile, or another
 * gateway has asked it since.
 */
struct issuer_renew {
    struct change change;
    const struct issuer_task *task; /* it and the keys must outlive the change */
    const char *jwks;
};
void issuer_renew_init(struct issuer_renew *renew, const struct issuer_task *task, const char *jwks);
