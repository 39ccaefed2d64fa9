/*
 * registry/copies/copy_lend.h -- the end of a copy that is read, for the gateway of another region (docs/replication.md).
 *
 * Rule: the caller has proved who asks: the region of its certificate is the one of the request. The policies are asked here again, under this gateway's own
 * policy set, and for each repository an event is durable before the first byte is read. Closed: no code that serves clients may include this.
 */
#pragma once

#include "registry/copies/copy_request.h"
#include "registry/registry.h"

struct copy_lending;
struct decider;

struct copy_lender {
    struct registry *registry;
    struct decider *decider;
    struct pg *pg;
};
#define LEND_RULE_SET "SYS-OTHER-SET" /* the two ends have different policy sets, or one of them does not know its own */
struct lend_refusal {
    unsigned status; /* of HTTP; 0: not refused */
    char rule[72];   /* why: a rule of the policies, or of the system */
    const char *why; /* constant text */
};
/** *lending_out is NULL if `refusal_out` has a status. Errors of the log, the database, the store and sijil-keyd. */
RESULT copy_lend(const struct copy_lender *lender, const struct copy_request *request, struct copy_lending **lending_out,
                 struct lend_refusal *refusal_out, struct error *err) __attribute__((nonnull));
uint64_t copy_lending_length(const struct copy_lending *lending);
RESULT copy_lending_read(struct copy_lending *lending, uint64_t offset, uint8_t *into, size_t length, struct error *err);
/** Decides again, from memory: "" or the rule that denies it now. Any thread. */
void copy_lending_right(const struct copy_lending *lending, char rule_out[65]);
/** Records that the right was lost while bytes moved. */
void copy_lending_lost(struct copy_lending *lending, const char *rule, uint64_t sent_bytes);
void copy_lending_free(struct copy_lending *lending);
DEFINE_OWNED(copy_lending);
