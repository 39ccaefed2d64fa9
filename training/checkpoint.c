#include "training/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "registry/held_checkpoint.h"
#include "registry/names/titles.h"
#include "training/checkpoint_priv.h"
#include "training/content.h"
#include "training/format/artifact_types.h"

static int64_t content_of(const struct manifest *manifest)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < manifest->reference_count; i++) {
        if (manifest->references[i].size_bytes > INT64_MAX - bytes) return INT64_MAX;
        bytes += manifest->references[i].size_bytes;
    }
    return bytes;
}

/* Two files of the same content are one reference of the manifest, so the layers are counted in its text. */
static struct result check_files(const json_t *layers, struct error *err)
{
    const size_t count = json_array_size(layers);

    if (count == 0) return failure(err, ERROR_INVALID, "a checkpoint has one layer for each file, and this one has none");
    if (count > RUN_CHECKPOINT_FILES_MAX)
        return failure(err, ERROR_INVALID, "a checkpoint has at most %d files", RUN_CHECKPOINT_FILES_MAX);
    return titles_check_files(layers, err);
}

static struct result check_form(struct bytes text, struct error *err)
{
    const struct digest empty = digest_of(DIGEST_SHA256, bytes_of_text("{}"));
    char digest[DIGEST_TEXT_SIZE];
    OWNED_JSON json = NULL;

    TRY(json_read_any_number(text, MANIFEST_SIZE_MAX, &json, err));
    const json_t *config = json_object_get(json, "config");
    const char *type = json_text_of(config, "mediaType"), *named = json_text_of(config, "digest");
    digest_format(&empty, digest);
    if (type == NULL || named == NULL || strcmp(type, RUN_EMPTY_CONFIG_TYPE) != 0 || strcmp(named, digest) != 0)
        return failure(err, ERROR_INVALID, "a checkpoint has the empty config: {} as " RUN_EMPTY_CONFIG_TYPE);
    return check_files(json_object_get(json, "layers"), err);
}

struct result run_checkpoint_check(const struct manifest *manifest, struct bytes text, int64_t bytes_max, struct error *err)
{
    const int64_t bytes = content_of(manifest);

    if (manifest->kind != MANIFEST_IMAGE || strcmp(manifest->media_type, MEDIA_TYPE_IMAGE) != 0)
        return failure(err, ERROR_INVALID, "the manifest of a checkpoint is no " MEDIA_TYPE_IMAGE);
    if (strcmp(manifest->artifact_type, RUN_CHECKPOINT_TYPE) != 0 || manifest->subject[0] != '\0')
        return failure(err, ERROR_INVALID, "a checkpoint has the artifactType " RUN_CHECKPOINT_TYPE " and no subject");
    TRY(check_form(text, err));
    for (size_t i = 0; i < manifest->reference_count; i++)
        if (!manifest->references[i].is_required)
            return failure(err, ERROR_INVALID, "a layer of the checkpoint is kept elsewhere: upload it");
    if (bytes <= bytes_max + RUN_CONFIG_MAX) return SUCCESS;
    return failure(err, ERROR_DENIED, "a checkpoint may have the order's output_bytes, which are %lld, and this one has %lld",
                   (long long)bytes_max, (long long)bytes);
}

static struct result keep(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_checkpoint *self = (const struct run_checkpoint *)(const void *)change; /* its first member */
    const struct held_checkpoint held = {.run = self->holder.run,
                                         .attempt = self->holder.attempt,
                                         .key = self->holder.key,
                                         .push = self->push,
                                         .content_bytes = content_of(self->push->manifest)};

    permit_require(permit, ACTION_RUN_CHECKPOINT, &self->where);
    const struct run_sent sent = {ACTION_RUN_CHECKPOINT, &self->holder, "the checkpoint", self->where.name, self->push->manifest};
    TRY(checkpoint_row_lock(pg, &self->holder, err));
    TRY(run_sent_check(permit, pg, &sent, err));
    TRY(held_checkpoint_insert(permit, pg, &held, err));
    return checkpoint_rows_thin(pg, &self->holder, err);
}

void run_checkpoint_prepare(const struct resource *where, const struct run_holder *holder, const struct manifest_push *push,
                            struct run_checkpoint *checkpoint_out)
{
    *checkpoint_out = (struct run_checkpoint){
        .change = {.run = keep, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .holder = *holder, .push = push};
    (void)snprintf(checkpoint_out->detail, sizeof checkpoint_out->detail, "%s %s", where->detail, push->digest);
    checkpoint_out->change.detail = checkpoint_out->detail;
}
