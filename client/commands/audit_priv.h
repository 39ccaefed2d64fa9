/*
 * client/commands/audit_priv.h -- events of the log, fetched page by page and printed.
 */
#pragma once

#include <jansson.h>

#include "audit/format/export_terms.h"
#include "client/commands/api_priv.h"

/** Adds --within to a path. An auditor of an organisation or a project must name it; only auditors of the registry read the whole log. */
RESULT audit_add_within(const struct invocation *invocation, char mark, struct buffer *path, struct error *err);
/** Appends a time: "7d", "12h" and "30m" are so long ago, "2026-11-20" is that midnight where the reader is; a number stays. NULL: nothing. ERROR_INVALID. */
RESULT audit_time_of(const char *value, struct buffer *text, struct error *err);
/** Reads what audit_time_of() has made; "" changes nothing. A number of an event is taken as it is, a time sets `unit`. ERROR_INVALID names the option. */
RESULT audit_read_bound(const char *name, const struct buffer *text, uint64_t *bound, enum export_unit *unit, struct error *err);
/** Whether the options with these letters are such times. */
RESULT audit_check_times(const struct invocation *invocation, const char *letters, struct error *err);
/** For an auditor of a part who was refused without --within: lists the auditor's roles, so that no one has to guess. */
RESULT audit_advised(struct invocation *invocation, struct session *session, struct result result, const struct error *err);
/** What a search can be narrowed by: the letter of the option, and its name, which is the parameter's. */
struct audit_condition {
    int letter;
    const char *name;
};
#define AUDIT_CONDITIONS 16
extern const struct audit_condition audit_conditions[AUDIT_CONDITIONS];
/** How many conditions of a search `audit export` was given, beside --key and a range. */
size_t audit_export_conditions(const struct invocation *invocation);
/** The key whose export is asked for: --key, or the key that stands for the only condition. ERROR_INVALID: none does, and the report gets the keys that have all of it. */
#define AUDIT_KEY_SIZE (LEAF_KEY_MAX + 1)
RESULT audit_export_key(struct invocation *invocation, char key_out[AUDIT_KEY_SIZE], struct error *err);
/** If the key came from a condition, says on standard error that no event stands under it. */
void audit_export_tell_empty(const struct invocation *invocation, const char *key);
/** Adds --purpose to a path: without it nothing that was sealed is opened. */
RESULT audit_add_purpose(const struct invocation *invocation, char mark, struct buffer *path, struct error *err);
/** The rules that denied an entry, for a person: "H-READ-AE SYS-NO-BINDING"; "" if none did. */
void audit_rules_text(const json_t *entry, char cell_out[CELL_MAX]);
/** The time of an event in the zone of the reader: "2026-11-20 11:39:46.123 +0100". */
#define AUDIT_TIME_SIZE 40
void audit_time_text(int64_t wall_ms, char text_out[AUDIT_TIME_SIZE]);
/** A terminal with fewer columns gets two lines for each event: one of them would not fit. */
#define AUDIT_WIDE 156

/** One line for each reason of a denial that was sealed beside the event: rule, policy, the sentence that the caller got, and what was unknown. */
void audit_print_denials(const json_t *event, const char *indent);
/** One line of CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe. */
void audit_print_csv(const char *const *cells, size_t count);
/** Whether not both --csv and --json are given. */
RESULT audit_check_form(const struct invocation *invocation, struct error *err);
/** Columns of a list, some of which, next to each other, are times of RFC 3339. */
struct columns_dated {
    const struct column *all;
    size_t count, first_time, times;
};
/** Rows as a table, with these times in the reader's zone, or with --csv as they are. Without --json. */
RESULT audit_print_dated(const struct invocation *invocation, json_t *rows, const struct columns_dated *columns,
                         struct error *err);
/** Rows of CSV under the columns' titles, in small letters. */
void audit_print_csv_rows(const json_t *rows, const struct column *columns, size_t column_count);

/** One event as a row of CSV, under a row of titles. */
void audit_print_csv_titles(void);
void audit_print_csv_event(const json_t *event);

/** Gets an event; a failure ends the search. */
struct audit_visitor {
    struct result (*visit)(void *context, const json_t *event, struct error *err);
    void *context;
};
/** A search: its path with all conditions, and at most how many events are wanted; 0: all. */
struct audit_query {
    const char *path; /* "/audit/events?order=ascending&actor=..." */
    bool is_ascending;
    uint64_t most;
    bool counts; /* the path asks for counts: the visitor gets its rows */
};
struct audit_searched {
    uint64_t events;        /* visited */
    bool is_whole;          /* no event that the registry found was left out */
    uint64_t known, wanted; /* the registry searched the events before `known`; a complete answer has those before `wanted` */
};
/** After the answer was shown: ERROR_UNAVAILABLE if the registry did not search all of its log, because no one may take such an answer for a complete one. */
RESULT audit_check_whole(const struct audit_searched *searched, struct error *err);
/**
 * Counts the events that the options of the command ask for (AUDIT_SEARCH_OPTIONS), by what `by` names. The visitor gets each row of each answer, so a name may come
 * again. Shows the progress on standard error, if it is a terminal.
 */
RESULT audit_search_counts(struct invocation *invocation, const char *by, const struct audit_visitor *visitor,
                           struct audit_searched *searched_out, struct error *err);
/** Fetches the events of a query of the caller, in a session of the caller, page by page, and shows the progress. */
RESULT audit_fetch_events(struct invocation *invocation, struct session *session, const struct audit_query *query,
                          const struct audit_visitor *visitor, struct audit_searched *searched_out, struct error *err);

struct http_request;
struct http_response;
/** With --witness-policy: fetches a proof again until the quorum has cosigned its checkpoint, for two minutes. ERROR_DENIED: it has not. */
RESULT audit_await_witnesses(const struct invocation *invocation, struct session *session, const struct http_request *request,
                             struct http_response *response, struct error *err);
/** The same for an event, whose proof nobody wants: then the lines of an export that it closes are under such a checkpoint. */
RESULT audit_await_event(const struct invocation *invocation, struct session *session, uint64_t number, struct error *err);
/** Appends "&name=value". */
RESULT audit_add_parameter(struct buffer *path, const char *name, const char *value, struct error *err);
/** Prints the events of a query as `audit search` does: a table, --json or --csv. */
RESULT audit_show_events(struct invocation *invocation, struct session *session, const struct audit_query *query,
                         struct error *err);
/** The number of events that --lines asks for; --csv and --json exclude each other. ERROR_INVALID. */
RESULT audit_check_lines(const struct invocation *invocation, uint64_t *most, struct error *err);
