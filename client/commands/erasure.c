/* `sijil admin erase`, `admin erasure ...` and `admin hold ...`: erasing persons from the log, and stopping that (docs/erasure.md). The key signs on this
 * machine; only signed documents are sent, and they name a person by the pseudonym alone. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "documents/format/erasure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATH_ROOM    1024
#define DAY_MS       INT64_C(86400000)
#define BASE         "/erasures"
#define HOLDS        "/holds"
#define DAYS_DEFAULT 7
#define HOLD_DAYS    366
#define PAYLOAD_ROOM ERASURE_BYTES_MAX

static const struct documents_list erasures = {BASE, "erasures", "erasure", true};

/* ---- the plan ---- */

static void print_parts(FILE *stream, const char *title, const json_t *parts)
{
    char what[CELL_MAX], why[CELL_MAX], count[CELL_MAX];

    (void)fprintf(stream, "%s\n", title);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        cell_text(json_object_get(part, "what"), what);
        cell_text(json_object_get(part, "count"), count);
        cell_text(json_object_get(part, "why"), why);
        (void)fprintf(stream, "  %6s  %s%s%s\n", count, what, json_object_get(part, "why") == NULL ? "" : ": ",
                      json_object_get(part, "why") == NULL ? "" : why);
    }
}

static void print_refusals(FILE *stream, const json_t *refused)
{
    char rule[CELL_MAX], why[CELL_MAX];

    for (size_t i = 0; i < json_array_size(refused); i++) {
        cell_text(json_object_get(json_array_get(refused, i), "rule"), rule);
        cell_text(json_object_get(json_array_get(refused, i), "why"), why);
        (void)fprintf(stream, "forbidden now by %s: %s\n", rule, why);
    }
}

static void print_plan(FILE *stream, const json_t *plan)
{
    static const char *const members[] = {"pseudonym", "events", "newest", "erasable_from"};
    char cell[CELL_MAX];

    for (size_t i = 0; i < COUNT(members); i++) {
        cell_text(json_object_get(plan, members[i]), cell);
        (void)fprintf(stream, "%-14s %s\n", members[i], cell);
    }
    print_parts(stream, "goes:", json_object_get(plan, "goes"));
    print_parts(stream, "stays:", json_object_get(plan, "stays"));
    print_refusals(stream, json_object_get(plan, "refused"));
}

static struct result fetch_plan(const struct invocation *invocation, struct session *session, const char *subject,
                                json_t **plan_out, struct error *err)
{
    OWNED_JSON body = json_pack("{s:s, s:s*, s:s*}", "subject", subject, "issuer", invocation_option(invocation, 'i'), "purpose",
                                invocation_option(invocation, 'u'));
    OWNED_JSON plan = NULL;

    if (body == NULL) return failure(err, ERROR_INVALID, "the name is not UTF-8");
    TRY(api_call_in(session, "POST", BASE "/plan", body, &plan, err));
    const char *pseudonym = json_text_of(plan, "pseudonym");
    if (pseudonym == NULL || !erasure_pseudonym_is_valid(pseudonym))
        return failure(err, ERROR_INVALID, "the registry answered without a pseudonym");
    *plan_out = GIVE(plan);
    return SUCCESS;
}

/* ---- signing ---- */

/* Reads the document from the bytes that the first person has signed. The registry's description of it is not trusted. */
static struct result read_draft(enum document_kind kind, const json_t *draft, struct document **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENT_ENVELOPE_MAX(PAYLOAD_ROOM));
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&text, json_array_get(json_object_get(draft, "envelopes"), 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != kind || strcmp(document->name, json_text_of(draft, "name")) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with another draft");
    (void)fprintf(stderr, "You sign: %s %s\n",
                  kind == DOCUMENT_ERASURE ? "the erasure of the person with the pseudonym"
                  : document->is_withdrawn ? "the release of the hold"
                                           : "a later version of the hold",
                  document->name);
    TRY(documents_show_member("body", json_object_get(document->json, "body"), err));
    if (document->is_withdrawn) TRY(documents_show_member("withdrawn", json_object_get(document->json, "withdrawn"), err));
    *document_out = GIVE(document);
    return SUCCESS;
}

