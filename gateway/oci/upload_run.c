/* Uploads under the token of a run: its order limits the bytes (docs/runs.md, "What a run may read and write"). */
#include "gateway/oci/upload_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/content.h"

struct result upload_run_open(const struct request *request, struct pg *pg, struct upload_body *state, struct error *err)
{
    const struct run_grant *run = request->run;
    int64_t used = 0;

    if (run == NULL) return SUCCESS;
    TRY(run_uploaded_find(lookup_of(pg), &run->holder, &used, err));
    state->room = used < run->upload_max ? (uint64_t)(run->upload_max - used) : 0;
    return SUCCESS;
}

struct result upload_run_check(const struct upload_body *state, uint64_t more, struct error *err)
{
    const struct run_grant *run = state->recorder.request->run;
    const uint64_t offset = upload_offset(state->upload);

    if (run == NULL || (offset <= state->room && more <= state->room - offset)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the order of the run allows %lld bytes of outputs and log, and so many more do not fit",
                   (long long)run->upload_max);
}

static struct run_uploaded blob_of(const struct request *request, const struct upload_body *state, char digest[DIGEST_TEXT_SIZE])
{
    digest_format(&state->digest, digest);
    return (struct run_uploaded){.action = request->pairs[0].action,
                                 .where = oci_where(request),
                                 .holder = &request->run->holder,
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
