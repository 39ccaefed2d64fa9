#include "client/layers.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/json.h"
#include "client/fetch.h"
#include "client/layout.h"
#include "client/local.h"

static struct result check_title(const char *title, struct error *err)
{
    if (title_is_safe(title)) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "refused: the layer called '%.100s' would leave the target folder, or has control characters", title);
}

struct result layers_check(const json_t *layers, struct error *err)
{
    if (!json_is_array(layers) || json_array_size(layers) > LAYERS_MAX)
        return failure(err, ERROR_INVALID, "this is no manifest with layers (an index?); pull one of its manifests by digest");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *title = title_of_layer(json_array_get(layers, i));
        if (title != NULL) TRY(check_title(title, err));
    }
    const struct result apart = titles_check_apart(layers, err);
    if (!apart.ok && err->kind == ERROR_INVALID) failure_name("refused", err);
    return apart;
}

struct result layer_read(const json_t *layer, struct layer *layer_out, struct error *err)
{
    const char *title = title_of_layer(layer), *digest = json_text_of(layer, "digest");
    int64_t size = -1;

    TRY(check_title(title, err));
    if (digest == NULL || !json_integer_of(layer, "size", &size) || size < 0)
        return failure(err, ERROR_CORRUPT, "the layer '%.100s' has no digest or size", title);
    *layer_out = (struct layer){.title = title, .digest = digest, .size = (uint64_t)size};
    return SUCCESS;
}

struct result layer_fetch(const struct layer_source *source, const struct layer *layer, int folder, int *fd_out,
                          struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = -1;
    struct digest digest;

    TRY(digest_parse(bytes_of_text(layer->digest), &digest, err));
    TRY(hasher_new(digest.algorithm, &hasher, err));
    TRY(local_output(title_open(folder, layer->title, O_RDWR | O_CREAT | O_EXCL, &fd, err), layer->title, err));
    struct fetch fetch = {.session = source->session,
                          .repository = source->repository,
                          .scope = source->scope,
                          .digest = layer->digest,
                          .name = layer->title,
                          .fd = fd,
                          .size = layer->size,
                          .hasher = hasher};
    TRY(fetch_blob(&fetch, err));
    TRY(fetch_check(&fetch, err));
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}
