/* What an admission stores beside the outputs: the envelopes as blobs, and the referrers of each output. */
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/memory.h"
#include "policy/label_annotation.h"
#include "registry/upload/upload.h"
#include "training/admit_priv.h"
#include "training/format/artifact_types.h"

#define EMPTY_CONTENT   "{}"
#define RUN_ANNOTATION  "sijil.run"
#define NODE_ANNOTATION "sijil.node"

void admit_pushes_free(struct admit_pushes *pushes)
{
    if (pushes == NULL) return;
    for (size_t i = 0; i < pushes->count; i++) {
        manifest_push_done(&pushes->each[i]);
        manifest_free(pushes->manifests[i]);
    }
    free(pushes);
}

/* ---- blobs ---- */

static struct result begin_upload(const struct admitting *admitting, struct upload_begin *begin, struct permit **permit_out,
                                  struct error *err)
{
    const struct action_pair pair = {ACTION_UPLOAD_BEGIN, begin->where};
    struct record record;

    TRY(record_prepare_for_job(&pair, &begin->change, &record, err));
    sequencer_submit_and_wait(admitting->source->bundle.sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    if (status == RECORD_DONE) *permit_out = GIVE(record.permit);
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    return failure(err, status == RECORD_REFUSED ? why.kind : ERROR_UNAVAILABLE, "%s", why.message);
}

static struct result fill(struct upload *upload, struct pg *pg, struct bytes content, struct recorder *recorder,
                          struct error *err)
{
    const struct upload_announcement announced = {.length = content.length};
    const struct digest digest = digest_of(DIGEST_SHA256, content);

    TRY(upload_claim(upload, pg, err));
    if (upload_must_reserve(upload, content.length)) TRY(upload_reserve(upload, &announced, recorder, err));
    TRY(upload_write(upload, content, err));
    return upload_commit(upload, pg, &digest, recorder, err);
}

/* Each try begins sessions of its own: one that failed must not count among the open ones until the run ends. */
static struct result fill_or_drop(struct upload *upload, struct pg *pg, struct bytes content, struct recorder *recorder,
                                  struct error *err)
{
    struct error ignored = {0};

    if (fill(upload, pg, content, recorder, err).ok) return SUCCESS;
    (void)upload_drop(upload, pg, "an admission could not go on", recorder, &ignored).ok;
    return (struct result){.ok = false};
}

/* The same content again changes nothing but its lease. The session is in the name of the run: it ends with it if this gateway can't end it. */
static struct result store_blob(const struct admitting *admitting, const struct resource *where, struct bytes content,
                                struct error *err)
{
    struct principal server = {.kind = PRINCIPAL_SYSTEM};
    struct registry *registry = admitting->source->registry;
    struct job_recorder recorder;
    struct upload_begin begin;
    OWNED(permit) *permit = NULL;
    OWNED(upload) *upload = NULL;

    (void)snprintf(server.subject, sizeof server.subject, "run:%s", admitting->run.where.detail);
    TRY(upload_begin_prepare(registry, where, &server, DIGEST_SHA256, &begin, err));
    TRY(begin_upload(admitting, &begin, &permit, err));
    upload_begin_finish(registry, &begin);
    TRY(upload_of_begin(permit, registry, &begin, &upload, err));
    job_recorder_init(&recorder, admitting->source->bundle.sequencer, permit);
    return fill_or_drop(upload, admitting->source->bundle.pg, content, &recorder.recorder, err);
}

static struct result store_blobs(const struct admitting *admitting, const struct resource *where, struct error *err)
{
    TRY(store_blob(admitting, where, bytes_of_text(EMPTY_CONTENT), err));
    TRY(store_blob(admitting, where, bytes_of_text(admitting->papers->each[RUN_RESULT].text), err));
    TRY(store_blob(admitting, where, bytes_of_text(admitting->papers->each[RUN_CERTIFICATE].text), err));
    return store_blob(admitting, where, buffer_bytes(&admitting->admission), err);
}

/* ---- manifests ---- */

static struct result add_push(const struct admitting *admitting, struct admit_pushes *pushes, const struct resource *where,
                              struct bytes text, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, text);
    struct manifest *manifest = NULL;

