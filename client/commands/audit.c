/* `sijil audit ...`: events of the log, and proofs that they are in it. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_key_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "crypto/ecdsa.h"

#define TAIL_MAX       1000
#define FOLLOW_SECONDS 1

void audit_rules_text(const json_t *entry, char cell_out[CELL_MAX])
{
    const json_t *rules = json_object_get(json_object_get(entry, "why"), "rules");
    size_t length = 0;

    cell_out[0] = '\0';
    for (size_t i = 0; i < json_array_size(rules); i++) {
        char rule[CELL_MAX];
        cell_text(json_array_get(rules, i), rule);
        if (length + strlen(rule) + sizeof " ..." + 1 > CELL_MAX) { /* what is cut says so */
            (void)snprintf(cell_out + length, CELL_MAX - length, " ...");
            return;
        }
        length += (size_t)snprintf(cell_out + length, CELL_MAX - length, "%s%s", i == 0 ? "" : " ", rule);
    }
}

/* The name of the actor if it was opened, else its pseudonym. */
static const json_t *actor_of(const json_t *event)
{
    const json_t *subject = json_object_get(json_object_get(event, "who"), "subject");

    return subject != NULL ? subject : json_object_get(json_object_get(event, "entry"), "actor");
}

/* One line for each event: number, time in the zone of the reader, outcome, action, resource, actor, and the rules of a denial. */
static struct result print_event(const struct invocation *invocation, const json_t *event, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry");
    int64_t sequence = 0, time_ms = 0;
    char time_text[AUDIT_TIME_SIZE], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], subject[CELL_MAX];
    char rules[CELL_MAX];

    if (invocation->json) return api_print(invocation, event, err);
    if (invocation_option(invocation, 'C') != NULL) {
        audit_print_csv_event(event);
        return SUCCESS;
    }
    (void)json_integer_of(event, "seq", &sequence);
    (void)json_integer_of(entry, "ts", &time_ms);
    audit_time_text(time_ms, time_text);
    cell_text(json_object_get(entry, "out"), outcome);
    cell_text(json_object_get(entry, "act"), action);
    cell_text(json_object_get(entry, "res"), resource);
    cell_text(actor_of(event), subject); /* chosen by an issuer */
    audit_rules_text(entry, rules);
    (void)printf("%6" PRId64 "  %s  %-9s  ", sequence, time_text, outcome);
    if (terminal_is_narrow(AUDIT_WIDE)) (void)printf("%s\n        %s  %s", action, resource, subject);
    else (void)printf("%-18s  %-40s  %s", action, resource, subject);
    (void)printf("%s%s\n", rules[0] == '\0' ? "" : "  ", rules);
    return SUCCESS;
}

struct result audit_add_within(const struct invocation *invocation, char mark, struct buffer *path, struct error *err)
{
    const char *within = invocation_option(invocation, 'w');

    if (within == NULL) return SUCCESS;
    TRY(buffer_format(path, err, "%cwithin=", mark));
    return http_escape(path, within, err);
}

struct result audit_advised(struct invocation *invocation, struct session *session, struct result result, const struct error *err)
{
    const struct http_request request = {.method = "GET", .path = "/api/v1/self", .wanted = 200};
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON self = NULL;
    char said[sizeof invocation->report.explanation], advice[CELL_MAX + 16], scope[CELL_MAX];
    struct error ignored = {0};

    if (result.ok || err->kind != ERROR_DENIED || invocation_option(invocation, 'w') != NULL) return result;
    memcpy(said, invocation->report.explanation, sizeof said);
    const bool is_known = session_call(session, "", &request, &response, &ignored).ok &&
                          json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &self, &ignored).ok;
    memcpy(invocation->report.explanation, said, sizeof said);
    const json_t *roles = is_known ? json_object_get(self, "roles") : NULL;
    for (size_t i = 0; i < json_array_size(roles); i++) {
        const char *role = json_text_of(json_array_get(roles, i), "role");
        const char *where = json_text_of(json_array_get(roles, i), "scope");
        if (role == NULL || strcmp(role, "auditor") != 0 || where == NULL || where[0] == '\0') continue;
        cell_text(json_object_get(json_array_get(roles, i), "scope"), scope);
        (void)snprintf(advice, sizeof advice, "--within %s", scope);
        invocation_explain(invocation, "try", advice);
    }
    return result;
}