static struct result print_document(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document");
    OWNED_JSON shown = json_pack("{s:O?, s:O?, s:O*, s:O?, s:O?, s:O*}", "name", json_object_get(answer, "name"), "state",
                                 json_object_get(answer, "state"), "event", json_object_get(answer, "event"), "version",
                                 json_object_get(document, "version"), "body", json_object_get(document, "body"), "expires",
                                 json_object_get(document, "expires"));

    return shown == NULL ? api_no_memory(err) : api_print(invocation, shown, err);
}

static struct result send(const struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return print_document(invocation, answer, err);
}

/* A draft of the list has a name: draft_in() found it by that. */
static struct result approve(const struct invocation *invocation, struct session *session, enum document_kind kind,
                             const json_t *draft, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON body = NULL;

    TRY(read_draft(kind, draft, &document, err));
    TRY(documents_sign_too(draft, document, key, &body, err));
    TRY(documents_path_of(kind == DOCUMENT_ERASURE ? BASE : HOLDS, document->name, "/approval", NULL, &path, err));
    return send(invocation, session, buffer_text(&path), body, err);
}

static struct result compose(enum document_kind kind, const char *name, const struct document_parts *more, struct buffer *payload,
                             struct error *err)
{
    struct document_parts parts = *more;

    parts.kind = kind;
    parts.scope = "";
    parts.name = name;
    parts.effective_ms = clock_wall_ms();
    parts.expires_ms += parts.effective_ms;
    return document_compose(&parts, payload, err);
}

/* The number of the newest version of a document of the list; 0 if there is none. */
static int64_t version_in(const json_t *rows, const char *name)
{
    int64_t version = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *found = json_text_of(row, "name");
        if (found == NULL || strcmp(found, name) != 0 || json_object_get(row, "envelope") != NULL) continue;
        (void)json_integer_of(json_object_get(row, "document"), "version", &version);
    }
    return version;
}

static const json_t *draft_in(const json_t *rows, const char *name)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *found = json_text_of(row, "name");
        if (found != NULL && strcmp(found, name) == 0 && json_object_get(row, "envelope") != NULL) return row;
    }
    return NULL;
}

static struct result ask(const struct invocation *invocation, struct session *session, const char *pseudonym, int64_t version,
                         const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    OWNED_JSON body = json_pack("{s:s*}", "reason", invocation_option(invocation, 'r'));
    OWNED_JSON envelope = NULL;

    if (invocation_option(invocation, 'r') == NULL)
        return failure(err, ERROR_INVALID, "--reason is needed: why the person is erased, without its name");
    if (body == NULL) return failure(err, ERROR_INVALID, "the reason is not UTF-8");
    const struct document_parts parts = {.version = (uint64_t)version + 1, .expires_ms = DAYS_DEFAULT * DAY_MS, .body = body};
    TRY(compose(DOCUMENT_ERASURE, pseudonym, &parts, &payload, err));
    TRY(documents_sign(DOCUMENT_ERASURE, buffer_bytes(&payload), key, &envelope, err));
    return send(invocation, session, BASE, envelope, err);
}

/* The first signature, or the second one if a draft waits. */
static struct result sign(struct invocation *invocation, struct session *session, const json_t *plan, const struct ecdsa_key *key,
                          struct error *err)
{
    const char *pseudonym = json_text_of(plan, "pseudonym");
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    print_plan(stderr, plan);
    TRY(documents_get_all(invocation, session, &erasures, rows, err));
    const json_t *draft = draft_in(rows, pseudonym);
    if (draft != NULL) return approve(invocation, session, DOCUMENT_ERASURE, draft, key, err);
    return ask(invocation, session, pseudonym, version_in(rows, pseudonym), key, err);
}

struct result command_admin_erase(struct invocation *invocation, struct error *err)
{
    const bool signs = invocation_option(invocation, 'k') != NULL || invocation_option(invocation, 'P') != NULL;
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON plan = NULL;

