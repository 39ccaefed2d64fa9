#include "client/upload.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "crypto/digest.h"

#define WHOLE_MAX     ((uint64_t)4 << 20) /* this many bytes are quickly sent again after a broken connection */
#define ATTEMPTS_MAX  8                   /* with waits of 1, 2, 4 ... 64 s: over two minutes without progress */
#define QUESTIONS_MAX 4                   /* with waits of 1, 2 and 4 s */

/* The state of one upload. */
struct transfer {
    const struct upload *upload;
    struct progress progress;
    char location[2048], note_path[PATH_MAX];
    uint64_t offset;
};

/* Leaves note_path "" if there is no folder for notes, or if the path is too long. */
static void find_note(struct transfer *transfer)
{
    const struct upload *upload = transfer->upload;
    struct buffer OWNED_BUFFER name = BUFFER(1024);
    uint8_t hash[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    struct error ignored = {0};

    if (upload->notes == NULL) return;
    if (!buffer_format(&name, &ignored, "%s\n%s\n%s", upload->host, upload->repository, upload->digest).ok) return;
    sha256_of(buffer_bytes(&name), hash);
    text_hex(hash, sizeof hash, text);
    const int length = snprintf(transfer->note_path, sizeof transfer->note_path, "%s/upload-%s", upload->notes, text);
    if (length >= (int)sizeof transfer->note_path) transfer->note_path[0] = '\0';
}

struct result upload_is_there(const struct upload *upload, bool *there_out, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(buffer_format(&path, err, "/v2/%s/blobs/%s", upload->repository, upload->digest));
    const struct http_request request = {.method = "HEAD", .path = buffer_text(&path), .wanted = 200, .also = 404};
    TRY(session_call(upload->session, upload->scope, &request, &response, err));
    *there_out = response.status == 200;
    return SUCCESS;
}

/* "0-99" means 100 bytes. "0-0" means one byte or none (docs/decisions/0015-range-of-nothing.md), and so does a missing Range header.
 * Neither is worth another request, so both count as none. */
static bool offset_of_range(const char *range, uint64_t *offset_out)
{
    uint64_t last = 0;

    if (range[0] != '\0' && (strncmp(range, "0-", 2) != 0 || !text_to_u64(bytes_of_text(range + 2), INT64_MAX, &last)))
        return false;
    *offset_out = last == 0 ? 0 : last + 1;
    return true;
}

/* A broken connection is retried from the registry's offset; a refusal is not. After a break the registry may still work on earlier bytes for
 * a few seconds: then it answers with a conflict, or has more bytes than it said. */
static bool may_pass(const struct error *err)
{
    return err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_CONFLICT;
}

/* After a question about a session that was not answered: whether to ask again. */
static bool asks_again(const struct transfer *transfer, unsigned attempt, const struct error *err)
{
    struct session *session = transfer->upload->session;

    if (!may_pass(err) || attempt >= QUESTIONS_MAX - 1 || session_gives_up(session)) return false;
    session_pause(session, 1u << attempt, err); /* 1, 2, 4 s */
    return true;
}

/* Ends a session that will not be resumed. If that fails, it expires. */
static void end_session(struct transfer *transfer)
{
    const struct http_request request = {.method = "DELETE", .path = transfer->location, .is_session = true, .wanted = 204};

    for (unsigned attempt = 0;; attempt++) {
        OWNED_RESPONSE response = RESPONSE;
        struct error why = {0};
        if (session_call(transfer->upload->session, transfer->upload->scope, &request, &response, &why).ok) return;
        if (!asks_again(transfer, attempt, &why)) return;
    }
}

/* Asks for the session's offset. ERROR_NOT_FOUND if the session is gone or empty. */
static struct result ask_offset(struct transfer *transfer, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    const struct http_request request = {.method = "GET", .path = transfer->location, .is_session = true, .wanted = 204};

    TRY(session_call(transfer->upload->session, transfer->upload->scope, &request, &response, err));
    if (!offset_of_range(response.range, &transfer->offset) || transfer->offset > transfer->upload->size)
        return failure(err, ERROR_INVALID, "the registry's Range '%s' makes no sense", response.range);
    if (response.location[0] != '\0') (void)snprintf(transfer->location, sizeof transfer->location, "%s", response.location);
    if (transfer->offset > 0) return SUCCESS;
    end_session(transfer);
    return failure(err, ERROR_NOT_FOUND, "the upload has no bytes to continue from");
}

static struct result take_session(struct transfer *transfer, const struct http_response *response, struct error *err)
{
    struct error ignored = {0};

    if (response->location[0] == '\0') return failure(err, ERROR_INVALID, "the registry began an upload without a Location");
    (void)snprintf(transfer->location, sizeof transfer->location, "%s", response->location);
    transfer->offset = 0;
    /* Without the note a broken push starts over, which is no reason to fail this one. */
    if (transfer->note_path[0] != '\0' &&
        !file_replace(transfer->note_path, bytes_of_text(transfer->location), 0600, &ignored).ok)
        transfer->note_path[0] = '\0';
    return SUCCESS;
}

static struct result begin_session(struct transfer *transfer, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(2048);

    TRY(buffer_format(&path, err, "/v2/%s/blobs/uploads/", transfer->upload->repository));
    const struct http_request request = {.method = "POST", .path = buffer_text(&path), .wanted = 202};
    TRY(session_call(transfer->upload->session, transfer->upload->scope, &request, &response, err));
    return take_session(transfer, &response, err);
}

/* A registry that accepts no blob in a POST answers with a session, as to any other POST. */
static struct result post_whole(struct transfer *transfer, bool *done_out, struct error *err)
{
    const struct upload *upload = transfer->upload;
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(4096);
    const struct http_upload body = {.fd = upload->fd, .length = upload->size};

    TRY(buffer_format(&path, err, "/v2/%s/blobs/uploads/?digest=", upload->repository));
    TRY(http_escape(&path, upload->digest, err));
    const struct http_request request = {.method = "POST",
                                         .path = buffer_text(&path),
                                         .content_type = "application/octet-stream",
                                         .upload = &body,
                                         .wanted = 201,
                                         .also = 202};
    TRY(session_call(upload->session, upload->scope, &request, &response, err));
    const bool is_done = response.status == 201;
    if (!is_done) {
        atomic_store(upload->wants_sessions, true);
        TRY(take_session(transfer, &response, err));
    }
    *done_out = is_done;
    return SUCCESS;
}

/* *resumes_out false: the session is gone, or has nothing to continue from. A registry that can't answer just now has it still: its bytes are not sent
 * anew, and no second session is begun beside it. */
static struct result resume(struct transfer *transfer, bool *resumes_out, struct error *err)
{
    for (unsigned attempt = 0;; attempt++) {
        const struct result asked = ask_offset(transfer, err);
        *resumes_out = asked.ok;
        if (asked.ok || !may_pass(err)) return SUCCESS;
        if (!asks_again(transfer, attempt, err)) return asked;
    }
}

static struct result begin_or_resume(struct transfer *transfer, struct error *err)
{
    struct buffer OWNED_BUFFER noted = BUFFER(sizeof transfer->location - 1);
    struct error ignored = {0};
    bool resumes = false;

    if (transfer->note_path[0] != '\0' && file_read(transfer->note_path, &noted, &ignored).ok) {
        (void)snprintf(transfer->location, sizeof transfer->location, "%s", buffer_text(&noted));
        TRY(resume(transfer, &resumes, err));
    }
    return resumes ? SUCCESS : begin_session(transfer, err);
}

static bool may_go_whole(const struct transfer *transfer)
{
    const struct upload *upload = transfer->upload;

    return upload->size > 0 && upload->size <= WHOLE_MAX && !atomic_load(upload->wants_sessions) &&
           (transfer->note_path[0] == '\0' || access(transfer->note_path, F_OK) != 0);
}

/* A refusal that a session would get too is final. */
static bool may_do_as_session(const struct error *err)
{
    return may_pass(err) || err->kind == ERROR_INVALID;
}

/* After a success the blob is there, or a session for it. */
static struct result begin(struct transfer *transfer, bool *done_out, struct error *err)
{
    find_note(transfer);
    if (!may_go_whole(transfer)) return begin_or_resume(transfer, err);
    const struct result posted = post_whole(transfer, done_out, err);
    if (posted.ok || !may_do_as_session(err) || session_gives_up(transfer->upload->session)) return posted;
    return begin_or_resume(transfer, err);
}

static void on_moved(void *context, uint64_t bytes)
{
    struct transfer *transfer = context;

    progress_set(&transfer->progress, transfer->offset + bytes);
}

static struct result send_rest(struct transfer *transfer, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    char range[64];
    const struct http_upload body = {
        .fd = transfer->upload->fd, .offset = transfer->offset, .length = transfer->upload->size - transfer->offset};

    (void)snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, transfer->offset, transfer->upload->size - 1);
    const struct http_request request = {.method = "PATCH",
                                         .path = transfer->location,
                                         .is_session = true,
                                         .content_range = range,
                                         .content_type = "application/octet-stream",
                                         .upload = &body,
                                         .moved = on_moved,
                                         .moved_context = transfer,
                                         .wanted = 202};
    TRY(session_call(transfer->upload->session, transfer->upload->scope, &request, &response, err));
    transfer->offset = transfer->upload->size;
    if (response.location[0] != '\0') (void)snprintf(transfer->location, sizeof transfer->location, "%s", response.location);
    return SUCCESS;
}

