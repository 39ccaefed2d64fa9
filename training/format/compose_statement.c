/* The payloads of in-toto: the result and the admission. */
#include <stdio.h>
#include <string.h>

#include "training/format/artifacts.h"
#include "training/format/compose_priv.h"
#include "training/format/form.h"

#define STATEMENT "https://in-toto.io/Statement/v1"
#define URN_SIZE  320 /* "urn:sijil:" and a repository of at most 255 bytes, or an audience of at most 127 */

static const char *urn(const char *prefix, const char *name, char text[URN_SIZE])
{
    (void)snprintf(text, URN_SIZE, "%s%s", prefix, name);
    return text;
}

static json_t *subject_of(const char *name, const char *hex)
{
    return json_pack("{s:s, s:{s:s}}", "name", name, "digest", "sha256", hex);
}

static json_t *resource_of(const char *uri, const char *digest)
{
    return json_pack("{s:s, s:{s:s}}", "uri", uri, "digest", "sha256", digest + strlen("sha256:"));
}

/* ---- result ---- */

static json_t *subjects_of(const struct run_result_parts *parts)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < parts->output_count; i++)
        if (json_array_append_new(list, subject_of(parts->outputs[i].name, parts->outputs[i].digest)) != 0) return NULL;
    return json_array_append_new(list, subject_of("log", parts->log)) == 0 ? GIVE(list) : NULL;
}

static bool add_fetched(json_t *list, const char *prefix, const char *name, const json_t *artifact)
{
    char full[URN_SIZE], uri[URN_SIZE];
    const char *digest = json_text_of(artifact, "digest");

    return json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s}}", "name", urn(prefix, name, full), "uri",
                                                 urn(FORM_REPOSITORY_URN, json_text_of(artifact, "repository"), uri), "digest",
                                                 "sha256", digest + strlen("sha256:"))) == 0;
}

static json_t *dependencies_of(const json_t *spec)
{
    const struct run_artifacts artifacts = run_spec_artifacts(spec);
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < artifacts.count; i++) {
        const bool is_input = strcmp(artifacts.each[i].role, "input") == 0;
        if (!add_fetched(list, is_input ? "input/" : "", artifacts.each[i].name, artifacts.each[i].json)) return NULL;
    }
    return GIVE(list);
}

static json_t *definition_of(const struct run_chain *below)
{
    const struct run_envelope *lease = below->lease;

    return json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:s}, s:{s:O, s:O}, s:o}", "buildType", "urn:sijil:run:v1",
                     "externalParameters", "run", run_text(lease, "run"), "audience", run_text(lease, "audience"), "order",
                     below->order->digest, "lease", lease->digest, "certificate", below->certificate->digest,
                     "internalParameters", "attempt", compose_share(run_member(lease, "attempt")), "node",
                     compose_share(run_member(lease, "node")), "resolvedDependencies",
                     dependencies_of(run_member(below->order, "spec")));
}

static json_t *devices_of(const struct run_result_parts *parts)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < parts->device_count; i++) {
        const struct run_device *device = &parts->devices[i];
        if (json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "uuid", device->uuid, "type", device->type,
                                                  "driver", device->driver, "memory_bytes", (json_int_t)device->memory_bytes,
                                                  "utilisation_percent", (json_int_t)device->utilisation_percent)) != 0)
            return NULL;
    }
    return GIVE(list);
}

static json_t *usage_of(const struct run_result_parts *parts)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "wall_ms", (json_int_t)parts->wall_ms, "cpu_ms", (json_int_t)parts->cpu_ms,
                     "memory_bytes", (json_int_t)parts->memory_bytes, "output_bytes", (json_int_t)parts->output_bytes,
                     "log_bytes", (json_int_t)parts->log_bytes, "device_ms", (json_int_t)parts->device_ms);
}

