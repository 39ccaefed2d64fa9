/* `sijil run start --resume`: a run goes on where another one has stopped. */
#include <stdio.h>

#include "base/json.h"
#include "client/commands/run_priv.h"
#include "training/format/spec.h"

static struct result set_resume(const json_t *checkpoint, json_t *spec, struct error *err)
{
    const char *repository = json_text_of(checkpoint, "repository"), *digest = json_text_of(checkpoint, "digest");
    json_t *artifact = json_pack("{s:s*, s:s*}", "repository", repository, "digest", digest);
    struct run_shape_fault fault;

    if (json_object_set_new(spec, "resume", artifact) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    if (run_spec_locate(spec, &fault, err).ok) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the registry answered with a checkpoint that no request can name");
}

struct result run_resume_option(struct invocation *invocation, struct session *session, json_t *spec, struct error *err)
{
    const char *from = invocation_option(invocation, 'r');
    const struct run_address address = {invocation->operands[0], invocation->operands[1], from};
    OWNED_JSON run = NULL;
    char digest[CELL_MAX];
    struct uuid id;

    if (from == NULL) return SUCCESS;
    if (!uuid_parse(bytes_of_text(from), &id))
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.60s' is not the id of a run", from));
    if (json_object_get(spec, "resume") != NULL)
        return failure(err, ERROR_INVALID, "the specification names a checkpoint itself: leave out --resume, or resume");
    TRY(run_read(session, &address, &run, err));
    const json_t *newest = json_array_get(json_object_get(run, "checkpoints"), 0);
    if (newest == NULL)
        return failure(err, ERROR_INVALID, "the run %.36s keeps no checkpoint: it wrote none, or they are gone by now", from);
    TRY(set_resume(newest, spec, err));
    cell_text(json_object_get(newest, "digest"), digest);
    if (!invocation->json) (void)fprintf(stderr, "continues from the checkpoint %s\n", digest);
    return SUCCESS;
}
