/* The image of a leased run: from the registry, or from what is kept of earlier runs of the same project. */
#include "base/log.h"
#include "runner/image/image.h"
#include "runner/serve/artifacts.h"
#include "runner/serve/leased_priv.h"

struct kept_source {
    const struct leased *leased;
    struct image_source registry;
};

static struct result give_manifest(void *context, struct buffer *text, struct error *err)
{
    const struct kept_source *source = context;

    return source->registry.manifest(source->registry.context, text, err);
}

/* Kept blobs are taken after the registry has given the manifest to this run. */
static struct result give_blob(void *context, const struct image_part *part, int folder, const char *name, struct error *err)
{
    const struct kept_source *source = context;
    const struct image_cache *cache = source->leased->worker->images;
    const char *project = run_text(source->leased->verdict->bundle->chain.order, "project");
    struct error why = {0};

    if (cache != NULL && image_cache_take(cache, project, part, folder, name, &why).ok) return SUCCESS;
    TRY(source->registry.blob(source->registry.context, part, folder, name, err));
    if (cache != NULL && !image_cache_keep(cache, project, part, folder, name, &why).ok)
        log_error("a blob of an image is not kept", &why);
    return SUCCESS;
}

static struct result fetch(struct leased *leased, const struct image_options *image, const struct sandbox_folder *folder,
                           struct error *err)
{
    for (unsigned attempt = 0; !image_fetch(image, folder, err).ok; attempt++)
        if (!worker_tries_again(err, attempt, leased->ends_ms)) return (struct result){.ok = false};
    return SUCCESS;
}

struct result leased_image(void *context, const struct sandbox_folder *folder, struct error *err)
{
    struct leased *leased = context;
    const struct serve_options *options = leased->worker->options;
    const struct artifacts artifacts = {.session = leased->session,
                                        .host = options->state->registry.host,
                                        .spec = leased->verdict->spec,
                                        .floors = leased->floors};
    struct kept_source kept = {.leased = leased, .registry = artifacts_image(&artifacts)};
    const struct image_source source = {.manifest = give_manifest, .blob = give_blob, .context = &kept};
    const struct sandbox_options run = {.isolation = leased->verdict->spec->isolation,
                                        .cgroup = options->cgroup,
                                        .work = options->work,
                                        .user = options->user,
                                        .inside = options->inside,
                                        .address_count = leased->worker->address_count,
                                        .addresses = leased->worker->addresses,
                                        .cancelled = &worker_cancelled};
    const struct image_options image = {.source = &source, .bytes_max = options->image_bytes, .run = &run};

    TRY(fetch(leased, &image, folder, err));
    TRY(image_unpack(&image, folder, err));
    leased->has_fetched = true;
    return SUCCESS;
}
