/*
 * tests/integration/collect_fixture.h -- runs of the garbage collection, with an action between their steps.
 */
#pragma once

#include "tests/integration/registry_fixture.h"

#define SMALL 3000 /* bytes of a blob here: one record */

/** Checks that the count in the row of a project with a quota is the sum over its content. */
void collect_count_is_exact(void);

/** The action, which runs at the due-th question whether to stop. */
struct between {
    int step, due;
    void (*act)(void *context);
    void *context;
};

/** Of acme/models. */
RESULT collect_request_run(bool is_dry_run, const char *rules, struct error *err);
/** Of all projects. */
RESULT collect_request_all(struct error *err);
/** Runs a requested collection until it is over or is_stopping(). */
RESULT collect_work(struct pg *pg, bool (*is_stopping)(void *context), void *context, struct error *err);
RESULT collect_do_run(struct pg *pg, struct between *between, struct error *err);
/** A figure of the newest report. The test fails unless that run was completed. */
const char *collect_told(const char *figure);
/** Does a whole run, and returns a figure of its report. */
const char *collect_all(bool is_dry_run, const char *figure);
/** Makes all content old, so no lease is left. */
void collect_end_leases(void);
/** Removes the bytes of everything that has ended. */
void collect_clean_up_all(void);
/** Sets the rules of acme/models. */
void collect_set_rules(const char *document);

struct pushed {
    char digest[DIGEST_TEXT_SIZE], body[1200];
};

RESULT collect_push_manifest(const struct resource *where, const char *tag, struct pushed *pushed, struct error *err);
void collect_write_image(struct pushed *pushed, const char *config, const char *subject, int mark);
void collect_write_index(struct pushed *pushed, const struct pushed *child);
/** HEAD: the client learns that the blob exists. */
bool collect_is_told_of(const struct resource *where, const char *digest);
