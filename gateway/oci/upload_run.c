/* Uploads under the token of a run: its order limits the bytes (docs/runs.md, "What a run may read and write"). */
#include "gateway/oci/upload_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/content.h"

#define RESERVED_AT_ONCE ((uint64_t)16 << 20)

struct result upload_run_open(const struct request *request, struct pg *pg, struct upload_body *state, struct error *err)
{
    const struct run_grant *run = request->run;
    int64_t used = 0;

    if (run == NULL) return SUCCESS;
    TRY(run_uploaded_find(lookup_of(pg), &run->holder, &used, err));
    state->room = used < run->upload_max ? (uint64_t)(run->upload_max - used) : 0;
    return SUCCESS;
}

static struct result reserve(struct upload_body *state, struct pg *pg, uint64_t bytes, struct error *err)
{
    const struct request *request = state->recorder.request;
    const struct run_reserving reserving = {.action = request->pairs[0].action,
                                            .where = oci_where(request),
                                            .holder = &request->run->holder,
                                            .upload = &state->location.upload,
                                            .bytes = (int64_t)bytes,
                                            .most_bytes = request->run->upload_max};

    TRY(run_upload_reserve(request->permit, pg, &reserving, err));
    state->reserved = bytes;
    return SUCCESS;
}

/* A body of unknown length is counted in large pieces, as long as they fit. */
struct result upload_run_check(struct upload_body *state, struct pg *pg, uint64_t more, struct error *err)
{
    const struct run_grant *run = state->recorder.request->run;
    const uint64_t offset = upload_offset(state->upload);
    struct error ignored = {0};

    if (run == NULL) return SUCCESS;
    if (offset > state->room || more > state->room - offset)
        return failure(err, ERROR_DENIED,
                       "the order of the run allows %lld bytes of outputs and log, and so many more do not fit",
                       (long long)run->upload_max);
    if (offset + more <= state->reserved) return SUCCESS;
    if (more < RESERVED_AT_ONCE && RESERVED_AT_ONCE <= state->room - offset &&
        reserve(state, pg, offset + RESERVED_AT_ONCE, &ignored).ok)
        return SUCCESS;
    return reserve(state, pg, offset + more, err);
}

static struct run_uploaded blob_of(const struct request *request, const struct upload_body *state, char digest[DIGEST_TEXT_SIZE])
{
    digest_format(&state->digest, digest);
    return (struct run_uploaded){.action = request->pairs[0].action,
                                 .where = oci_where(request),
                                 .holder = &request->run->holder,
                                 .upload = &state->location.upload,
                                 .digest = digest,
                                 .size_bytes = (int64_t)state->length,
                                 .most_bytes = request->run->upload_max};
}

struct result upload_run_keep(const struct request *request, struct pg *pg, struct upload_body *state, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];

    if (request->run == NULL) return SUCCESS;
    state->length = upload_offset(state->upload);
    const struct run_uploaded uploaded = blob_of(request, state, digest);
    return run_uploaded_keep(request->permit, pg, &uploaded, err);
}

struct result upload_run_confirm(const struct request *request, struct pg *pg, const struct upload_body *state, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];

    if (request->run == NULL) return SUCCESS;
    const struct run_uploaded uploaded = blob_of(request, state, digest);
    return run_uploaded_confirm(request->permit, pg, &uploaded, err);
}
