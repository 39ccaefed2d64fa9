/* `sijil audit export`: all events under one key, with proof that none is missing, in one file. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/export_check.h"
#include "audit/format/witness_policy.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "crypto/random.h"

#define BLOCK_SIZE ((size_t)64 << 10) /* of the file that is read again */

/* The file is FILE.part until the closing entry is in it. So a file of the name that was asked for is a whole export. */
struct export_file {
    const char *name;
    char part[4096]; /* PATH_MAX */
    int fd;
    uint64_t length;
    uint64_t number;           /* of the export */
    struct export_terms asked; /* what the head must say: the question, or the head of the file that it goes on with */
    enum export_format format;
    const char *log_key;           /* that the reader trusts; NULL: none is known here, and no signature is checked */
    struct witness_policy *policy; /* or NULL */
    struct export_check *check;
};

static void export_file_done(struct export_file *file)
{
    export_check_free(file->check);
    witness_policy_free(file->policy);
    file_close_owned(&file->fd);
}
#define OWNED_EXPORT __attribute__((cleanup(export_file_done))) struct export_file

/* ---- the question ---- */

static struct result add_text(json_t *body, const char *name, const char *value, struct error *err)
{
    if (value == NULL || json_object_set_new(body, name, json_string(value)) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "--%s is not UTF-8", name);
}

static void draw_nonce(char nonce_out[EXPORT_NONCE_MAX + 1])
{
    uint8_t bytes[EXPORT_NONCE_MAX / 2];

    random_bytes(bytes, sizeof bytes);
    text_hex(bytes, sizeof bytes, nonce_out);
}

/* A number or a time, as the registry reads it: what its export is of is compared with what was asked for. */
struct result audit_read_bound(const char *name, const struct buffer *text, uint64_t *bound, enum export_unit *unit,
                               struct error *err)
{
    int64_t time_ms = 0;

    if (text->length == 0 || text_to_u64(buffer_bytes(text), EXPORT_NUMBER_MAX, bound)) return SUCCESS;
    if (!clock_parse(buffer_bytes(text), &time_ms) || time_ms < 0)
        return failure(err, ERROR_INVALID, "--%s is a number, a time such as 2026-11-20T10:39:46Z, or 7d, 12h, 30m ago", name);
    *bound = (uint64_t)time_ms;
    *unit = EXPORT_BY_TIME;
    return SUCCESS;
}

static struct result add_range(const struct invocation *invocation, json_t *body, struct export_terms *asked, struct error *err)
{
    struct buffer OWNED_BUFFER from = BUFFER(512), to = BUFFER(512);

    asked->until = EXPORT_NUMBER_MAX;
    TRY(audit_time_of(invocation_option(invocation, 'f'), &from, err));
    TRY(audit_time_of(invocation_option(invocation, 't'), &to, err));
    TRY(audit_read_bound("from", &from, &asked->from, &asked->unit, err));
    TRY(audit_read_bound("to", &to, &asked->until, &asked->unit, err));
    if (from.length > 0) TRY(add_text(body, "from", buffer_text(&from), err));
    return to.length == 0 ? SUCCESS : add_text(body, "to", buffer_text(&to), err);
}

static struct result make_body(const struct invocation *invocation, json_t *body, struct export_terms *asked, struct error *err)
{
    asked->is_opened = invocation_option(invocation, 'O') != NULL;
    TRY(add_text(body, "key", asked->key, err));
    TRY(add_text(body, "nonce", asked->nonce, err));
    TRY(add_text(body, "within", invocation_option(invocation, 'w'), err));
    TRY(add_text(body, "purpose", invocation_option(invocation, 'p'), err));
    TRY(add_range(invocation, body, asked, err));
    if (!asked->is_opened || json_object_set_new(body, "open", json_true()) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a request");
}

/* The answer names the export; its lines come after it. */
static struct result ask(struct invocation *invocation, struct session *session, struct export_file *file, struct error *err)
{
    const char *given = invocation_option(invocation, 'n');
    OWNED_JSON body = json_object();
    OWNED_JSON answer = NULL;
    int64_t number = 0;

