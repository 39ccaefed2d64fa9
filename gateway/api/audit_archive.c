/* /api/v1/audit/archives: moves old entries of the log into a region, some pieces with each request (docs/audit.md, "Old entries in another place"). */
#include <stdio.h>

#include "audit/archive.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"

#define PIECES_OF_A_REQUEST ARCHIVE_PIECES_MAX /* 32,768 entries: about two seconds */

SCHEMA(audit_archive_wanted, "entries of the log that are to be in a region",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region that gets them"),
       HAS_TEXT("before", REQUIRED, FORM_FREE, 1, 35,
                "the number or the time (RFC 3339) before which entries are archived; whole pieces of 4,096 entries only"))

SCHEMA(audit_archive, "what this request has archived",
       HAS_COUNT("archived", REQUIRED, "entries that this request has archived: at most 32,768"),
       HAS_COUNT("archived_to", REQUIRED, "all entries before this number are archived"),
       HAS_FLAG("done", REQUIRED, "whether all whole pieces before `before` are archived; false: ask again"))

static struct result read_before(const char *text, uint64_t *number, int64_t *time_ms, struct error *err)
{
    if (text_to_u64(bytes_of_text(text), INT64_MAX, number)) return SUCCESS;
    if (clock_parse(bytes_of_text(text), time_ms) && *time_ms > 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "before is a sequence number, or a time such as 2026-11-20T10:39:46Z (RFC 3339)");
}

/* The decision needs the region, so the body is read before it. */
struct result target_audit_archive(struct request *request, struct lookup *lookup, struct error *err)
{
    const json_t *body = NULL;
    uint64_t number = 0;
    int64_t time_ms = 0;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_AUDIT_ARCHIVE)) return SUCCESS;
    TRY(request_document(request, &body, err));
    const char *before = json_text_of(body, "before");
    TRY(read_before(before, &number, &time_ms, err));
    struct resource *where = api_pair(request, ACTION_AUDIT_ARCHIVE, RESOURCE_SYSTEM, "");
    (void)snprintf(where->region, sizeof where->region, "%s", json_text_of(body, "region"));
    (void)snprintf(where->detail, sizeof where->detail, "%.35s", before);
    return SUCCESS;
}

/* Decided again if the rights or the policies have changed since the bytes began to move. */
static struct result note_pieces(struct request *request, struct archive_commit *commit, struct error *err)
{
    char note[64];

    if (commit->count == 0) return SUCCESS;
    (void)snprintf(note, sizeof note, "entries %llu to %llu", (unsigned long long)(commit->first * ARCHIVE_PIECE),
                   (unsigned long long)((commit->first + commit->count) * ARCHIVE_PIECE - 1));
    const struct result noted = request_record_outcome(request, OUTCOME_COMPLETED, note, &commit->change, err);
    if (!noted.ok && (err->kind == ERROR_DENIED || err->kind == ERROR_CONFLICT)) archive_drop(commit);
    return noted;
}

static struct result handle_archive(struct request *request, struct pg *pg, struct error *err)
{
    struct signed_checkpoint newest;
    struct archive_step step = {.pieces = PIECES_OF_A_REQUEST, .newest = &newest};
    struct archive_progress progress;
    struct archive_commit commit;
    const json_t *body = NULL;
    int64_t time_ms = 0;

    TRY(request_document(request, &body, err));
    TRY(sequencer_checkpoint(request->gateway->sequencer, &newest, err));
    TRY(read_before(json_text_of(body, "before"), &step.before, &time_ms, err));
    if (time_ms > 0) TRY(archive_entry_at(request->permit, pg, time_ms, newest.size, &step.before, err));
    TRY(archive_run(request->permit, pg, &step, &commit, &progress, err));
    TRY(note_pieces(request, &commit, err));
    OWNED_JSON answer = json_pack("{s:I,s:I,s:b}", "archived", (json_int_t)(progress.archived * ARCHIVE_PIECE), "archived_to",
                                  (json_int_t)progress.next, "done", progress.is_done);
    if (answer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_json(request, 200, answer);
    return SUCCESS;
}

const struct handler handler_audit_archive = {.handle = handle_archive};