    if (signs) TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(fetch_plan(invocation, session, invocation->operands[1], &plan, err));
    if (signs) return sign(invocation, session, plan, key, err);
    if (invocation->json) return api_print_json(plan, err);
    print_plan(stdout, plan);
    return SUCCESS;
}

/* ---- lists ---- */

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body"), *work = json_object_get(row, "work");
        json_t *shown = json_pack("{s:O?, s:O?, s:O*, s:O*, s:O*, s:O*, s:O*, s:O?, s:O*, s:O*, s:O*, s:O*}", "name",
                                  json_object_get(row, "name"), "state", json_object_get(row, "state"), "event",
                                  json_object_get(row, "event"), "work", json_object_get(work, "state"), "payloads",
                                  json_object_get(work, "payloads"), "missing", json_object_get(row, "missing"), "subject",
                                  json_object_get(body, "subject"), "expires", json_object_get(document, "expires"), "reason",
                                  json_object_get(body, "reason"), "withdrawn", json_object_get(document, "withdrawn"), "content",
                                  json_object_get(body, "content"), "digest", json_object_get(body, "digest"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

static struct result list(struct invocation *invocation, const struct documents_list *which, const struct column *columns,
                          size_t count, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, which, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, count, err);
}

struct result command_erasure_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"PSEUDONYM", "name"}, {"STATE", "state"},     {"WORK", "work"},
                                            {"PARTS", "payloads"}, {"MISSING", "missing"}, {"EVENT", "event"},
                                            {"REASON", "reason"}};

    return list(invocation, &erasures, columns, COUNT(columns), err);
}

static struct result reject(struct invocation *invocation, const char *base, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;

    TRY(documents_path_of(base, invocation->operands[1], "/drafts", NULL, &path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err);
}

struct result command_erasure_reject(struct invocation *invocation, struct error *err)
{
    return reject(invocation, BASE, err);
}

struct result command_erasure_certificate(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    const char *output = invocation_option(invocation, 'o');
    OWNED_RESPONSE response = RESPONSE;
    OWNED(session) *session = NULL;

    TRY(buffer_add_text(&path, "/api/v1" BASE "/", err));
    TRY(http_escape(&path, invocation->operands[1], err));
    TRY(buffer_add_text(&path, "/certificate", err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    return api_output(invocation, output, buffer_bytes(&response.body), err);
}

/* ---- holds ---- */

static const struct documents_list holds = {HOLDS, "holds", "hold", true};

static struct result days_of(struct invocation *invocation, uint64_t *days_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'e');

    *days_out = HOLD_DAYS;
    if (text == NULL || (text_to_u64(bytes_of_text(text), HOLD_DAYS_MAX, days_out) && *days_out > 0)) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--expires: 1 to %d days", HOLD_DAYS_MAX));
}

/* A name is looked up, because the document has the pseudonym. */
static struct result subject_of(const struct invocation *invocation, struct session *session,
                                char subject_out[ERASURE_PSEUDONYM_SIZE], struct error *err)
{
    const char *subject = invocation_option(invocation, 's');
    OWNED_JSON plan = NULL;

    (void)snprintf(subject_out, ERASURE_PSEUDONYM_SIZE, "%s", HOLD_OF_ALL);
    if (subject == NULL) return SUCCESS;
    TRY(fetch_plan(invocation, session, subject, &plan, err));
    (void)snprintf(subject_out, ERASURE_PSEUDONYM_SIZE, "%s", json_text_of(plan, "pseudonym"));
    return SUCCESS;
}

static struct result next_version(const struct invocation *invocation, struct session *session, int64_t *version_out,
                                  struct error *err)
{
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    TRY(documents_get_all(invocation, session, &holds, rows, err));
    *version_out = version_in(rows, invocation->operands[1]) + 1;
    return SUCCESS;
}

static struct result send_hold(struct invocation *invocation, struct session *session, struct document_parts *parts,
                               const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM), path = BUFFER(PATH_ROOM);
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    TRY(next_version(invocation, session, &version, err));
    parts->version = (uint64_t)version;
    TRY(compose(DOCUMENT_LEGAL_HOLD, invocation->operands[1], parts, &payload, err));
    TRY(documents_sign(DOCUMENT_LEGAL_HOLD, buffer_bytes(&payload), key, &envelope, err));
    if (parts->withdrawn == NULL) TRY(buffer_add_text(&path, HOLDS, err));
    else TRY(documents_path_of(HOLDS, invocation->operands[1], "/withdrawal", NULL, &path, err));
    return send(invocation, session, buffer_text(&path), envelope, err);
}

/* {"subject"} or {"content", "digest"}, and the reason. */
static struct result hold_body(struct invocation *invocation, struct session *session, json_t **body_out, struct error *err)
{
    const char *content = invocation_option(invocation, 'c');
    char subject[ERASURE_PSEUDONYM_SIZE];

    if (content == NULL) TRY(subject_of(invocation, session, subject, err));
    *body_out = json_pack("{s:s*, s:s*, s:s*, s:s}", "subject", content == NULL ? subject : NULL, "content", content, "digest",
                          invocation_option(invocation, 'd'), "reason", invocation_option(invocation, 'r'));
    return *body_out != NULL ? SUCCESS : failure(err, ERROR_INVALID, "the reason or the content is not UTF-8");
}

static struct result check_add(struct invocation *invocation, struct error *err)
{
    const int what = (invocation_option(invocation, 's') != NULL) + (invocation_option(invocation, 'a') != NULL) +
                     (invocation_option(invocation, 'c') != NULL);

    if (invocation_option(invocation, 'r') != NULL && what == 1 &&
        (invocation_option(invocation, 'd') == NULL || invocation_option(invocation, 'c') != NULL))
        return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID,
                                          "--reason is needed, and one of --subject, --all and --content: what the hold "
                                          "protects; --digest goes with --content"));
}