static json_t *details_of(const struct run_chain *below, const struct run_result_parts *parts)
{
    char builder[URN_SIZE], invocation[URN_SIZE], started[CLOCK_TEXT_SIZE], finished[CLOCK_TEXT_SIZE];
    OWNED_JSON details = json_pack(
        "{s:{s:s}, s:{s:s, s:s, s:s}, s:{s:s, s:I, s:I, s:s}, s:o, s:s, s:o}", "builder", "id",
        urn(FORM_RUNNER_URN, run_text(below->lease, "runner.id"), builder), "metadata", "invocationId",
        urn(FORM_RUN_URN, run_text(below->lease, "run"), invocation), "startedOn", compose_time(parts->started_ms, started),
        "finishedOn", compose_time(parts->finished_ms, finished), "sijil_outcome", "status", parts->status, "exit",
        (json_int_t)parts->exit_status, "signal", (json_int_t)parts->signal, "reason", parts->reason, "sijil_usage",
        usage_of(parts), "sijil_isolation", parts->isolation, "sijil_devices", devices_of(parts));

    if (details == NULL) return NULL;
    if (parts->metrics != NULL &&
        json_object_set_new(details, "byproducts", json_pack("[o]", subject_of("metrics", parts->metrics))) != 0)
        return NULL;
    return GIVE(details);
}

struct result run_result_write(const struct run_chain *below, const struct run_result_parts *parts, struct buffer *payload,
                               struct error *err)
{
    const unsigned lacks = json_lacks();
    OWNED_JSON json = json_pack("{s:s, s:s, s:o, s:{s:o, s:o}}", "_type", STATEMENT, "predicateType",
                                "https://slsa.dev/provenance/v1", "subject", subjects_of(parts), "predicate", "buildDefinition",
                                definition_of(below), "runDetails", details_of(below, parts));

    return compose_finish(RUN_RESULT, json, lacks, payload, err);
}

/* ---- admission ---- */

static json_t *admitted_of(const struct run_envelope *result)
{
    OWNED_JSON list = json_copy(compose_share(run_member(result, "subject")));

    if (list == NULL || json_array_remove(list, json_array_size(list) - 1) != 0) return NULL; /* the last element is the log */
    return GIVE(list);
}

static bool attest(json_t *list, const struct run_envelope *envelope)
{
    char uri[URN_SIZE];

    return json_array_append_new(list,
                                 resource_of(urn("urn:sijil:run-", run_type_name(envelope->type), uri), envelope->digest)) == 0;
}

static json_t *attestations_of(const struct run_chain *below)
{
    OWNED_JSON list = json_array();

    if (!attest(list, below->request)) return NULL;
    for (size_t i = 0; i < below->approval_count; i++)
        if (!attest(list, below->approvals[i])) return NULL;
    if (!attest(list, below->order) || !attest(list, below->lease) || !attest(list, below->result)) return NULL;
    for (size_t i = 0; i < below->peer_count; i++)
        if (!attest(list, below->peers[i].lease) || !attest(list, below->peers[i].result)) return NULL;
    return GIVE(list);
}

static json_t *summary_of(const struct run_chain *below, const struct run_admission_parts *parts)
{
    char verifier[URN_SIZE], run[URN_SIZE], set[64], level[64], verified[CLOCK_TEXT_SIZE]; /* texts and 20 digits */

    (void)snprintf(set, sizeof set, "urn:sijil:policy-set:%lld", (long long)parts->epoch);
    (void)snprintf(level, sizeof level, "SIJIL_ASSURANCE_%lld", (long long)parts->assurance);
    return json_pack("{s:{s:s}, s:s, s:s, s:{s:s, s:{s:s}}, s:o, s:s, s:[s]}", "verifier", "id",
                     urn("urn:sijil:keyd:", run_text(below->order, "audience"), verifier), "timeVerified",
                     compose_time(parts->verified_ms, verified), "resourceUri",
                     urn(FORM_RUN_URN, run_text(below->order, "run"), run), "policy", "uri", set, "digest", "sha256",
                     parts->policy, "inputAttestations", attestations_of(below), "verificationResult", "PASSED", "verifiedLevels",
                     level);
}

struct result run_admission_write(const struct run_chain *below, const struct run_admission_parts *parts, struct buffer *payload,
                                  struct error *err)
{
    const unsigned lacks = json_lacks();
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:o, s:o}", "_type", STATEMENT, "predicateType", "https://slsa.dev/verification_summary/v1",
                  "subject", admitted_of(below->result), "predicate", summary_of(below, parts));

    return compose_finish(RUN_ADMISSION, json, lacks, payload, err);
}