    draw_nonce(file->asked.nonce);
    if (given != NULL) (void)snprintf(file->asked.nonce, sizeof file->asked.nonce, "%s", given);
    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    TRY(make_body(invocation, body, &file->asked, err));
    TRY(audit_advised(invocation, session, api_call_in(session, "POST", "/audit/exports", body, &answer, err), err));
    if (!json_integer_of(answer, "number", &number) || number < 0)
        return failure(err, ERROR_INVALID, "the registry answered without the number of the export");
    file->number = (uint64_t)number;
    return SUCCESS;
}

/* ---- the file ---- */

static struct result truncate_part(struct export_file *file, uint64_t length, struct error *err)
{
    if (ftruncate(file->fd, (off_t)length) != 0) return failure(err, ERROR_INVALID, "%.180s can't be shortened", file->part);
    file->length = length;
    return SUCCESS;
}

/* Checks what is there, and cuts off the line that was not finished. */
static struct result read_part(struct export_file *file, struct error *err)
{
    uint8_t block[BLOCK_SIZE];
    size_t length = sizeof block;

    while (length == sizeof block) {
        TRY(local(file_read_some(file->fd, block, sizeof block, file->length, &length, err), file->part, err));
        TRY(export_check_bytes(file->check, (struct bytes){block, length}, err));
        file->length += length;
    }
    return SUCCESS;
}

static struct result start_check(struct export_file *file, struct error *err)
{
    export_check_free(file->check);
    file->check = NULL;
    const struct proof_trust trust = {.vkey = bytes_of_text(file->log_key == NULL ? "" : file->log_key), .policy = file->policy};
    return export_check_new(&trust, &file->check, err);
}

/* What the reader trusts: the log's key and, with it, a policy of witnesses. */
static struct result read_trust(const struct invocation *invocation, struct export_file *file, struct error *err)
{
    const char *path = invocation_option(invocation, 'W');
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX);

    file->log_key = invocation_option(invocation, 'K');
    if (file->log_key != NULL && path != NULL) {
        TRY(local(file_read(path, &text, err), path, err));
        TRY(local(witness_policy_read(buffer_bytes(&text), &file->policy, err), path, err));
    }
    return local(start_check(file, err), "--log-key", err);
}

/* A question that differs from the one of the file would be ignored. */
static struct result check_part(const struct invocation *invocation, const struct export_head *head, struct error *err)
{
    const char *key = invocation_option(invocation, 'k'), *nonce = invocation_option(invocation, 'n');

    if (key != NULL && strcmp(key, head->terms.key) != 0)
        return failure(err, ERROR_INVALID, "--key %.80s: the file was begun with the key %.80s, and goes on with it", key,
                       head->terms.key);
    if (nonce != NULL && strcmp(nonce, head->terms.nonce) != 0)
        return failure(err, ERROR_INVALID, "--nonce is another one than that of the file, which goes on with its own");
    return SUCCESS;
}

/* An unfinished line is cut off, and the check begins again without it: it has taken that line's beginning. */
static struct result continue_part(const struct invocation *invocation, struct export_file *file, struct error *err)
{
    uint64_t last = 0;

    TRY(read_part(file, err));
    const struct export_head *head = export_check_head(file->check);
    if (head == NULL)
        return failure(err, ERROR_INVALID, "%.180s has not even the head of an export: remove it, and export again", file->part);
    TRY(check_part(invocation, head, err));
    file->number = head->closing;
    file->asked = head->terms;
    file->format = head->format;
    const uint64_t whole = file->length - export_check_pending(file->check);
    const bool has_entry = export_check_last(file->check, &last);
    if (whole == file->length && has_entry) return SUCCESS;
    TRY(truncate_part(file, has_entry ? whole : 0, err));
    TRY(start_check(file, err));
    file->length = 0;
    return read_part(file, err);
}