struct result audit_add_purpose(const struct invocation *invocation, char mark, struct buffer *path, struct error *err)
{
    const char *purpose = invocation_option(invocation, 'p');

    if (purpose == NULL) return SUCCESS;
    TRY(buffer_format(path, err, "%cpurpose=", mark));
    return http_escape(path, purpose, err);
}

static struct result events_path(const struct invocation *invocation, const char *query, struct buffer *path, struct error *err)
{
    const char *key = invocation_option(invocation, 'k');

    TRY(buffer_format(path, err, "/audit/events?%s", query));
    if (invocation_option(invocation, 'F') != NULL) TRY(buffer_add_text(path, "&facts=true", err));
    TRY(audit_add_purpose(invocation, '&', path, err));
    if (key != NULL) {
        TRY(buffer_add_text(path, "&key=", err));
        TRY(http_escape(path, key, err));
    }
    return audit_add_within(invocation, '&', path, err);
}

static struct result fetch_page(const struct invocation *invocation, struct session *session, const char *query,
                                json_t **page_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(events_path(invocation, query, &path, err));
    return api_call_in(session, "GET", buffer_text(&path), NULL, page_out, err);
}

/* Newest first. A page may be shorter than asked for, so pages are fetched until there are enough events. */
static struct result fetch_newest(const struct invocation *invocation, struct session *session, size_t wanted, json_t *events,
                                  struct error *err)
{
    char query[96], after[CELL_MAX] = "";

    while (json_array_size(events) < wanted) {
        OWNED_JSON page = NULL;
        (void)snprintf(query, sizeof query, "order=descending&limit=%zu%s%.20s", wanted - json_array_size(events),
                       after[0] == '\0' ? "" : "&after=", after);
        TRY(fetch_page(invocation, session, query, &page, err));
        if (json_array_extend(events, json_object_get(page, "events")) != 0)
            return failure(err, ERROR_INVALID, "the registry answered without 'events'");
        if (json_object_get(page, "next") == NULL) break;
        cell_text(json_object_get(page, "next"), after);
    }
    return SUCCESS;
}

/* Prints events, oldest first, and returns the number of the last one. */
static struct result print_events(const struct invocation *invocation, const json_t *events, bool newest_first, int64_t *last,
                                  struct error *err)
{
    const size_t count = json_array_size(events);

    for (size_t i = 0; i < count; i++) {
        const json_t *event = json_array_get(events, newest_first ? count - 1 - i : i);
        TRY(print_event(invocation, event, err));
        (void)json_integer_of(event, "seq", last);
    }
    return fflush(stdout) == 0 ? SUCCESS : failure(err, ERROR_INVALID, "can't write to standard output");
}

static struct result follow(const struct invocation *invocation, struct session *session, int64_t last, struct error *err)
{
    const struct timespec wait = {.tv_sec = FOLLOW_SECONDS};
    char query[96];

    for (;;) {
        OWNED_JSON page = NULL;
        (void)nanosleep(&wait, NULL);
        (void)snprintf(query, sizeof query, "order=ascending&limit=1000&after=%" PRId64, last);
        TRY(fetch_page(invocation, session, query, &page, err));
        TRY(print_events(invocation, json_object_get(page, "events"), false, &last, err));
    }
}

