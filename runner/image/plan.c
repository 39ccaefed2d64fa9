#include "runner/image/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define SIZE_MAX_OF_PART (INT64_C(1) << 40)
#define OCI_CONFIG       "application/vnd.oci.image.config.v1+json"
#define OCI_TAR          "application/vnd.oci.image.layer.v1.tar"

static const struct layer_type {
    const char *name;
    bool is_gzip;
} layer_types[] = {{OCI_TAR, false},
                   {OCI_TAR "+gzip", true},
                   {"application/vnd.docker.image.rootfs.diff.tar", false},
                   {"application/vnd.docker.image.rootfs.diff.tar.gzip", true}};

const char *image_part_name(const struct image_part *part)
{
    return part->digest + sizeof "sha256:" - 1;
}

static struct result read_part(const json_t *json, const char *what, struct image_part *part, struct error *err)
{
    const char *digest = json_text_of(json, "digest");
    struct digest parsed;
    int64_t size = -1;

    if (digest == NULL || !json_integer_of(json, "size", &size) || size < 0 || size > SIZE_MAX_OF_PART)
        return failure(err, ERROR_INVALID, "the image's %s has no digest, or no size", what);
    TRY(digest_parse(bytes_of_text(digest), &parsed, err));
    if (parsed.algorithm != DIGEST_SHA256)
        return failure(err, ERROR_INVALID, "the image's %s has a digest of another kind than sha256", what);
    (void)snprintf(part->digest, sizeof part->digest, "%s", digest);
    part->size = size;
    return SUCCESS;
}

static struct result read_layer(const json_t *json, struct image_part *part, struct error *err)
{
    const char *type = json_text_of(json, "mediaType");

    for (size_t i = 0; type != NULL && i < sizeof layer_types / sizeof layer_types[0]; i++) {
        if (strcmp(type, layer_types[i].name) != 0) continue;
        part->is_gzip = layer_types[i].is_gzip;
        return read_part(json, "layer", part, err);
    }
    return failure(
        err, ERROR_INVALID,
        "the image has a layer of the type %.80s; a runner unpacks tar, plain or with gzip: push the image with such layers",
        type == NULL ? "(none)" : type);
}

static struct result read_config(const json_t *json, struct image_part *part, struct error *err)
{
    const char *type = json_text_of(json, "mediaType");

    if (type == NULL || (strcmp(type, OCI_CONFIG) != 0 && strcmp(type, "application/vnd.docker.container.image.v1+json") != 0))
        return failure(err, ERROR_INVALID, "this manifest is no container image: its config has the type %.80s",
                       type == NULL ? "(none)" : type);
    TRY(read_part(json, "config", part, err));
    return part->size <= IMAGE_CONFIG_MAX ? SUCCESS : failure(err, ERROR_LIMIT, "the image's config is too large");
}

struct result image_plan_read(struct bytes manifest, struct image_plan *plan_out, struct error *err)
{
    struct image_plan plan = {.count = 0};
    OWNED_JSON json = NULL;

    TRY(json_read_any_number(manifest, IMAGE_MANIFEST_MAX, &json, err));
    if (json_object_get(json, "manifests") != NULL)
        return failure(err, ERROR_INVALID, "this is an index of images for several platforms: name the digest of one of them");
    const json_t *layers = json_object_get(json, "layers");
    if (!json_is_array(layers) || json_array_size(layers) == 0)
        return failure(err, ERROR_INVALID, "this manifest is no container image: it has no layers");
    if (json_array_size(layers) > IMAGE_LAYERS_MAX)
        return failure(err, ERROR_LIMIT, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    TRY(read_config(json_object_get(json, "config"), &plan.config, err));
    for (; plan.count < json_array_size(layers); plan.count++)
        TRY(read_layer(json_array_get(layers, plan.count), &plan.layers[plan.count], err));
    *plan_out = plan;
    return SUCCESS;
}

static json_t *part_json(const char *type, const struct image_part *part)
{
    return json_pack("{s:s s:s s:I}", "mediaType", type, "digest", part->digest, "size", (json_int_t)part->size);
}

struct result image_plan_write(const struct image_plan *plan, struct buffer *text, struct error *err)
{
    OWNED_JSON layers = json_array();

    for (size_t i = 0; i < plan->count && layers != NULL; i++)
        if (json_array_append_new(layers, part_json(plan->layers[i].is_gzip ? OCI_TAR "+gzip" : OCI_TAR, &plan->layers[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a manifest");
    OWNED_JSON json =
        json_pack("{s:i s:s s:o* s:O*}", "schemaVersion", 2, "mediaType", "application/vnd.oci.image.manifest.v1+json", "config",
                  part_json(OCI_CONFIG, &plan->config), "layers", layers);
    if (json == NULL || json_object_get(json, "config") == NULL || json_object_get(json, "layers") == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a manifest");
    return json_write_canonical(text, json, err);
}