    if (pushes->count == PUSHES_MAX) return failure(err, ERROR_LIMIT, "an admission has at most %d manifests", PUSHES_MAX);
    TRY(manifest_parse(text, (struct bytes){0}, &manifest, err));
    pushes->manifests[pushes->count] = manifest;
    struct manifest_push *push = &pushes->each[pushes->count++];
    push->manifest = manifest;
    digest_format(&digest, push->digest);
    return manifest_push_prepare(admitting->source->registry, admitting->source->bundle.pg, where, text, push, err);
}

static json_t *descriptor(const char *media_type, struct bytes content)
{
    const struct digest digest = digest_of(DIGEST_SHA256, content);
    char text[DIGEST_TEXT_SIZE];

    digest_format(&digest, text);
    return json_pack("{s:s, s:s, s:I}", "mediaType", media_type, "digest", text, "size", (json_int_t)content.length);
}

/* A layer that is an envelope. */
static struct result add_layer(json_t *layers, struct bytes envelope, const char *title, struct error *err)
{
    json_t *layer = descriptor(RUN_DSSE_TYPE, envelope);

    if (json_array_append_new(layers, layer) == 0 &&
        json_object_set_new(layer, "annotations", json_pack("{s:s}", "org.opencontainers.image.title", title)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a referrer");
}

/* A manifest with an output as its subject. `config` and `layers` are borrowed. */
struct referrer {
    const char *type;
    json_t *config, *layers;
    const char *node; /* of the log of a further node; NULL */
};

static struct result annotate(json_t *annotations, const char *name, const char *value, struct error *err)
{
    if (annotations != NULL && (value == NULL || json_object_set_new(annotations, name, json_string(value)) == 0)) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a referrer");
}

static struct result add_referrer(const struct admitting *admitting, struct admit_pushes *pushes,
                                  const struct held_manifest *output, const struct referrer *referrer, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(MANIFEST_SIZE_MAX);
    OWNED_JSON subject = descriptor(MEDIA_TYPE_IMAGE, buffer_bytes(&output->body));
    OWNED_JSON manifest = json_pack("{s:i, s:s, s:s, s:O, s:O, s:O, s:{s:s}}", "schemaVersion", 2, "mediaType", MEDIA_TYPE_IMAGE,
                                    "artifactType", referrer->type, "config", referrer->config, "layers", referrer->layers,
                                    "subject", subject, "annotations", RUN_ANNOTATION, admitting->run.where.detail);

    json_t *annotations = json_object_get(manifest, "annotations");
    TRY(annotate(annotations, NODE_ANNOTATION, referrer->node, err));
    TRY(annotate(annotations, LABEL_ANNOTATION, output->manifest->label, err));
    TRY(json_write_canonical(&text, manifest, err));
    return add_push(admitting, pushes, &output->where, buffer_bytes(&text), err);
}

static struct bytes text_of(const struct admitting *admitting, enum run_type type)
{
    return bytes_of_text(admitting->papers->each[type].text);
}

/* The signed result, and the certificate of the key that has signed it. */
static struct result add_provenance(const struct admitting *admitting, struct admit_pushes *pushes,
                                    const struct held_manifest *output, struct error *err)
{
    OWNED_JSON config = descriptor(RUN_EMPTY_CONFIG_TYPE, bytes_of_text(EMPTY_CONTENT));
    OWNED_JSON layers = json_array();
    const struct referrer referrer = {RUN_PROVENANCE_TYPE, config, layers, NULL};

    TRY(add_layer(layers, text_of(admitting, RUN_RESULT), "provenance.json", err));
    TRY(add_layer(layers, text_of(admitting, RUN_CERTIFICATE), "certificate.json", err));
    return add_referrer(admitting, pushes, output, &referrer, err);
}

static struct result add_admission(const struct admitting *admitting, struct admit_pushes *pushes,
                                   const struct held_manifest *output, struct error *err)
{
    OWNED_JSON config = descriptor(RUN_EMPTY_CONFIG_TYPE, bytes_of_text(EMPTY_CONTENT));
    OWNED_JSON layers = json_array();
    const struct referrer referrer = {RUN_ADMISSION_TYPE, config, layers, NULL};

    TRY(add_layer(layers, buffer_bytes(&admitting->admission), "admission.json", err));
    return add_referrer(admitting, pushes, output, &referrer, err);
}

/* The log or the metrics, with the layers of the manifest that the result names. */
static struct result add_copy(const struct admitting *admitting, struct admit_pushes *pushes, const struct held_manifest *output,
                              const struct held_manifest *of, struct error *err)
{
    OWNED_JSON json = NULL;

    if (of == NULL) return SUCCESS; /* a run without metrics */
    TRY(json_read_any_number(buffer_bytes(&of->body), MANIFEST_SIZE_MAX, &json, err));
    const struct referrer referrer = {of->manifest->artifact_type, json_object_get(json, "config"),
                                      json_object_get(json, "layers"), NULL};
    if (!uuid_equal(&of->where.repository, &output->where.repository))
        pushes->links[pushes->link_count++] = (struct held_links){&of->where, &output->where, of->manifest};
    return add_referrer(admitting, pushes, output, &referrer, err);
}

static const struct held_manifest *find_in(const struct held_manifests *held, const char *name)
{
    for (size_t i = 0; i < held->count; i++)
        if (strcmp(held->each[i].name, name) == 0) return &held->each[i];
    return NULL;
}

static const struct held_manifest *find(const struct admitting *admitting, const char *name)
{
    return find_in(&admitting->held, name);
}

static struct result add_referrers(const struct admitting *admitting, struct admit_pushes *pushes,
                                   const struct held_manifest *output, struct error *err)
{
    TRY(add_provenance(admitting, pushes, output, err));
    TRY(add_admission(admitting, pushes, output, err));
    TRY(add_copy(admitting, pushes, output, find(admitting, "log"), err));
    return add_copy(admitting, pushes, output, find(admitting, "metrics"), err);
}

/* The log of a further node, and its referrer. It is in the repository of the first output already. */
static struct result add_node(const struct admitting *admitting, struct admit_pushes *pushes, const struct held_manifest *log,
                              size_t number, struct error *err)
{
    char node[24]; /* 20 digits */
    OWNED_JSON json = NULL;

    (void)snprintf(node, sizeof node, "%zu", number);
    TRY(json_read_any_number(buffer_bytes(&log->body), MANIFEST_SIZE_MAX, &json, err));
    const struct referrer referrer = {RUN_LOG_TYPE, json_object_get(json, "config"), json_object_get(json, "layers"), node};
    TRY(add_push(admitting, pushes, &log->where, buffer_bytes(&log->body), err));
    return add_referrer(admitting, pushes, find(admitting, admitting->makes.each[0].name), &referrer, err);
}

static struct result add_nodes(struct admitting *admitting, struct admit_pushes *pushes, struct error *err)
{
    for (size_t i = 0; i < admitting->papers->chain.peer_count && !admit_is_refused(admitting); i++) {
        OWNED_HELD held = {.count = 0};
        TRY(admit_read_node(admitting, i, &held, err));
        if (!admit_is_refused(admitting)) TRY(add_node(admitting, pushes, find_in(&held, "log"), i + 1, err));
    }
    return SUCCESS;
}

struct result admit_prepare(struct admitting *admitting, struct admit_pushes **pushes_out, struct error *err)
{
    OWNED(admit_pushes) *pushes = memory_zeroed(1, sizeof *pushes);

    if (pushes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an admission");
    for (size_t i = 0; i < admitting->held.count; i++) {
        const struct held_manifest *held = &admitting->held.each[i];
        if (admit_is_first(admitting, i)) TRY(store_blobs(admitting, &held->where, err));
        TRY(add_push(admitting, pushes, &held->where, buffer_bytes(&held->body), err));
    }
    for (size_t i = 0; i < admitting->makes.count; i++)
        if (admitting->makes.each[i].is_output)
            TRY(add_referrers(admitting, pushes, find(admitting, admitting->makes.each[i].name), err));
    TRY(add_nodes(admitting, pushes, err));
    *pushes_out = GIVE(pushes);
    return SUCCESS;
}
