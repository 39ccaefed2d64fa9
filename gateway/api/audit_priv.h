/*
 * gateway/api/audit_priv.h -- pages of events, which lists and searches of the log share.
 */
#pragma once

#include "audit/query.h"
#include "audit/search.h"
#include "gateway/api/api_priv.h"
#include "gateway/http/exchange.h"

/* A larger page ends early, with "next", and each page is an event of the log. It must fit into the arena of a request beside all else. */
#define EVENTS_BYTES_MAX ((size_t)512 << 10)
_Static_assert(EVENTS_BYTES_MAX <= EXCHANGE_MEMORY / 2, "a page fits into the arena");

/** Adds the pair of the part that an auditor may read: `within` is "acme" or "acme/models"; NULL or "": the registry. Else the answer is 400. */
void audit_pair_within(struct request *request, enum action action, const char *within);
/** ?purpose=, for whose sake what is sealed is opened. ERROR_INVALID for an empty one. */
RESULT audit_read_purpose(struct request *request, struct error *err);
/** Appends a condition to what is recorded about a question, with "&" before it unless it is the first; a value NULL: nothing. */
RESULT audit_write_condition(const char *name, const char *value, struct buffer *text, struct error *err);
/** `after`, `before`, `order` and `key` of a list. ERROR_INVALID. */
RESULT audit_filter_read(const struct request *request, const char *after, struct audit_filter *filter, struct error *err);
/** ?facts=true. False: the argument has another value, and the answer is 400. */
bool audit_wants_facts(struct request *request, bool *wants_out);
/** Appends {"events":[...], with at most *shown events; as many as there is room for are written. */
RESULT audit_events_write(const struct request *request, struct audit_page *page, bool with_facts, size_t *shown,
                          struct buffer *text, struct error *err);
/** Ends the object, with `next` unless it is NULL, and answers. */
RESULT audit_events_answer(struct request *request, const char *next, struct buffer *text, struct error *err);

/** An ascending search of the whole log, without a condition. */
void audit_search_init(struct search *search, size_t limit);
/** All conditions of the request, its order, and where it goes on. ERROR_INVALID; others as search_add_name(). */
RESULT audit_search_read(const struct request *request, const struct search_source *source, const char *after,
                         struct search *search, struct error *err);
/** ?since= and ?until=. ERROR_INVALID. */
RESULT audit_search_times(const struct request *request, struct search *search, struct error *err);
/** Adds an actor: a name, a pseudonym, anonymous or system. Errors as search_add_name(). */
RESULT audit_search_actor(const struct request *request, const struct search_source *source, const char *value,
                          struct search_condition *condition, struct error *err);
/** Waits until the index knows the log as it was when the request came, and searches. Not before the permit's place was born. Errors as search_run(). */
RESULT audit_search_page(const struct request *request, const struct search_source *source, struct search *search,
                         struct audit_page **page_out, struct search_progress *progress_out, struct error *err);
#define AUDIT_NEXT_SIZE 24 /* 2^64 in decimal */
/** Where a search goes on if the first `shown` events of the page were shown; "" at the end. *progress is set to it. */
void audit_search_next(const struct search *search, const struct audit_page *page, size_t shown, struct search_progress *progress,
                       char next_out[AUDIT_NEXT_SIZE]);
