/*
 * gateway/api/api_priv.h -- the functions that the handlers of /api/v1 share (docs/api.md): pages, names, pairs.
 */
#pragma once

#include "gateway/pipeline/document.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"

#define API_LIMIT_DEFAULT 100
#define API_LIMIT_MAX     1000

/** "acme/models": exactly two names. */
bool api_is_project_name(const char *name);

/** The requested part of a list. */
struct api_page {
    unsigned limit;
    const char *after; /* "" for the start */
};
/** Reads `limit` and `after` of a list. False: `limit` is not a valid number, and the answer is 400. */
bool api_page(struct request *request, struct api_page *page_out);
/**
 * `after` as an id, or as a number; at the start of a list the result is not written. ERROR_INVALID if `after` has another
 * form.
 */
RESULT api_after_id(const struct api_page *page, struct uuid *id_out, struct error *err);
RESULT api_after_number(const struct api_page *page, int64_t *number_out, struct error *err);

#define API_CURSOR_SIZE 256 /* the longest is an issuer's URL */

/**
 * One page: {"name": [...], "next": the cursor of the last row, if there are more}. `next` is also in a Link header
 * (RFC 8288, rel="next"), as in lists of /v2.
 */
struct api_list {
    const char *name;
    const void *rows;
    size_t count;
    bool has_more; /* then there is at least one row */
    /** Makes one object. Success with *row_out NULL leaves the row out. */
    struct result (*describe)(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err);
    void (*cursor)(const void *rows, size_t index, char next_out[API_CURSOR_SIZE]);
};
/** ?order: ascending, descending, or left out: descending. ERROR_INVALID. */
RESULT api_order(const struct request *request, bool *ascending_out, struct error *err);
/** Answers 200 with the page. */
RESULT api_answer_list(struct request *request, const struct api_list *list, struct error *err);

/** The same for rows that every caller may see. The store was asked for one row more than the page has. */
struct api_rows {
    const char *name;
    const void *rows;
    size_t row_size, count;               /* bytes of a row; as many rows as the store returned */
    json_t *(*describe)(const void *row); /* NULL: out of memory */
    const char *cursor;                   /* the member of a row that is its cursor */
};
RESULT api_answer_rows(struct request *request, const struct api_page *page, const struct api_rows *rows, struct error *err);

/** Adds the Link header of the page after `next`. For lists that write their answer themselves. */
RESULT api_link_next(struct request *request, const char *next, struct error *err);

/** The id in the path. ERROR_NOT_FOUND, "there is no such `what`", if it is not a UUID. */
RESULT api_id(const struct request *request, const char *what, struct uuid *id_out, struct error *err);
/** The last step of each removal by id: records the change, and answers 204. */
RESULT api_remove(struct request *request, struct change *change, struct error *err);

/** Adds one pair for the decision, with `name` unchanged, and ids and region from the snapshot. */
struct resource *api_pair(struct request *request, enum action action, enum resource_kind kind, const char *name);

/** The same for the project that the path names. If the path has no valid project name, the answer is 404. */
void api_pair_of_project(struct request *request, enum action action);

/**
 * Adds one pair for a scope as bindings have it: "", "acme", "acme/models", "acme/models/digits", or "acme/models/" with an asterisk after it. False: another form.
 */
#define API_SCOPE_FORM \
    "a scope is organisation, organisation/project, organisation/project/repository, or organisation/project/path/*"
bool api_add_scope(struct request *request, enum action action, const char *scope, struct resource **resource_out);

/**
 * Adds one pair for the object whose id is in the path. `find` finds the object's organisation. An object that does not exist
 * is decided like one of an organisation that does not exist, so that other tenants learn nothing. The organisation's name is
 * looked up only for callers whose rights allow the pair.
 */
void api_pair_of_id(struct request *request, enum action action,
                    bool (*find)(struct decider *decider, const struct uuid *id, struct resource *resource_out));

/**
 * For handlers, after the decision: the scope of a pair of api_pair() is the registry, or an organisation or a project that exists.
 * ERROR_NOT_FOUND.
 */
RESULT api_scope_exists(const struct resource *where, struct error *err);

/**
 * For target functions that read the body. True: the request has no credential, so no body was gathered, and a pair on the
 * system was added; its decision asks for a credential.
 */
bool api_asks_for_credential(struct request *request, enum action action);

/**
 * Call it after a proof failed. True: probably the event is not signed yet. Signing takes about a second. The handler then
 * returns success, and is called again a little later.
 */
bool api_proves_later(struct request *request, struct pg *pg, const struct error *err);

/**
 * The published checkpoint of this size, with cosignatures if it has them; `size` is text from the client. NULL: the newest one. ERROR_INVALID, ERROR_NOT_FOUND. `action`: of the
 * request's permit.
 */
struct signed_checkpoint;
RESULT api_published(const struct request *request, struct pg *pg, enum action action, const char *size,
                     struct signed_checkpoint *checkpoint_out, struct error *err);

/** The newest checkpoint that witnesses have cosigned, if it has at least `size` entries; else the newest that sijil-keyd has signed. */
RESULT api_newest(const struct request *request, uint64_t size, struct signed_checkpoint *checkpoint_out, struct error *err);

/** An answer of at most `maximum` bytes that is too large for the arena. At most 16 of all kinds are on their way from a gateway at a time. */
struct api_large {
    const char *what; /* "bundles of entries" */
    const char *type;
    size_t maximum;
    RESULT (*fill)(struct request *request, struct pg *pg, struct buffer *bytes, struct error *err);
};
/** Answers with what fill() appends, or waits for a place: then there is no answer yet, and the handler returns success. */
RESULT api_answer_large(struct request *request, struct pg *pg, const struct api_large *kind, struct error *err);

/** Whether If-Match and If-None-Match of the request hold; `tag` NULL: there is no such document. */
bool api_condition_holds(const struct request *request, const char *tag);
/** Answers 412. `what`: "the document", at the start of a sentence of the answer. */
void api_answer_changed(struct request *request, const char *what) __attribute__((nonnull));
/** For an answer 200 that was made: adds ETag; the answer becomes 304 or 412 if a condition says so. */
void api_answer_tagged(struct request *request, const char *tag, const char *what) __attribute__((nonnull));

/** Sets `member` to the time in RFC 3339. 0 is no time, and the member is left out. False: out of memory. */
bool api_set_time(json_t *object, const char *member, int64_t wall_ms);

/** Adds to the project of the request's permit (project.read) which of its content is out of place, if some is (copies.c). */
RESULT api_tell_misplaced(struct request *request, struct pg *pg, json_t *project, struct error *err);

/** Whether the caller would be allowed the pair. For lists that show only rows that the caller may see; records nothing. */
RESULT api_may(const struct request *request, const struct action_pair *pair, bool *may_out, struct error *err);
