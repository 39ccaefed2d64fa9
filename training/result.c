#include "training/result.h"

#include <stdio.h>
#include <string.h>

#include "registry/names/titles.h"
#include "training/content.h"
#include "training/format/artifact_types.h"
#include "training/result_priv.h"
#include "training/run_priv.h"

#define DETAILS "predicate.runDetails."

/* ---- the outcome ---- */

static void say_why(const struct run_envelope *result, struct run_outcome *outcome)
{
    const char *reason = run_text(result, DETAILS "sijil_outcome.reason"),
               *status = run_text(result, DETAILS "sijil_outcome.status");
    const long long exit_status = run_integer(result, DETAILS "sijil_outcome.exit");

    if (reason[0] != '\0')
        (void)snprintf(outcome->reason, sizeof outcome->reason, "%s", reason); /* the shape allows no longer one */
    else (void)snprintf(outcome->reason, sizeof outcome->reason, "the runner says %s, with the status %lld", status, exit_status);
}

struct run_outcome run_outcome_of(const struct run_envelope *result)
{
    const char *status = run_text(result, DETAILS "sijil_outcome.status");
    struct run_outcome outcome = {.state = RUN_STATE_FAILED,
                                  .cpu_ms = run_integer(result, DETAILS "sijil_usage.cpu_ms"),
                                  .device_ms = run_integer(result, DETAILS "sijil_usage.device_ms"),
                                  .memory_bytes = run_integer(result, DETAILS "sijil_usage.memory_bytes")};

    if (strcmp(status, "succeeded") == 0) {
        outcome.state = RUN_STATE_FINISHING;
        return outcome;
    }
    if (strcmp(status, "cancelled") == 0) outcome.state = RUN_STATE_CANCELLED;
    say_why(result, &outcome);
    return outcome;
}

/* ---- what it made ---- */

static const char *hex_of(const json_t *named)
{
    return json_text_of(json_object_get(named, "digest"), "sha256");
}

static const json_t *output_of(const struct run_envelope *order, const char *name)
{
    const json_t *outputs = run_member(order, "spec.outputs");

    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (strcmp(json_text_of(json_array_get(outputs, i), "name"), name) == 0) return json_array_get(outputs, i);
    return NULL;
}

static struct run_made made_of(const struct run_envelope *order, const json_t *subject)
{
    const char *name = json_text_of(subject, "name");
    const json_t *output = output_of(order, name);
    const json_t *first = json_array_get(run_member(order, "spec.outputs"), 0);

    if (output != NULL)
        return (struct run_made){name, hex_of(subject), json_text_of(output, "repository"), json_text_of(output, "type"), true};
    return (struct run_made){name, hex_of(subject), json_text_of(first, "repository"),
                             strcmp(name, "log") == 0 ? RUN_LOG_TYPE : RUN_METRICS_TYPE, false};
}

void run_makes_of(const struct run_envelope *order, const struct run_envelope *result, struct run_makes *makes_out)
{
    const json_t *const lists[] = {run_member(result, "subject"), run_member(result, DETAILS "byproducts")};

    makes_out->count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (size_t j = 0; j < json_array_size(lists[i]) && makes_out->count < RUN_SUBJECTS_MAX; j++)
            makes_out->each[makes_out->count++] = made_of(order, json_array_get(lists[i], j));
}

static bool has_layer_elsewhere(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->reference_count; i++)
        if (!manifest->references[i].is_required) return true;
    return false;
}

static const char *config_of(const struct run_made *made)
{
    return strcmp(made->type, RUN_MODEL_TYPE) == 0 ? RUN_MODEL_CONFIG_TYPE : RUN_EMPTY_CONFIG_TYPE;
}

/* Readers of an admitted run take the one layer for the log: so it is one, with the name that says what it is. */
static struct result check_only_layer(const struct run_made *made, const json_t *layers, const char *title, struct error *err)
{
    const char *found = title_of_layer(json_array_get(layers, 0));

    if (json_array_size(layers) == 1 && found != NULL && strcmp(found, title) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "the manifest of %.63s has exactly one layer, with the title %s", made->name, title);
}

/* The digest stands for files, so every client must make the same files of it. */
static struct result check_layers(const struct run_made *made, struct bytes text, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read_any_number(text, MANIFEST_SIZE_MAX, &json, err));
    const json_t *layers = json_object_get(json, "layers");
    if (strcmp(made->type, RUN_LOG_TYPE) == 0) TRY(check_only_layer(made, layers, RUN_LOG_TITLE, err));
    if (strcmp(made->type, RUN_METRICS_TYPE) == 0) TRY(check_only_layer(made, layers, RUN_METRICS_TITLE, err));
    const struct result checked = titles_check_files(layers, err);
    if (!checked.ok) failure_name(made->name, err);
    return checked;
}