static struct result close_session(struct transfer *transfer, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(4096);

    TRY(buffer_format(&path, err, "%s%sdigest=", transfer->location, strchr(transfer->location, '?') == NULL ? "?" : "&"));
    TRY(http_escape(&path, transfer->upload->digest, err));
    const struct http_request request = {.method = "PUT", .path = buffer_text(&path), .is_session = true, .wanted = 201};
    return session_call(transfer->upload->session, transfer->upload->scope, &request, &response, err);
}

/* libcurl repeats a request without an answer. The second closing PUT then finds the session ended by the first. */
static struct result close_or_find(struct transfer *transfer, struct error *err)
{
    const struct result closed = close_session(transfer, err);
    struct error ignored = {0};
    bool there = false;

    if (closed.ok || err->kind != ERROR_NOT_FOUND) return closed;
    return upload_is_there(transfer->upload, &there, &ignored).ok && there ? SUCCESS : closed;
}

/* Asks for the registry's offset. If the session is gone, the blob may be complete, because the answer to the closing PUT was lost; else a
 * new session begins. If the question fails, the next attempt asks again. */
static struct result recover_offset(struct transfer *transfer, bool *there_out, struct error *err)
{
    struct error again = {0};

    if (ask_offset(transfer, &again).ok || again.kind != ERROR_NOT_FOUND) return SUCCESS;
    if (!upload_is_there(transfer->upload, there_out, &again).ok || *there_out) return SUCCESS;
    return begin_session(transfer, err);
}

