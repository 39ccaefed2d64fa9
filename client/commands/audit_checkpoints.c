/* `sijil audit checkpoints` and `sijil audit consistency`: the history of the signed log, and proofs between any two of its checkpoints. */
#include <stdio.h>
#include <string.h>

#include "audit/format/merkle.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/http.h"

#define LINES 100

/* "w1 w2", the names of the keys of the witnesses. */
static json_t *names_of(const json_t *row)
{
    struct buffer OWNED_BUFFER names = BUFFER(16384);
    const json_t *one = NULL;
    struct error ignored = {0};
    size_t i = 0;

    json_array_foreach (json_object_get(row, "cosignatures"), i, one) {
        const char *name = json_text_of(one, "witness");
        if (name != NULL && !buffer_format(&names, &ignored, "%s%.255s", i == 0 ? "" : " ", name).ok) break;
    }
    return names.length == 0 ? json_null() : json_string(buffer_text(&names));
}

/* The last one: an earlier one may be of a quorum that was there before. */
static json_t *time_of(const json_t *row)
{
    const json_t *list = json_object_get(row, "cosignatures"), *one = NULL;
    const char *last = NULL;
    size_t i = 0;

    json_array_foreach (list, i, one) {
        const char *at = json_text_of(one, "at");
        if (at != NULL && (last == NULL || strcmp(at, last) > 0)) last = at;
    }
    return last == NULL ? json_null() : json_string(last);
}

/* The third line of the note. */
static json_t *root_of(const json_t *row)
{
    const char *note = json_text_of(row, "note");
    struct bytes rest = bytes_of_text(note == NULL ? "" : note);

    (void)text_cut(&rest, '\n');
    (void)text_cut(&rest, '\n');
    const struct bytes root = text_cut(&rest, '\n');
    return json_stringn((const char *)root.data, root.length);
}

static struct result add_columns(json_t *rows, struct error *err)
{
    json_t *row = NULL;
    size_t i = 0;

    json_array_foreach (rows, i, row) {
        if (json_object_set_new(row, "root", root_of(row)) != 0 || json_object_set_new(row, "witnesses", names_of(row)) != 0 ||
            json_object_set_new(row, "cosigned_at", time_of(row)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return SUCCESS;
}

static struct result add_option(const struct invocation *invocation, char letter, const char *name, struct buffer *path,
                                struct error *err)
{
    const char *value = invocation_option(invocation, letter);

    return value == NULL ? SUCCESS : audit_add_parameter(path, name, value, err);
}

static struct result add_time(const struct invocation *invocation, char letter, const char *name, struct buffer *path,
                              struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(64);
    const char *value = invocation_option(invocation, letter);

    if (value == NULL) return SUCCESS;
    TRY(audit_time_of(value, &text, err));
    return audit_add_parameter(path, name, buffer_text(&text), err);
}

static struct result compose(struct invocation *invocation, uint64_t *most, struct buffer *path, struct error *err)
{
    const char *lines = invocation_option(invocation, 'n');
    const bool is_ascending = invocation_option(invocation, 'O') != NULL;

    *most = LINES;
    if (lines != NULL && strcmp(lines, "all") == 0) *most = UINT64_MAX;
    else if (lines != NULL && (!text_to_u64(bytes_of_text(lines), INT64_MAX, most) || *most == 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "--lines is a number from 1 on, or all"));
    TRY(line_check(invocation, audit_check_form(invocation, err)));
    TRY(line_check(invocation, audit_check_times(invocation, "ft", err)));
    TRY(buffer_format(path, err, "/audit/checkpoints?order=%s&limit=%llu", is_ascending ? "ascending" : "descending",
                      (unsigned long long)(*most < 1000 ? *most : 1000)));
    TRY(add_option(invocation, 'E', "entry", path, err));
    TRY(add_time(invocation, 'f', "since", path, err));
    return add_time(invocation, 't', "until", path, err);
}

/* Rows of other signers are left out of a page, so a page may have fewer rows and a next one. */
static struct result fetch(struct session *session, const char *path, uint64_t most, json_t *rows, struct error *err)
{
    OWNED_JSON answer = NULL;

    for (;;) {
        struct buffer OWNED_BUFFER next = BUFFER(2048);
        TRY(buffer_add_text(&next, path, err));
        TRY(api_add_after(&next, json_object_get(answer, "next"), err));
        json_decref(answer);
        answer = NULL;
        TRY(api_call_in(session, "GET", buffer_text(&next), NULL, &answer, err));
        const json_t *page = json_object_get(answer, "checkpoints"), *row = NULL;
        size_t i = 0;
        json_array_foreach (page, i, row) {
            if (json_array_size(rows) == most) return SUCCESS;
            if (json_array_append(rows, (json_t *)(uintptr_t)row) != 0)
                return failure(err, ERROR_NO_MEMORY, "no memory for a list");
        }
        if (json_object_get(answer, "next") == NULL || json_array_size(rows) >= most) return SUCCESS;
    }
}

struct result command_audit_checkpoints(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"ENTRIES", "size"}, {"STORED", "stored_at"}, {"COSIGNED", "cosigned_at"}, {"WITNESSES", "witnesses"}, {"ROOT", "root"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    uint64_t most = 0;

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(compose(invocation, &most, &path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(fetch(session, buffer_text(&path), most, rows, err));
    if (invocation->json) return api_print_json(rows, err);
    TRY(add_columns(rows, err));
    const struct columns_dated dated = {columns, sizeof columns / sizeof columns[0], 1, 2};
    return audit_print_dated(invocation, rows, &dated, err);
}

static struct result read_size(struct invocation *invocation, const char *text, struct error *err)
{
    uint64_t size = 0;

    if (text_to_u64(bytes_of_text(text), MERKLE_SIZE_MAX, &size) && size > 0) return SUCCESS;
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "%.40s: the number of entries of a checkpoint that was published", text));
}

struct result command_audit_consistency(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(256);
    const char *newer = invocation->operand_count > 2 ? invocation->operands[2] : NULL;
    OWNED_RESPONSE response = RESPONSE;
    OWNED(session) *session = NULL;

    TRY(read_size(invocation, invocation->operands[1], err));
    if (newer != NULL) TRY(read_size(invocation, newer, err));
    TRY(buffer_format(&path, err, "/api/v1/audit/consistency?old=%s", invocation->operands[1]));
    if (newer != NULL) TRY(buffer_format(&path, err, "&size=%s", newer));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&response.body), err);
}