struct result run_made_check(const struct run_made *made, const struct held_manifest *held, struct bytes text, struct error *err)
{
    const struct manifest *manifest = held->manifest;

    if (strcmp(held->digest + strlen("sha256:"), made->hex) != 0)
        return failure(err, ERROR_INVALID, "the manifest of %.63s is not the one that the result names", made->name);
    if (manifest->kind != MANIFEST_IMAGE || strcmp(manifest->media_type, MEDIA_TYPE_IMAGE) != 0)
        return failure(err, ERROR_INVALID, "the manifest of %.63s is no " MEDIA_TYPE_IMAGE, made->name);
    if (strcmp(manifest->artifact_type, made->type) != 0)
        return failure(err, ERROR_INVALID, "the manifest of %.63s has the type %.80s, and must have %.80s", made->name,
                       manifest->artifact_type, made->type);
    if (manifest->subject[0] != '\0')
        return failure(err, ERROR_INVALID, "the manifest of %.63s has a subject: the registry adds the referrers", made->name);
    if (strcmp(manifest->config_type, config_of(made)) != 0)
        return failure(err, ERROR_INVALID, "the manifest of %.63s has a config of the type %.80s, and must have %s", made->name,
                       manifest->config_type, config_of(made));
    if (has_layer_elsewhere(manifest))
        return failure(err, ERROR_INVALID, "a layer of %.63s is kept elsewhere: upload it", made->name);
    return check_layers(made, text, err);
}

static bool is_output(const struct run_makes *makes, const char *name)
{
    for (size_t i = 0; i < makes->count; i++)
        if (strcmp(makes->each[i].name, name) == 0) return makes->each[i].is_output;
    return false;
}

/* Uploads may be more, because checkpoints are among them. */
struct result run_makes_check_amount(const struct run_envelope *order, const struct run_makes *makes,
                                     const struct held_manifests *held, struct error *err)
{
    const int64_t most = run_integer(order, "spec.limits.output_bytes");
    int64_t room = most;

    for (size_t i = 0; i < held->count; i++) {
        const struct manifest *manifest = held->each[i].manifest;
        if (!is_output(makes, held->each[i].name)) continue;
        room += RUN_CONFIG_MAX;
        for (size_t j = 0; j < manifest->reference_count; j++) {
            if (manifest->references[j].size_bytes > room)
                return failure(err, ERROR_INVALID, "the order allows %lld bytes of outputs, and the manifests name more",
                               (long long)most);
            room -= manifest->references[j].size_bytes;
        }
    }
    return SUCCESS;
}

/* ---- late results ---- */

struct late_change {
    struct change change;
    struct action_pair pair;
    const struct run_late *late;
};

/* Blobs may be gone by now: then only the envelope is kept. */
static struct result hold(const struct permit *permit, struct pg *pg, const struct run_late *late, struct error *err)
{
    struct error why = {0};

    if (late->held == NULL) return SUCCESS;
    if (held_manifests_insert(permit, pg, ACTION_RUN_QUARANTINE, late->held, &why).ok || why.kind == ERROR_INVALID)
        return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

static struct result keep_late(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct late_change *self = (const struct late_change *)(const void *)change; /* its first member */
    int64_t count = 0;

    permit_require(permit, ACTION_RUN_QUARANTINE, &self->pair.resource);
    TRY(run_rows_late(pg, self->late->run, &count, err));
    if (count >= RUN_LATE_MAX)
        return failure(err, ERROR_LIMIT, "the run has %d late results already, and keeps no more", RUN_LATE_MAX);
    TRY(run_row_add_envelope(pg, self->late->run, "late", self->late->result, err));
    return hold(permit, pg, self->late, err);
}

struct result run_result_keep_late(const struct permit *permit, struct sequencer *sequencer, const struct run_late *late,
                                   struct error *err)
{
    struct late_change change = {.change = {.run = keep_late, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                 .pair = {ACTION_RUN_QUARANTINE, *late->where},
                                 .late = late};

    run_require_run(permit, ACTION_RUN_FINISH, late->where, late->run);
    uuid_format(late->run, change.pair.resource.detail);
    const struct result kept = run_record(sequencer, &change.pair, &change.change, err);
    return kept.ok || err->kind == ERROR_CONFLICT ? SUCCESS : kept;
}