struct result command_hold_add(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON body = NULL;
    uint64_t days = 0;

    TRY(check_add(invocation, err));
    TRY(days_of(invocation, &days, err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(hold_body(invocation, session, &body, err));
    struct document_parts parts = {.expires_ms = (int64_t)days * DAY_MS, .body = body};
    return send_hold(invocation, session, &parts, key, err);
}

/* The first signature, or the second one if a draft waits. */
struct result command_hold_release(struct invocation *invocation, struct error *err)
{
    const char *reason = invocation_option(invocation, 'r');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON nothing = json_object();
    OWNED_JSON rows = json_array();

    if (rows == NULL || nothing == NULL) return api_no_memory(err);
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &holds, rows, err));
    const json_t *draft = draft_in(rows, invocation->operands[1]);
    if (draft != NULL && reason == NULL) return approve(invocation, session, DOCUMENT_LEGAL_HOLD, draft, key, err);
    if (reason == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID,
                                              "--reason is needed: why the hold no longer counts. Without it the release "
                                              "that another person has signed is signed, and none waits"));
    struct document_parts parts = {.expires_ms = (HOLD_DAYS_MAX - 1) * DAY_MS, .withdrawn = reason, .body = nothing};
    return send_hold(invocation, session, &parts, key, err);
}

struct result command_hold_show(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;

    TRY(documents_path_of(HOLDS, invocation->operands[1], "", NULL, &path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_document(invocation, answer, err);
}

struct result command_hold_reject(struct invocation *invocation, struct error *err)
{
    return reject(invocation, HOLDS, err);
}

struct result command_hold_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"HOLD", "name"},     {"STATE", "state"},     {"MISSING", "missing"}, {"SUBJECT", "subject"}, {"CONTENT", "content"},
        {"DIGEST", "digest"}, {"EXPIRES", "expires"}, {"EVENT", "event"},     {"REASON", "reason"},   {"RELEASED", "withdrawn"}};

    return list(invocation, &holds, columns, COUNT(columns), err);
}