struct result command_audit_tail(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON events = json_array();
    const char *lines_text = invocation_option(invocation, 'n');
    uint64_t lines = 20;
    int64_t last = -1;

    if (lines_text != NULL && (!text_to_u64(bytes_of_text(lines_text), TAIL_MAX, &lines) || lines == 0))
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "--lines %.20s: a whole number from 1 to %d", lines_text, TAIL_MAX));
    if (invocation_option(invocation, 'F') != NULL && !invocation->json)
        return line_check(invocation, failure(err, ERROR_INVALID, "--facts needs --json: facts do not fit into a line of text"));
    TRY(line_check(invocation, audit_check_form(invocation, err)));
    if (events == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(audit_advised(invocation, session, fetch_newest(invocation, session, (size_t)lines, events, err), err));
    if (invocation_option(invocation, 'C') != NULL) audit_print_csv_titles();
    TRY(print_events(invocation, events, true, &last, err));
    return invocation_option(invocation, 'f') == NULL ? SUCCESS : follow(invocation, session, last, err);
}

static struct result fetch_text(const struct invocation *invocation, struct session *session, const char *what, const char *file,
                                struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    const bool is_own = invocation_option(invocation, 'M') != NULL;
    TRY(buffer_format(&path, err, "/api/v1/%s/events/%s/%s", is_own ? "self" : "audit", invocation->operands[1], what));
    if (!is_own) TRY(audit_add_within(invocation, '?', &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    if (strcmp(what, "proof") == 0) TRY(audit_await_witnesses(invocation, session, &request, &response, err));
    return local_output(file_write_output(file, buffer_bytes(&response.body), 0644, err), file, err);
}

struct result command_audit_proof(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    const char *folder = invocation_option(invocation, 'o'), *sequence = invocation->operands[1];
    char entry[PATH_MAX], proof[PATH_MAX];
    uint64_t number = 0;

    if (!text_to_u64(bytes_of_text(sequence), INT64_MAX, &number))
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.40s' is no sequence number", sequence));
    if (folder != NULL) TRY(local_output(file_make_directory(folder, 0777, err), folder, err));
    (void)snprintf(entry, sizeof entry, "%s/entry.json", folder == NULL ? "." : folder);
    (void)snprintf(proof, sizeof proof, "%s/entry.tlog-proof", folder == NULL ? "." : folder);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(audit_advised(invocation, session, fetch_text(invocation, session, "entry", entry, err), err));
    TRY(fetch_text(invocation, session, "proof", proof, err));
    if (invocation->json) {
        OWNED_JSON names = json_pack("{s:s,s:s}", "entry", entry, "proof", proof);
        if (json_lacks() > 0) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
        return names == NULL ? failure(err, ERROR_INVALID, "the folder's name is not UTF-8") : api_print_json(names, err);
    }
    (void)printf("%s\n%s\n", entry, proof);
    return SUCCESS;
}

/* Parses the key and writes it again, so that only a key reaches the terminal or the file. */
static struct result print_pem(const char *text, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);

    if (text == NULL) return failure(err, ERROR_NOT_FOUND, "the registry tells no key of documents");
    TRY(ecdsa_key_from_pem(bytes_of_text(text), &key, err));
    TRY(ecdsa_key_public_pem(key, &pem, err));
    (void)printf("%s", buffer_text(&pem));
    return SUCCESS;
}

struct result command_audit_key(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    char vkey[CELL_MAX];

    TRY(buffer_add_text(&path, "/audit/key", err));
    TRY(audit_add_within(invocation, '?', &path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(audit_advised(invocation, session, api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err), err));
    if (invocation_option(invocation, 'f') != NULL) return log_key_follow(invocation_option(invocation, 'f'), answer, err);
    if (invocation->json) return api_print(invocation, answer, err);
    if (invocation_option(invocation, 'd') != NULL) return print_pem(json_text_of(answer, "documents"), err);
    cell_text(json_object_get(answer, "vkey"), vkey);
    (void)printf("%s\n", vkey);
    return SUCCESS;
}
