#include "runner/serve/floors.h"

#include "base/json.h"
#include "base/memory.h"

void floors_free(struct floors *floors)
{
    if (floors == NULL) return;
    for (size_t i = 0; i < floors->artifacts.count; i++) {
        manifest_done(&floors->each[i].manifest);
        stated_label_done(&floors->each[i].stated);
    }
    free(floors);
}

static struct result read_one(const struct floors_source *source, const json_t *artifact, struct floor *floor, struct error *err)
{
    struct error why = {0};

    floor->manifest = MANIFEST;
    TRY(source->fetch(source->context, artifact, &floor->manifest, err));
    if (!label_annotation_of(floor->manifest.json, &floor->stated, &why).ok)
        return failure(err, why.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%.60s: %.190s",
                       json_text_of(artifact, "repository"), why.message);
    if (floor->manifest.bytes.length > FLOORS_KEPT_MAX) manifest_done(&floor->manifest);
    return SUCCESS;
}

struct result floors_read(const struct floors_source *source, const json_t *spec, struct floors **floors_out, struct error *err)
{
    OWNED(floors) *floors = memory_zeroed(1, sizeof *floors);

    if (floors == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the manifests of an order");
    floors->artifacts = run_spec_artifacts(spec);
    for (size_t i = 0; i < floors->artifacts.count; i++) {
        TRY(read_one(source, floors->artifacts.each[i].json, &floors->each[i], err));
        if (floors->each[i].stated.json != NULL) floors->views.each[i] = &floors->each[i].stated.label;
    }
    *floors_out = GIVE(floors);
    return SUCCESS;
}

const struct manifest *floors_manifest(const struct floors *floors, const json_t *artifact)
{
    for (size_t i = 0; floors != NULL && i < floors->artifacts.count; i++)
        if (floors->artifacts.each[i].json == artifact && floors->each[i].manifest.json != NULL) return &floors->each[i].manifest;
    return NULL;
}
