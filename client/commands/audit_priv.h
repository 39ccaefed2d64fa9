/*
 * client/commands/audit_priv.h -- events of the log, fetched page by page and printed.
 */
#pragma once

#include <jansson.h>

#include "client/commands/api_priv.h"

/** Adds --within to a path. An auditor of an organisation or a project must name it; only auditors of the registry read the whole log. */
RESULT audit_add_within(const struct invocation *invocation, char mark, struct buffer *path, struct error *err);
/** Appends a time: "7d", "12h" and "30m" are so long ago; all else goes to the registry as it is. NULL: nothing. */
RESULT audit_time_of(const char *value, struct buffer *text, struct error *err);
/** For an auditor of a part who was refused without --within: lists the auditor's roles, so that no one has to guess. */
RESULT audit_advised(struct invocation *invocation, struct session *session, struct result result, const struct error *err);
/** The rules that denied an entry, for a person: "H-READ-AE SYS-NO-BINDING"; "" if none did. */
void audit_rules_text(const json_t *entry, char cell_out[CELL_MAX]);
/** The time of an event in the zone of the reader: "2026-11-20 11:39:46.123 +0100". */
#define AUDIT_TIME_SIZE 40
void audit_time_text(int64_t wall_ms, char text_out[AUDIT_TIME_SIZE]);

/** Gets an event; a failure ends the search. */
struct audit_visitor {
    struct result (*visit)(void *context, const json_t *event, struct error *err);
    void *context;
};
struct audit_searched {
    uint64_t events; /* visited */
    bool is_whole;   /* no event was left out */
};
/**
 * Fetches the events that the options of the command ask for, at most `most`, page by page. Shows the progress on standard error, if it is a
 * terminal. The options are those of AUDIT_SEARCH_OPTIONS.
 */
RESULT audit_search_events(struct invocation *invocation, uint64_t most, const struct audit_visitor *visitor,
                           struct audit_searched *searched_out, struct error *err);

struct http_request;
struct http_response;
/** With --witness-policy: fetches a proof again until the quorum has cosigned its checkpoint, for two minutes. ERROR_DENIED: it has not. */
RESULT audit_await_witnesses(const struct invocation *invocation, struct session *session, const struct http_request *request,
                             struct http_response *response, struct error *err);
/** The same for an event, whose proof nobody wants: then the lines of an export that it closes are under such a checkpoint. */
RESULT audit_await_event(const struct invocation *invocation, struct session *session, uint64_t number, struct error *err);