static struct result open_part(const struct invocation *invocation, struct export_file *file, struct error *err)
{
    const bool goes_on = invocation_option(invocation, 'c') != NULL;
    bool is_there = false;

    TRY(local(file_is_there(file->name, &is_there, err), file->name, err));
    if (is_there) return failure(err, ERROR_CONFLICT, "%.180s is there: an export replaces no file", file->name);
    const struct result opened = file_open(file->part, goes_on ? O_RDWR : O_RDWR | O_CREAT | O_EXCL, 0600, &file->fd, err);
    if (!opened.ok && err->kind == ERROR_CONFLICT)
        return failure(err, ERROR_CONFLICT, "%.180s is there: --continue goes on with it; else remove it", file->part);
    return local_output(opened, file->part, err);
}

/* ---- the lines ---- */

static struct result lines_path(const struct invocation *invocation, const struct export_file *file, struct buffer *path,
                                struct error *err)
{
    uint64_t last = 0;

    TRY(buffer_format(path, err, "/api/v1/audit/exports/%" PRIu64 "/lines?format=%s", file->number,
                      export_format_name(file->format)));
    if (export_check_last(file->check, &last))
        TRY(buffer_format(path, err, "&after=%" PRIu64 "&size=%" PRIu64, last, export_check_size(file->check)));
    return audit_add_within(invocation, '&', path, err);
}

static struct result check_question(const struct export_file *file, struct error *err)
{
    const struct export_head *head = export_check_head(file->check);

    if (head == NULL || (head->closing == file->number && export_terms_equal(&head->terms, &file->asked))) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the registry answered another question: its export has another key, range or nonce");
}

