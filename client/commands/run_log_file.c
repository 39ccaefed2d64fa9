/* The log of a run as a file, compared with what its runner has signed (docs/formats/run.md, "Result"). */
#include <string.h>

#include "base/text.h"
#include "client/commands/run_priv.h"
#include "client/hash.h"
#include "client/layout.h"
#include "crypto/digest.h"
#include "training/format/artifact_types.h"

/* The manifest that the runner has made of these bytes. */
static struct result manifest_of(int fd, uint64_t size, struct buffer *text, struct error *err)
{
    struct layer_file layer = {.title = "log.txt", .media_type = "text/plain", .size = size};
    OWNED(hasher) *hasher = NULL;
    uint64_t hashed = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(hash_file(fd, size, hasher, NULL, &hashed, err));
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, layer.digest);
    const struct layout layout = {.artifact_type = RUN_LOG_TYPE,
                                  .config_type = EMPTY_CONFIG_TYPE,
                                  .config = bytes_of_text(EMPTY_CONFIG),
                                  .files = &layer,
                                  .count = 1};
    return layout_write(&layout, text, err);
}

static const char *signed_digest(const struct run_envelope *result)
{
    const json_t *subjects = run_member(result, "subject"), *subject;
    size_t i;

    json_array_foreach (subjects, i, subject) {
        const char *name = json_text_of(subject, "name");
        if (name != NULL && strcmp(name, "log") == 0) return json_text_of(json_object_get(subject, "digest"), "sha256");
    }
    return NULL;
}

struct result run_log_file_check(const struct run_envelope *result, int fd, uint64_t size, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096); /* one layer */
    const char *wanted = signed_digest(result);
    uint8_t hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    TRY(manifest_of(fd, size, &text, err));
    sha256_of(buffer_bytes(&text), hash);
    text_hex(hash, sizeof hash, hex);
    if (wanted != NULL && strcmp(hex, wanted) == 0) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the log is not the one whose digest the runner has signed");
}
