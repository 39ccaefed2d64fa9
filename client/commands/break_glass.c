/* `sijil admin break-glass ...`: a person asks to pull somewhere for at most an hour, and another one approves (docs/break-glass.md). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_document_priv.h"
#include "crypto/random.h"
#include "documents/format/break_glass.h"

#define PATH_ROOM    1024
#define PAYLOAD_ROOM BREAK_GLASS_BYTES_MAX
#define MINUTE_MS    INT64_C(60000)
#define DAY_MS       INT64_C(86400000)
#define TAIL_BYTES   6

static const struct log_document_kind glass_kind = {DOCUMENT_BREAK_GLASS, "broken glass", ""};
static const struct log_document_place glasses = {&glass_kind, {"/break-glass", "glasses", "broken glass", false}};

/* ---- what the registry has ---- */

/* Of a broken glass with its review, or of a review alone. */
static struct result print_one(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    static const char *const members[] = {"on",     "reason",       "broken_event", "approved_by",
                                          "review", "review_event", "note",         "missing"};
    const json_t *document = json_object_get(answer, "document");
    OWNED_JSON shown = json_pack("{s:O?, s:O?, s:O?}", "name", json_object_get(answer, "name"), "state",
                                 json_object_get(answer, "state"), "expires", json_object_get(document, "expires"));

    if (shown == NULL || json_object_update(shown, json_object_get(document, "body")) != 0) return api_no_memory(err);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        json_t *value = json_object_get(answer, members[i]);
        if (value != NULL && json_object_set(shown, members[i], value) != 0) return api_no_memory(err);
    }
    (void)json_object_del(shown, "public_key");
    return api_print(invocation, shown, err);
}

static struct result send(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_one(invocation, answer, err);
}

struct result command_break_glass_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &glasses.list, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_one(invocation, answer, err);
}

static struct result flatten(const json_t *row, json_t *flat, struct error *err)
{
    const json_t *document = json_object_get(row, "document"), *body = json_object_get(document, "body");
    const json_t *holder = verified_holder(row, json_text_of(body, "principal"));
    const json_t *broken = json_object_get(body, "on") == NULL ? row : body; /* the end of it does not say where and why */
    json_t *shown = json_pack("{s:O?, s:O?, s:O*, s:O?, s:O*, s:O*, s:O?, s:O*, s:O*}", "name", json_object_get(row, "name"),
                              "state", json_object_get(row, "state"), "on", json_object_get(broken, "on"), "expires",
                              json_object_get(document, "expires"), "review", json_object_get(row, "review"), "subject",
                              json_object_get(holder, "subject"), "principal", json_object_get(body, "principal"), "approved_by",
                              json_object_get(row, "approved_by"), "reason", json_object_get(broken, "reason"));

    return json_array_append_new(flat, shown) == 0 ? SUCCESS : api_no_memory(err);
}

struct result command_break_glass_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},
                                            {"STATE", "state"},
                                            {"ON", "on"},
                                            {"EXPIRES", "expires"},
                                            {"REVIEW", "review"},
                                            {"SUBJECT", "subject"},
                                            {"HOLDER", "principal"},
                                            {"APPROVED BY", "approved_by"},
                                            {"REASON", "reason"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &glasses.list, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten(json_array_get(rows, i), flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- asking ---- */

/* "bg-20261127-0f3a91c25d70": nobody else takes it. */
static void make_name(char name_out[BREAK_GLASS_NAME_MAX + 1])
{
    uint8_t tail[TAIL_BYTES];
    char hex[2 * TAIL_BYTES + 1], day[CLOCK_TEXT_SIZE];

    random_bytes(tail, sizeof tail);
    text_hex(tail, sizeof tail, hex);
    clock_format(clock_wall_ms(), day);
    (void)snprintf(name_out, BREAK_GLASS_NAME_MAX + 1, "bg-%.4s%.2s%.2s-%s", day, day + 5, day + 8, hex);
}

static struct result compose(const char *name, const struct break_glass *glass, uint64_t minutes, struct buffer *payload,
                             struct error *err)
{
    const int64_t now_ms = clock_wall_ms();
    OWNED_JSON body = break_glass_body(glass);
    const struct document_parts parts = {.kind = DOCUMENT_BREAK_GLASS,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = now_ms,
                                         .expires_ms = now_ms + (int64_t)minutes * MINUTE_MS,
                                         .body = body};

    if (body == NULL) return api_no_memory(err);
    return document_compose(&parts, payload, err);
}

static struct result read_minutes(struct invocation *invocation, uint64_t *minutes_out, struct error *err)
{
    const uint64_t most = (uint64_t)(BREAK_GLASS_MS_MAX / MINUTE_MS);
    const char *text = invocation_option(invocation, 'm');

    *minutes_out = most;
    if (text == NULL) return SUCCESS;
    if (text_to_u64(bytes_of_text(text), most, minutes_out) && *minutes_out > 0) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--minutes %.30s: a number from 1 to %d", text, (int)most));
}

static struct result check_text(struct invocation *invocation, char option, const char *name, struct error *err)
{
    const char *text = invocation_option(invocation, option);

    if (text != NULL && text[0] != '\0') return SUCCESS;
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "--%s is needed; it stays in the log for ever, so name nobody in it", name));
}

