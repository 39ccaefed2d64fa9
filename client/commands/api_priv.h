/*
 * client/commands/api_priv.h -- calls of /api/v1, and tables of their answers.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"

/** One call with a session of its own. `body` may be NULL; *answer_out may be NULL. 200, 201 and 204 are success. */
RESULT api_call(struct invocation *invocation, const char *method, const char *path, const json_t *body, json_t **answer_out,
                struct error *err);

/** The same in an existing session, without a new token for each call. */
RESULT api_call_in(struct session *session, const char *method, const char *path, const json_t *body, json_t **answer_out,
                   struct error *err);

/** ERROR_NO_MEMORY, for JSON of a request or an answer. */
RESULT api_no_memory(struct error *err);

#define ROBOT_LOGIN_SIZE 256
/** robot$acme+ci for itself or for acme/ci, the name in `create`; for a robot of the registry, robot$ci for ci. */
void robot_login_name(const char *given, char name_out[ROBOT_LOGIN_SIZE]);

#define CELL_MAX 256 /* bytes of one value in a table; longer values are cut, and end with "..." */

/** A value as text for a person: text, words ("a,b"), pairs of words ("class=open subjects=a,b"), JSON, or "-". Characters that steer a
 *  terminal are replaced (client/terminal.h). */
void cell_text(const json_t *value, char cell_out[CELL_MAX]);
/** A member that is a whole number; 0 if there is none. */
int64_t number_of(const json_t *object, const char *member);

struct column {
    const char *title, *member; /* of each object; values that are no text are shown as JSON */
};

/** A walk over the pages of a list, in its order. */
struct page_walk {
    const char *path; /* of the first page, with a query: "&after=" is added to it */
    RESULT(*take)
    (void *context, const json_t *page, bool *is_enough_out, struct error *err); /* *is_enough_out: the walk ends here */
    void *context;
};
/** ERROR_LIMIT: there are more pages than anybody can read. ERROR_INVALID: a page comes twice. */
RESULT api_walk(struct session *session, const struct page_walk *walk, struct error *err);
/** Appends the rows of all pages of a list, at most `most`, to an array. `path` is as in a walk. */
RESULT api_collect(struct session *session, const char *path, const char *list, size_t most, json_t *rows, struct error *err);
/** The same in a session of its own, with a limit of 1,000 rows a page; `path` needs no query. The registry is the first operand. */
RESULT api_get_pages(struct invocation *invocation, const char *path, const char *list, size_t most, json_t *rows,
                     struct error *err);
/** Gets all pages of a list and prints them, as a table or (--json) as one array. `path` may have a query. */
RESULT api_list(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                size_t column_count, struct error *err);

/** A list that is wide and may be long. */
struct newest {
    const char *path, *list;
    const struct column *columns;
    size_t column_count;
};
/** The same, for at most `most` rows. A terminal's lines are cut at its width. */
RESULT api_list_newest(struct invocation *invocation, const struct newest *newest, size_t most, struct error *err);

/** The same for a list without pages. */
RESULT api_rows(const struct invocation *invocation, const json_t *answer, const char *list, const struct column *columns,
                size_t column_count, struct error *err);
RESULT api_table(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                 size_t column_count, struct error *err);

/** Prints a value as one line of JSON. Characters that steer a terminal are escaped in it: the value is exact. */
RESULT api_print_json(const json_t *value, struct error *err);
/** The same, elsewhere than on standard output. */
RESULT api_write_json(FILE *stream, const json_t *value, struct error *err);
/** Writes a document to --output FILE, or to standard output without the option or for "-". */
RESULT api_output(const struct invocation *invocation, const char *path, struct bytes document, struct error *err);
/** Prints an object: as JSON with --json, else with one line for each member. */
RESULT api_print(const struct invocation *invocation, const json_t *object, struct error *err);

/** The path in the Link header of a list of /v2: </v2/...?n=..&last=..>; rel="next". "": there is no further page. */
void next_page(const struct http_response *response, char *path, size_t room);

/** Appends the path of a list of an organisation or a project: the scope, or the first two names of a repository or a path in it; "" for all. */
RESULT api_add_list(struct buffer *path, const char *list, const char *scope, struct error *err);
/** Appends "&after=<the last entry of the page before>", or nothing without `next`. */
RESULT api_add_after(struct buffer *path, const json_t *next, struct error *err);

/** Prints rows under the columns' titles, or (--json) as one array. */
RESULT api_print_rows(const struct invocation *invocation, const json_t *rows, const struct column *columns, size_t column_count,
                      struct error *err);
