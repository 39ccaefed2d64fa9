/*
 * client/commands/api_priv.h -- calls of /api/v1, and tables of what they answer.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"

/** One call with a session of its own. `body` may be NULL; *answer_out may be NULL. 200, 201 and 204 are success. */
RESULT api_call(struct invocation *invocation, const char *method, const char *path, const json_t *body,
                json_t **answer_out, struct error *err);

/** The same in a session that is there: no new token for each call. */
RESULT api_call_in(struct session *session, const char *method, const char *path, const json_t *body, json_t **answer_out,
                   struct error *err);

#define CELL_MAX 256 /* bytes of one value in a table; what is longer is cut */

/** A value for a person's eyes: text, words ("a,b"), pairs of them ("class=open subjects=a,b"), or JSON, or "-". Whoever named it does not steer the terminal
 *  (client/terminal.h). */
void cell_text(const json_t *value, char cell_out[CELL_MAX]);
/** A member that is a whole number; 0 without one. */
int64_t number_of(const json_t *object, const char *member);

struct column {
    const char *title, *member; /* of each object; values that are no text are shown as JSON */
};

/** Gets all pages of a list and prints them, as a table or (--json) as one array. `path` may have a query. */
RESULT api_list(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                size_t column_count, struct error *err);

/** The same of a list that comes whole, without pages. */
RESULT api_rows(const struct invocation *invocation, const json_t *answer, const char *list, const struct column *columns,
                size_t column_count, struct error *err);
RESULT api_table(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                 size_t column_count, struct error *err);

/** Prints a value as one line of JSON. Characters that steer a terminal are escaped in it: the value is exact. */
RESULT api_print_json(const json_t *value, struct error *err);
/** A document to where the user wants it: --output FILE, or standard output without one or for "-". */
RESULT api_output(const struct invocation *invocation, const char *path, struct bytes document, struct error *err);
/** Prints an object: --json as it is, else one line a member. */
RESULT api_print(const struct invocation *invocation, const json_t *object, struct error *err);

/** Of the Link header of a list of /v2, the path inside </v2/...?n=..&last=..>; rel="next"; "" when there is none. */
void next_page(const struct http_response *response, char *path, size_t room);

/** "&after=<what the page before said>", or nothing without it. */
RESULT api_add_after(struct buffer *path, const json_t *next, struct error *err);

/** Prints rows under the columns' titles, or (--json) as one array. */
RESULT api_print_rows(const struct invocation *invocation, const json_t *rows, const struct column *columns, size_t column_count,
                      struct error *err);