struct result command_break_glass_request(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    struct break_glass glass = {.on = invocation->operands[1], .reason = invocation_option(invocation, 'r')};
    char name[BREAK_GLASS_NAME_MAX + 1], principal[SIGNING_PRINCIPAL_SIZE];
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    uint64_t minutes = 0;

    TRY(check_text(invocation, 'r', "reason", err));
    TRY(read_minutes(invocation, &minutes, err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(command_principal(session, principal, err));
    glass.principal = principal;
    ecdsa_key_public(key, glass.point);
    make_name(name);
    TRY(compose(name, &glass, minutes, &payload, err));
    TRY(documents_sign(DOCUMENT_BREAK_GLASS, buffer_bytes(&payload), key, &envelope, err));
    return send(invocation, session, glasses.list.base, envelope, err);
}

struct result command_break_glass_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &glasses, err);
}

struct result command_break_glass_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, glasses.list.base, "/drafts", err);
}

/* ---- the end ---- */

/* A broken glass that is to be ended. */
struct ended {
    char principal[SIGNING_PRINCIPAL_SIZE], approved_by[SIGNING_PRINCIPAL_SIZE];
    struct break_glass glass; /* views of these */
};

static struct result take(struct ended *ended, const char *principal, const char *approved_by, struct error *err)
{
    if (principal == NULL || approved_by == NULL || !text_copy(ended->principal, sizeof ended->principal, principal) ||
        !text_copy(ended->approved_by, sizeof ended->approved_by, approved_by))
        return failure(err, ERROR_CORRUPT, "the registry does not say who broke the glass");
    ended->glass.principal = ended->principal;
    ended->glass.approved_by = ended->approved_by;
    return SUCCESS;
}

/* Whoever is neither approver nor auditor knows only its own. */
static struct result find_own(struct session *session, const char *name, const struct ecdsa_key *key, struct ended *ended,
                              bool *is_own_out, struct error *err)
{
    char principal[SIGNING_PRINCIPAL_SIZE];
    OWNED_JSON self = NULL;

    *is_own_out = false;
    TRY(api_call_in(session, "GET", "/self", NULL, &self, err));
    const json_t *list = json_object_get(self, "break_glass");
    for (size_t i = 0; i < json_array_size(list) && !*is_own_out; i++) {
        const json_t *one = json_array_get(list, i);
        const char *found = json_text_of(one, "name");
        if (found == NULL || strcmp(found, name) != 0) continue;
        TRY(command_principal(session, principal, err));
        TRY(take(ended, principal, json_text_of(one, "approved_by"), err));
        ecdsa_key_public(key, ended->glass.point);
        *is_own_out = true;
    }
    return SUCCESS;
}

static struct result find_other(struct invocation *invocation, struct ended *ended, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON answer = NULL;
    struct break_glass glass;

    TRY(documents_find(invocation, &glasses.list, &answer, err));
    TRY(json_write_canonical(&payload, json_object_get(answer, "document"), err));
    TRY(document_read_payload(DOCUMENT_BREAK_GLASS, buffer_bytes(&payload), &document, err));
    TRY(break_glass_read(document, &glass, err));
    memcpy(ended->glass.point, glass.point, sizeof glass.point);
    return take(ended, glass.principal, json_text_of(answer, "approved_by"), err);
}

static struct result sign_and_send(struct invocation *invocation, struct session *session, const struct document_parts *parts,
                                   const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM), path = BUFFER(PATH_ROOM);
    OWNED_JSON envelope = NULL;

    TRY(document_compose(parts, &payload, err));
    TRY(documents_sign(parts->kind, buffer_bytes(&payload), key, &envelope, err));
    TRY(log_document_path(&glasses, parts->name, parts->kind == DOCUMENT_BREAK_GLASS ? "/end" : "/review", &path, err));
    return send(invocation, session, buffer_text(&path), envelope, err);
}

static struct document_parts parts_of(const struct invocation *invocation, enum document_kind kind, json_t *body)
{
    const int64_t now_ms = clock_wall_ms();

    return (struct document_parts){.kind = kind,
                                   .scope = "",
                                   .name = invocation->operands[1],
                                   .version = 1,
                                   .effective_ms = now_ms,
                                   .expires_ms = now_ms + DAY_MS,
                                   .body = body};
}

struct result command_break_glass_end(struct invocation *invocation, struct error *err)
{
    struct ended ended = {.glass.principal = NULL};
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    bool is_own = false;

    TRY(check_text(invocation, 'r', "reason", err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(find_own(session, invocation->operands[1], key, &ended, &is_own, err));
    if (!is_own) TRY(find_other(invocation, &ended, err));
    OWNED_JSON body = break_glass_body(&ended.glass);
    if (body == NULL) return api_no_memory(err);
    struct document_parts parts = parts_of(invocation, DOCUMENT_BREAK_GLASS, body);
    parts.version = 2;
    parts.withdrawn = invocation_option(invocation, 'r');
    return sign_and_send(invocation, session, &parts, key, err);
}

/* ---- the review ---- */

struct result command_break_glass_review(struct invocation *invocation, struct error *err)
{
    const char *finding = invocation_option(invocation, 'f');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;

    if (finding == NULL)
        return line_check(
            invocation,
            failure(err, ERROR_INVALID, "--finding is needed: " BREAK_GLASS_SAYS_JUSTIFIED " or " BREAK_GLASS_SAYS_OTHERWISE));
    TRY(check_text(invocation, 'n', "note", err));
    OWNED_JSON body = json_pack("{s:s, s:s}", "finding", finding, "note", invocation_option(invocation, 'n'));
    if (body == NULL) return api_no_memory(err);
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct document_parts parts = parts_of(invocation, DOCUMENT_BREAK_GLASS_REVIEW, body);
    return sign_and_send(invocation, session, &parts, key, err);
}
