/* The manifests of a run's artifacts, for its bundle: whoever may pull them can show which labels they state. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/run_priv.h"
#include "client/manifest.h"
#include "training/format/artifacts.h"
#include "training/format/bundle.h"

struct adding {
    const struct run_address *address;
    struct session *session;
    json_t *bundle, *list; /* list: its manifests */
    size_t bytes, room;    /* of the manifests; of all that is added */
};

static bool has_digest(const struct run_artifacts *artifacts, size_t until, const char *digest)
{
    for (size_t i = 0; i < until; i++)
        if (strcmp(json_text_of(artifacts->each[i].json, "digest"), digest) == 0) return true;
    return false;
}

static struct result pull(const struct adding *adding, const json_t *artifact, struct manifest *manifest, struct error *err)
{
    struct remote_reference reference = {.is_digest = true, .was_given = true};
    char scope[400];

    (void)snprintf(reference.host, sizeof reference.host, "%s", adding->address->host);
    (void)snprintf(reference.repository, sizeof reference.repository, "%s", json_text_of(artifact, "repository"));
    (void)snprintf(reference.reference, sizeof reference.reference, "%s", json_text_of(artifact, "digest"));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", reference.repository);
    return manifest_fetch(adding->session, scope, &reference, ACCEPTED_MANIFESTS ", " ACCEPTED_INDEXES, manifest, err);
}

/* In JSON each byte of a text may need six. */
static bool has_room(const struct adding *adding, size_t length)
{
    return adding->bytes + length <= RUN_MANIFESTS_MAX && 6 * (adding->bytes + length) <= adding->room;
}

/* One that this person may not pull, or that is gone, is left out; `sijil-verify run` says so. */
static struct result add(struct adding *adding, const json_t *artifact, struct error *err)
{
    OWNED_MANIFEST manifest = MANIFEST;
    struct error why = {0};

    if (!pull(adding, artifact, &manifest, &why).ok) {
        if (why.kind == ERROR_NOT_FOUND || why.kind == ERROR_DENIED) return SUCCESS;
        return failure(err, why.kind, "%s", why.message);
    }
    if (!has_room(adding, manifest.bytes.length)) return SUCCESS;
    adding->bytes += manifest.bytes.length;
    if (json_array_append_new(adding->list, json_stringn(buffer_text(&manifest.bytes), manifest.bytes.length)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a manifest");
}

static struct result add_all(struct adding *adding, const struct run_envelope *order, struct error *err)
{
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(order, "spec"));

    for (size_t i = 0; i < artifacts.count; i++)
        if (!has_digest(&artifacts, i, json_text_of(artifacts.each[i].json, "digest")))
            TRY(add(adding, artifacts.each[i].json, err));
    return SUCCESS;
}

/* *order_out NULL: it is no bundle. Whoever verifies it says so. */
static struct result read_order(const json_t *bundle, struct run_envelope **order_out, struct error *err)
{
    const char *text = json_text_of(bundle, run_type_name(RUN_ORDER));
    struct error why = {0};

    if (text == NULL || run_envelope_read(bytes_of_text(text), RUN_ORDER, order_out, &why).ok) return SUCCESS;
    return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
}

/* Without a manifest the bundle stays as the registry sent it. */
static struct result write_back(const struct adding *adding, struct buffer *bundle, struct error *err)
{
    if (json_array_size(adding->list) == 0) return SUCCESS;
    if (json_object_set(adding->bundle, "manifests", adding->list) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for manifests");
    buffer_clear(bundle);
    return json_write_canonical(bundle, adding->bundle, err);
}

struct result run_manifests_add(struct session *session, const struct run_address *address, struct buffer *bundle,
                                struct error *err)
{
    struct error why = {0};
    OWNED(run_envelope) *order = NULL;
    OWNED_JSON json = NULL;
    OWNED_JSON list = json_array();

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for manifests");
    if (!json_read(buffer_bytes(bundle), RUN_BUNDLE_MAX, &json, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
    TRY(read_order(json, &order, err));
    if (order == NULL) return SUCCESS;
    struct adding adding = {
        .address = address, .session = session, .bundle = json, .list = list, .room = RUN_BUNDLE_MAX - bundle->length};
    TRY(add_all(&adding, order, err));
    return write_back(&adding, bundle, err);
}
