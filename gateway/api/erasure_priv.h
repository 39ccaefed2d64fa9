/* gateway/api/erasure_priv.h -- what the routes of erasures and of holds share (docs/erasure.md). */
#pragma once

#include "authz/erased_subject.h"
#include "documents/format/erasure.h"
#include "gateway/api/document_priv.h"

/** All that decides whether a person may be erased now. It names the person: wipe it with erasure_case_done(). */
struct erasure_case {
    enum action action; /* of the permit */
    struct erasure_person person;
    struct subject_holdings holdings;
    int64_t erasable_ms; /* the end of the retention */
    bool is_kept;        /* policies keep the events */
    json_t *refused;     /* a list of {"rule", "why"}; empty: nothing forbids the erasure */
};
void erasure_case_done(struct erasure_case *erasure);
#define OWNED_ERASURE __attribute__((cleanup(erasure_case_done))) struct erasure_case

/** Reads the case of a pseudonym under the request's permit for `action`. Errors as erasure_person_find(). */
RESULT erasure_case_read(struct request *request, struct pg *pg, enum action action, const char *pseudonym,
                         struct erasure_case *case_out, struct error *err) __attribute__((nonnull));
/** ERROR_CONFLICT with the first reason against the erasure. */
RESULT erasure_case_check(const struct erasure_case *erasure, struct error *err) __attribute__((nonnull));
/** ERROR_DENIED: the person is the one to be erased, or is behind its robots. */
RESULT erasure_check_person(const struct request *request, struct pg *pg, const struct erasure_case *erasure,
                            const struct persons *person, struct error *err) __attribute__((nonnull));

/** The names of the holds in force that stop the erasure of a pseudonym are added to the list of texts. The view must be up to date. */
RESULT holds_of(const struct request *request, const char *pseudonym, json_t *names, struct error *err) __attribute__((nonnull));

/* That have not ended. Each removal of a manifest looks at them. */
#define HOLDS_MAX 1000

/** The target of a route with a name in the path, for the registry. */
RESULT erasure_target_named(struct request *request, enum action action);