static struct result send_with_patience(struct transfer *transfer, struct error *err)
{
    uint64_t best = transfer->offset;

    for (unsigned attempt = 0;; attempt++) {
        struct result sent = transfer->offset == transfer->upload->size ? SUCCESS : send_rest(transfer, err);
        if (sent.ok) sent = close_or_find(transfer, err);
        if (sent.ok || !may_pass(err) || attempt == ATTEMPTS_MAX - 1) return sent;
        session_pause(transfer->upload->session, 1u << (attempt < 6 ? attempt : 6), err); /* 1, 2, 4 ... 64 s */
        if (session_gives_up(transfer->upload->session)) return sent;
        bool there = false;
        TRY(recover_offset(transfer, &there, err));
        if (there) return SUCCESS;
        if (transfer->offset > best) best = transfer->offset, attempt = 0;
    }
}

struct result upload_blob(const struct upload *upload, struct error *err)
{
    struct transfer transfer = {.upload = upload};
    bool there = false, done = false;

    if (!upload->always) TRY(upload_is_there(upload, &there, err));
    if (there) {
        progress_begin_in(&transfer.progress, upload->group, upload->label, upload->size, upload->size, upload->quiet);
        progress_end(&transfer.progress, "there already");
        return SUCCESS;
    }
    TRY(begin(&transfer, &done, err));
    progress_begin_in(&transfer.progress, upload->group, upload->label, transfer.offset, upload->size, upload->quiet);
    const bool resumed = transfer.offset > 0;
    const struct result sent = done ? SUCCESS : send_with_patience(&transfer, err);
    /* A digest that the registry refused will be refused again, so the session is forgotten then too. */
    if (transfer.note_path[0] != '\0' && (sent.ok || !may_pass(err))) (void)unlink(transfer.note_path);
    if (!sent.ok) return sent;
    progress_set(&transfer.progress, upload->size);
    progress_end(&transfer.progress, resumed ? "pushed (resumed)" : "pushed");
    return SUCCESS;
}
