#include "runner/serve/harvest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/hash.h"
#include "client/layout.h"
#include "crypto/digest.h"
#include "policy/label_annotation.h"
#include "runner/serve/artifacts.h"

#define HEX_SIZE   (2 * SHA256_SIZE + 1)
#define LOG_TYPE   "text/plain"
#define LINES_TYPE "application/jsonl"

/* One artifact: an output, the log or the metrics. */
struct product {
    const char *name, *repository, *type;
    struct layer_file *files;
    size_t count, room;
    char hex[HEX_SIZE]; /* of its manifest */
};

struct harvest {
    struct session *session;
    const char *host, *folder;
    const struct buffer *label;
    size_t output_count, file_count;
    struct product outputs[HARVEST_OUTPUTS_MAX], log, metrics;
    json_t *manifests;
    char refusal[256];
    atomic_bool wants_sessions;
};

struct result harvest_new(const struct harvest_options *options, struct harvest **harvest_out, struct error *err)
{
    OWNED(harvest) *harvest = memory_zeroed(1, sizeof *harvest);

    if (harvest == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for outputs");
    harvest->session = options->session;
    harvest->host = options->host;
    harvest->folder = options->folder;
    harvest->label = options->label;
    harvest->manifests = json_object();
    if (harvest->manifests == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for outputs");
    for (size_t i = 0; i < json_array_size(options->outputs) && i < HARVEST_OUTPUTS_MAX; i++) {
        const json_t *output = json_array_get(options->outputs, i);
        harvest->outputs[harvest->output_count++] = (struct product){.name = json_text_of(output, "name"),
                                                                     .repository = json_text_of(output, "repository"),
                                                                     .type = json_text_of(output, "type")};
    }
    const char *first = harvest->outputs[0].repository;
    harvest->log = (struct product){.name = "log", .repository = first, .type = RUN_LOG_TYPE};
    harvest->metrics = (struct product){.name = "metrics", .repository = first, .type = RUN_METRICS_TYPE};
    *harvest_out = GIVE(harvest);
    return SUCCESS;
}

/* ---- blobs ---- */

static struct result send_blob(struct harvest *harvest, const struct product *product, int fd, const struct layer_file *file,
                               struct error *err)
{
    const struct upload upload = {.session = harvest->session,
                                  .host = harvest->host,
                                  .repository = product->repository,
                                  .scope = LEASED_SCOPE,
                                  .label = file->title,
                                  .digest = file->digest,
                                  .fd = fd,
                                  .size = file->size,
                                  .quiet = true,
                                  .always = true,
                                  .wants_sessions = &harvest->wants_sessions};
    return upload_blob(&upload, err);
}

static struct result send_bytes(struct harvest *harvest, const struct product *product, struct bytes bytes, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, bytes);
    struct layer_file file = {.title = "config", .size = bytes.length};
    OWNED_FD memory = memfd_create("blob", MFD_CLOEXEC);

    if (memory < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory for a blob");
    digest_format(&digest, file.digest);
    TRY(file_write_all(memory, bytes.data, bytes.length, err));
    return send_blob(harvest, product, memory, &file, err);
}

NO_LEAK_BEGIN /* elements of the product's list */
    static struct result
    add_file(struct product *product, const struct layer_file *file, struct error *err)
{
    if (product->count == product->room) {
        const size_t room = product->room == 0 ? 16 : 2 * product->room;
        struct layer_file *larger = memory_resize(product->files, room * sizeof *larger);
        if (larger == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the names of outputs");
        product->files = larger;
        product->room = room;
    }
    product->files[product->count++] = *file;
    return SUCCESS;
}
NO_LEAK_END

/* ---- files of /out ---- */

/* The product of a path, and its title in that: the path below /out/NAME, or NAME itself. */
static struct product *product_of(struct harvest *harvest, const char *path, const char **title_out)
{
    const size_t length = strcspn(path, "/");

    *title_out = path[length] == '\0' ? path : path + length + 1;
    for (size_t i = 0; i < harvest->output_count; i++) {
        const char *name = harvest->outputs[i].name;
        if (strlen(name) == length && strncmp(name, path, length) == 0) return &harvest->outputs[i];
    }
    return strcmp(path, HARVEST_METRICS) == 0 ? &harvest->metrics : NULL;
}

static void refuse(struct harvest *harvest, const char *path, const char *rule)
{
    if (harvest->refusal[0] == '\0')
        (void)snprintf(harvest->refusal, sizeof harvest->refusal, "%s/%.120s: %s", harvest->folder, path, rule);
}

struct result harvest_take(struct harvest *harvest, const struct output_file *file, bool metrics_only, struct error *err)
{
    const char *title = NULL;
    struct product *product = product_of(harvest, file->path, &title);
    struct layer_file layer = {.size = (uint64_t)file->size};

    if (metrics_only && product != &harvest->metrics) return SUCCESS;
    if (product == NULL) refuse(harvest, file->path, "it belongs to no output of the order: outputs are /out/NAME");
    else if (!title_is_safe(title)) refuse(harvest, file->path, "it can't be the name of a layer");
    else if (harvest->file_count == HARVEST_FILES_MAX) refuse(harvest, file->path, "it is one of more than 4096 files");
    if (harvest->refusal[0] != '\0' && product != &harvest->metrics) return SUCCESS;
    (void)snprintf(layer.title, sizeof layer.title, "%s", title);
    digest_format(&file->digest, layer.digest);
    layer.media_type = product == &harvest->metrics ? LINES_TYPE : layer_media_type(layer.title, false);
    TRY(send_blob(harvest, product, file->fd, &layer, err));
    TRY(add_file(product, &layer, err));
    harvest->file_count++;
    return SUCCESS;
}

const char *harvest_refusal(const struct harvest *harvest)
{
    return harvest->refusal[0] == '\0' ? NULL : harvest->refusal;
}

const char *harvest_lacks(const struct harvest *harvest)
{
    for (size_t i = 0; i < harvest->output_count; i++)
        if (harvest->outputs[i].count == 0) return harvest->outputs[i].name;
    return NULL;
}

void harvest_drop(struct harvest *harvest)
{
    for (size_t i = 0; i < harvest->output_count; i++) harvest->outputs[i].count = 0;
}

struct result harvest_log(struct harvest *harvest, int fd, uint64_t size, struct error *err)
{
    struct layer_file layer = {.title = "log.txt", .media_type = LOG_TYPE, .size = size};
    OWNED(hasher) *hasher = NULL;
    uint64_t hashed = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(hash_file(fd, size, hasher, NULL, &hashed, err));
    if (hashed != size) return failure(err, ERROR_CORRUPT, "the kept log is too short");
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, layer.digest);
    harvest->log.count = 0;
    TRY(send_blob(harvest, &harvest->log, fd, &layer, err));
    return add_file(&harvest->log, &layer, err);
}

/* ---- manifests ---- */

static struct result write_config(const struct product *product, bool is_model, struct buffer *config, struct error *err)
{
    if (!is_model) return buffer_add_text(config, EMPTY_CONFIG, err);
    return layout_config(product->name, product->files, product->count, config, err);
}

static struct result finish_product(struct harvest *harvest, struct product *product, struct error *err)
{
    struct buffer OWNED_BUFFER config = BUFFER(HARVEST_MANIFEST_MAX), text = BUFFER(HARVEST_MANIFEST_MAX);
    const bool is_model = strcmp(product->type, MODEL_ARTIFACT_TYPE) == 0;
    OWNED_JSON annotations = json_pack("{s:s}", LABEL_ANNOTATION, buffer_text(harvest->label));
    uint8_t hash[SHA256_SIZE];

    if (annotations == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the label of %.63s", product->name);
    TRY(write_config(product, is_model, &config, err));
    TRY(send_bytes(harvest, product, buffer_bytes(&config), err));
    const struct layout layout = {.artifact_type = product->type,
                                  .config_type = is_model ? MODEL_CONFIG_TYPE : EMPTY_CONFIG_TYPE,
                                  .config = buffer_bytes(&config),
                                  .files = product->files,
                                  .count = product->count,
                                  .annotations = annotations};
    TRY(layout_write(&layout, &text, err));
    sha256_of(buffer_bytes(&text), hash);
    text_hex(hash, sizeof hash, product->hex);
    if (json_object_set_new(harvest->manifests, product->name, json_stringn(buffer_text(&text), text.length)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the manifest of %.63s", product->name);
}

struct result harvest_finish(struct harvest *harvest, struct harvested *harvested_out, struct error *err)
{
    struct harvested harvested = {.manifests = harvest->manifests};

    for (size_t i = 0; i < harvest->output_count; i++) {
        struct product *product = &harvest->outputs[i];
        if (product->count == 0) continue;
        TRY(finish_product(harvest, product, err));
        harvested.outputs[harvested.output_count++] = (struct run_subject){.name = product->name, .digest = product->hex};
    }
    TRY(finish_product(harvest, &harvest->log, err));
    harvested.log = harvest->log.hex;
    if (harvest->metrics.count > 0) {
        TRY(finish_product(harvest, &harvest->metrics, err));
        harvested.metrics = harvest->metrics.hex;
    }
    *harvested_out = harvested;
    return SUCCESS;
}

struct result harvest_finish_first(struct harvest *harvest, struct bytes *manifest_out, struct digest *digest_out,
                                   struct error *err)
{
    struct product *product = &harvest->outputs[0];

    if (product->count == 0) return failure(err, ERROR_INVALID, "%s/%.120s has no file", harvest->folder, product->name);
    TRY(finish_product(harvest, product, err));
    const json_t *text = json_object_get(harvest->manifests, product->name);
    *manifest_out = (struct bytes){(const uint8_t *)json_string_value(text), json_string_length(text)};
    *digest_out = digest_of(DIGEST_SHA256, *manifest_out);
    return SUCCESS;
}

void harvest_free(struct harvest *harvest)
{
    if (harvest == NULL) return;
    for (size_t i = 0; i < harvest->output_count; i++) free(harvest->outputs[i].files);
    free(harvest->log.files);
    free(harvest->metrics.files);
    json_decref(harvest->manifests);
    free(harvest);
}