/* Each line is checked before it is written; the signature only with --log-key. */
static struct result fetch_lines(struct invocation *invocation, struct session *session, struct export_file *file,
                                 struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(lines_path(invocation, file, &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(audit_advised(invocation, session, session_call(session, ADMIN_SCOPE, &request, &response, err), err));
    const struct bytes lines = buffer_bytes(&response.body);
    TRY(export_check_bytes(file->check, lines, err));
    TRY(check_question(file, err));
    if (lines.length == 0 || export_check_pending(file->check) > 0)
        return failure(err, ERROR_INVALID, "the registry answered without a whole line of the export");
    TRY(local_output(file_write_at(file->fd, lines.data, lines.length, file->length, err), file->part, err));
    file->length += lines.length;
    return SUCCESS;
}

static void show_progress(const struct invocation *invocation, const struct export_file *file)
{
    uint64_t last = 0;

    if (invocation->json) return;
    (void)export_check_last(file->check, &last);
    terminal_progress("%" PRIu64 " events; number %" PRIu64 " of %" PRIu64, export_check_events(file->check), last, file->number);
}

static struct result fetch_all(struct invocation *invocation, struct session *session, struct export_file *file,
                               struct error *err)
{
    while (!export_check_is_complete(file->check)) {
        TRY(fetch_lines(invocation, session, file, err));
        show_progress(invocation, file);
    }
    TRY(local_output(file_sync(file->fd, err), file->part, err));
    return local_output(file_rename(file->part, file->name, err), file->name, err);
}

static struct result tell(const struct invocation *invocation, const struct export_file *file, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    OWNED_JSON value = NULL;
    struct export_report report;

    TRY(export_check_end(file->check, &report, err));
    if (report.events == 0) audit_export_tell_empty(invocation, report.terms.key);
    report.has_own_nonce = invocation_option(invocation, 'c') == NULL || invocation_option(invocation, 'n') != NULL;
    if (invocation->json) {
        TRY(export_report_json(&report, &text, err));
        TRY(json_read(buffer_bytes(&text), text.maximum, &value, err));
        return api_print_json(value, err);
    }
    (void)printf("%s: %" PRIu64 " events under %s; nonce %s\n", file->name, report.events, report.terms.key, report.terms.nonce);
    if (file->log_key != NULL) {
        TRY(export_report_text(&report, &text, err));
        (void)fputs(buffer_text(&text), stdout);
        return SUCCESS;
    }
    (void)printf("Check it, on any machine: sijil-verify export --key VKEY --nonce %s %s\n", report.terms.nonce, file->name);
    return SUCCESS;
}

static struct result check_line(const struct invocation *invocation, struct export_file *file, struct error *err)
{
    const char *format = invocation_option(invocation, 'F'), *nonce = invocation_option(invocation, 'n');
    const char *key = invocation_option(invocation, 'k');
    const bool goes_on = invocation_option(invocation, 'c') != NULL;

    file->name = invocation_option(invocation, 'o');
    if (file->name == NULL) return failure(err, ERROR_INVALID, "--output FILE is needed: an export goes into a file");
    if (key != NULL && strlen(key) > LEAF_KEY_MAX) return failure(err, ERROR_INVALID, "--key has at most %d bytes", LEAF_KEY_MAX);
    if (!goes_on && key == NULL && audit_export_conditions(invocation) == 0)
        return failure(err, ERROR_INVALID, "--key KEY is needed: such as res:acme/models/digits, org:acme or out:denied");
    if (goes_on && (audit_export_conditions(invocation) > 0 || invocation_option(invocation, 'f') != NULL ||
                    invocation_option(invocation, 't') != NULL))
        return failure(err, ERROR_INVALID, "--continue goes on with the question of the file: give no conditions, and no range");
    if (format != NULL && !export_format_find(format, &file->format))
        return failure(err, ERROR_INVALID, "--format is ndjson, csv or ocsf");
    if (nonce != NULL && !export_nonce_is_valid(bytes_of_text(nonce)))
        return failure(err, ERROR_INVALID, "--nonce has 32 to 64 hexadecimal digits in lower case");
    TRY(audit_check_times(invocation, "ft", err));
    if ((size_t)snprintf(file->part, sizeof file->part, "%s.part", file->name) < sizeof file->part) return SUCCESS;
    return failure(err, ERROR_INVALID, "the name of the file is too long");
}

static struct result ask_or_remove(struct invocation *invocation, struct session *session, struct export_file *file,
                                   struct error *err)
{
    const struct result asked = ask(invocation, session, file, err);

    if (!asked.ok) (void)unlink(file->part); /* nothing is in it */
    return asked;
}

static void advise_to_continue(struct invocation *invocation, const struct export_file *file)
{
    char advice[sizeof file->part + 80];

    (void)snprintf(advice, sizeof advice, "%s is kept: --continue goes on with it, as the login that has begun it", file->part);
    invocation_explain(invocation, "part", advice);
}

struct result command_audit_export(struct invocation *invocation, struct error *err)
{
    OWNED_EXPORT file = {.fd = -1};
    OWNED(session) *session = NULL;

    TRY(line_check(invocation, check_line(invocation, &file, err)));
    TRY(read_trust(invocation, &file, err));
    if (invocation_option(invocation, 'c') == NULL) TRY(audit_export_key(invocation, file.asked.key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(open_part(invocation, &file, err));
    if (invocation_option(invocation, 'c') != NULL) {
        TRY(continue_part(invocation, &file, err));
    } else {
        TRY(ask_or_remove(invocation, session, &file, err));
    }
    struct result fetched = audit_await_event(invocation, session, file.number, err);
    if (fetched.ok) fetched = fetch_all(invocation, session, &file, err);
    terminal_progress_end();
    if (!fetched.ok && file.length > 0) advise_to_continue(invocation, &file);
    if (file.length == 0) (void)unlink(file.part); /* --continue could not go on with it */
    TRY(fetched);
    return tell(invocation, &file, err);
}
