#include "runner/serve/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "client/manifest.h"
#include "runner/payload/payload.h"
#include "runner/sandbox/copy.h"

static struct result fetch_layers(const struct layer_source *source, const json_t *layers, int folder, struct error *err)
{
    size_t count = 0;

    TRY(layers_check(layers, err));
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *json = json_array_get(layers, i);
        OWNED_FD file = -1;
        struct layer layer;
        if (title_of_layer(json) == NULL) continue; /* as a pull */
        TRY(layer_read(json, &layer, err));
        TRY(layer_fetch(source, &layer, folder, &file, err));
        if (fchmod(file, 0444) != 0) return failure(err, ERROR_UNAVAILABLE, "%.150s: %s", layer.title, strerror(errno));
        count++;
    }
    return count > 0 ? SUCCESS : failure(err, ERROR_INVALID, "the artifact has no layer with a name, so there is no file");
}

/* An image may be an index, whose own annotations count (docs/runs.md). */
static struct result fetch_manifest(const struct artifacts *artifacts, const json_t *artifact, const char *accept,
                                    struct manifest *manifest, struct error *err)
{
    struct remote_reference reference = {.is_digest = true, .was_given = true};

    (void)snprintf(reference.host, sizeof reference.host, "%s", artifacts->host);
    (void)snprintf(reference.repository, sizeof reference.repository, "%s", json_text_of(artifact, "repository"));
    (void)snprintf(reference.reference, sizeof reference.reference, "%s", json_text_of(artifact, "digest"));
    return manifest_fetch(artifacts->session, LEASED_SCOPE, &reference, accept, manifest, err);
}

static struct result fetch_for_floor(void *context, const json_t *artifact, struct manifest *manifest, struct error *err)
{
    return fetch_manifest(context, artifact, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, manifest, err);
}

struct result artifacts_floors(const struct artifacts *artifacts, struct floors **floors_out, struct error *err)
{
    const struct floors_source source = {fetch_for_floor, (void *)(uintptr_t)artifacts};

    return floors_read(&source, artifacts->spec->json, floors_out, err);
}

static struct layer_source source_of(const struct artifacts *artifacts, const json_t *artifact)
{
    return (struct layer_source){
        .session = artifacts->session, .repository = json_text_of(artifact, "repository"), .scope = LEASED_SCOPE};
}

static struct result fetch_into(const struct artifacts *artifacts, const json_t *artifact, int folder, struct error *err)
{
    const struct manifest *kept = floors_manifest(artifacts->floors, artifact);
    const struct layer_source source = source_of(artifacts, artifact);
    OWNED_MANIFEST manifest = MANIFEST;

    if (kept == NULL) TRY(fetch_manifest(artifacts, artifact, ACCEPTED_MANIFESTS, &manifest, err));
    return fetch_layers(&source, json_object_get(kept == NULL ? manifest.json : kept->json, "layers"), folder, err);
}

/* What an interrupted attempt has left is removed. */
static struct result fetch_one(const struct artifacts *artifacts, const json_t *artifact, int parent, const char *name,
                               struct error *err)
{
    OWNED_FD folder = -1;
    struct error why = {0};

    TRY(copy_remove(parent, name, err));
    if (mkdirat(parent, name, 0755) != 0) return failure(err, ERROR_UNAVAILABLE, "no folder for %s: %s", name, strerror(errno));
    TRY(file_open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &folder, err));
    if (fetch_into(artifacts, artifact, folder, &why).ok) return SUCCESS;
    return failure(err, why.kind, "%.60s: %.190s", name, why.message);
}

struct result artifacts_fetch(const struct artifacts *artifacts, int folder, struct error *err)
{
    const json_t *spec = artifacts->spec->json, *inputs = json_object_get(spec, "inputs");
    const json_t *resume = json_object_get(spec, "resume");
    OWNED_FD in = -1;

    TRY(fetch_one(artifacts, json_object_get(spec, "code"), folder, "code", err));
    TRY(file_open_at(folder, "in", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &in, err));
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *input = json_array_get(inputs, i);
        TRY(fetch_one(artifacts, input, in, json_text_of(input, "name"), err));
    }
    return resume == NULL ? SUCCESS : fetch_one(artifacts, resume, in, PAYLOAD_RESUME, err);
}

/* ---- the image ---- */

static const json_t *image_of(const struct artifacts *artifacts)
{
    return json_object_get(artifacts->spec->json, "image");
}

static struct result image_manifest(void *context, struct buffer *text, struct error *err)
{
    const struct artifacts *artifacts = context;
    const struct manifest *kept = floors_manifest(artifacts->floors, image_of(artifacts));
    OWNED_MANIFEST manifest = MANIFEST;
    struct error why = {0};

    if (kept != NULL) return buffer_add(text, kept->bytes.data, kept->bytes.length, err);
    if (!fetch_manifest(artifacts, image_of(artifacts), ACCEPTED_MANIFESTS, &manifest, &why).ok)
        return failure(err, why.kind, "image: %.200s", why.message);
    return buffer_add(text, manifest.bytes.data, manifest.bytes.length, err);
}

static struct result image_blob(void *context, const struct image_part *part, int folder, const char *name, struct error *err)
{
    const struct artifacts *artifacts = context;
    const struct layer_source source = source_of(artifacts, image_of(artifacts));
    const struct layer layer = {.title = name, .digest = part->digest, .size = (uint64_t)part->size};
    OWNED_FD file = -1;
    struct error why = {0};

    if (layer_fetch(&source, &layer, folder, &file, &why).ok) return SUCCESS;
    return failure(err, why.kind, "image: %.200s", why.message);
}

struct image_source artifacts_image(const struct artifacts *artifacts)
{
    return (struct image_source){.manifest = image_manifest, .blob = image_blob, .context = (void *)(uintptr_t)artifacts};
}
