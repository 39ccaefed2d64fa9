/* Steps 7 and 8: the result and the admission, which are Statements of in-toto. */
#include <string.h>

#include "base/text.h"
#include "training/format/artifacts.h"
#include "training/format/certificate.h"
#include "training/format/chain_priv.h"
#include "training/format/form.h"
#include "training/format/shapes_priv.h"

#define EXTERNAL "predicate.buildDefinition.externalParameters."
#define INTERNAL "predicate.buildDefinition.internalParameters."
#define DETAILS  "predicate.runDetails."

#define POLICY_URN "urn:sijil:policy-set:"

static const char *hex_of(const json_t *resource)
{
    return json_text_of(json_object_get(resource, "digest"), "sha256");
}

static bool has_succeeded(const struct run_envelope *result)
{
    return strcmp(run_text(result, DETAILS "sijil_outcome.status"), "succeeded") == 0;
}

/* ---- inputs ---- */

/* The name of an artifact in a result: "input/" is before those of inputs. */
static bool is_named(const char *found, const char *role, const char *name)
{
    const size_t length = strlen("input/");

    if (strcmp(role, "input") != 0) return strcmp(found, name) == 0;
    return strncmp(found, "input/", length) == 0 && strcmp(found + length, name) == 0;
}

static bool is_artifact(const json_t *fetched, const json_t *artifact)
{
    const char *uri = json_text_of(fetched, "uri");

    return strcmp(uri + strlen(FORM_REPOSITORY_URN), json_text_of(artifact, "repository")) == 0 &&
           strcmp(hex_of(fetched), json_text_of(artifact, "digest") + strlen("sha256:")) == 0;
}

static struct result check_dependencies(const struct run_chain *chain, struct error *err)
{
    const json_t *list = run_member(chain->result, "predicate.buildDefinition.resolvedDependencies");
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(chain->order, "spec"));
    const size_t count = json_array_size(list);

    for (size_t i = 0; i < artifacts.count && i <= count; i++) {
        const char *role = artifacts.each[i].role, *name = artifacts.each[i].name;
        const json_t *fetched = json_array_get(list, i);
        if (name != role && count != artifacts.count) break;
        if (fetched != NULL && is_named(json_text_of(fetched, "name"), role, name) &&
            is_artifact(fetched, artifacts.each[i].json))
            continue;
        return failure(err, ERROR_DENIED, "result: its %s%s%.63s is not that of the order", role, name == role ? "" : " ",
                       name == role ? "" : name);
    }
    if (count == artifacts.count) return SUCCESS;
    return failure(err, ERROR_DENIED, "result: it fetched more or fewer artifacts than the order names");
}

/* ---- outputs ---- */

/* Every node could write the same output, and nobody could say which one counts: so node 0 alone has outputs. */
static struct result check_is_log_alone(const struct run_chain *chain, size_t made, struct error *err)
{
    if (made == 0 && run_member(chain->result, DETAILS "byproducts") == NULL) return SUCCESS;
    return failure(err, ERROR_DENIED, "result: only node 0 has outputs and metrics, and this is of node %lld",
                   (long long)run_integer(chain->lease, "node"));
}

/* Both lists are sorted by name; the result's ends with the log. */
static struct result check_outputs(const struct run_chain *chain, struct error *err)
{
    const json_t *subjects = run_member(chain->result, "subject"), *outputs = run_member(chain->order, "spec.outputs");
    const size_t made = json_array_size(subjects) - 1; /* the shape demands one at least */
    size_t at = 0;

    if (strcmp(json_text_of(json_array_get(subjects, made), "name"), "log") != 0)
        return failure(err, ERROR_DENIED, "result: its last subject is not the log");
    if (run_integer(chain->lease, "node") != 0) return check_is_log_alone(chain, made, err);
    for (size_t i = 0; i < json_array_size(outputs) && at < made; i++)
        if (strcmp(json_text_of(json_array_get(outputs, i), "name"), json_text_of(json_array_get(subjects, at), "name")) == 0)
            at++;
    if (at < made)
        return failure(err, ERROR_DENIED, "result: %.63s is not the next output of the order",
                       json_text_of(json_array_get(subjects, at), "name"));
    if (has_succeeded(chain->result) && made != json_array_size(outputs))
        return failure(err, ERROR_DENIED, "result: it succeeded without all outputs");
    return SUCCESS;
}

/* The name of a part of a device ends with "MIG" and its profile; a whole device has no such name. */
static bool is_of_profile(const char *type, const char *mig)
{
    const char *at = strstr(type, " MIG ");

    return mig == NULL ? at == NULL : at != NULL && strcmp(at + strlen(" MIG "), mig) == 0;
}

/* No device may occur twice, and each must be as the order demands. */
static struct result check_devices(const struct run_chain *chain, struct error *err)
{
    const json_t *wanted = run_member(chain->order, "spec.devices"), *seen = run_member(chain->result, DETAILS "sijil_devices");
    const json_int_t memory_bytes = json_integer_value(json_object_get(wanted, "memory_bytes"));

    for (size_t i = 0; i < json_array_size(seen); i++) {
        const json_t *device = json_array_get(seen, i);
        for (size_t j = 0; j < i; j++)
            if (json_equal(json_object_get(device, "uuid"), json_object_get(json_array_get(seen, j), "uuid")))
                return failure(err, ERROR_DENIED, "result: it has the device %.63s twice", json_text_of(device, "uuid"));
        if (wanted == NULL || !form_is_of_type(json_text_of(device, "type"), json_text_of(wanted, "type")) ||
            !is_of_profile(json_text_of(device, "type"), json_text_of(wanted, "mig")) ||
            json_integer_value(json_object_get(device, "memory_bytes")) < memory_bytes)
            return failure(err, ERROR_DENIED, "result: the order does not want such a device: %.63s",
                           json_text_of(device, "type"));
    }
    return SUCCESS;
}

static struct result check_place(const struct run_chain *chain, struct error *err)
{
    const json_t *wanted = run_member(chain->order, "spec.devices.count");
    const size_t seen = json_array_size(run_member(chain->result, DETAILS "sijil_devices"));

    if (form_isolation_rank(run_text(chain->result, DETAILS "sijil_isolation")) <
        form_isolation_rank(run_text(chain->order, "spec.isolation")))
        return failure(err, ERROR_DENIED, "result: its isolation is weaker than the order demands");
    TRY(check_devices(chain, err));
    if (!has_succeeded(chain->result)) return SUCCESS;
    if (run_integer(chain->result, DETAILS "sijil_outcome.signal") != 0)
        return failure(err, ERROR_DENIED, "result: it succeeded, and a signal ended it");
    if (run_integer(chain->result, DETAILS "sijil_outcome.exit") != 0)
        return failure(err, ERROR_DENIED, "result: it succeeded with an exit status that is not 0");
    if ((json_int_t)seen != json_integer_value(wanted))
        return failure(err, ERROR_DENIED, "result: the order has %lld devices, and it saw %zu",
                       (long long)json_integer_value(wanted), seen);
    return SUCCESS;
}

static struct result check_binding(const struct run_chain *chain, struct error *err)
{
    static const char *const members[][2] = {
        {EXTERNAL "run", "run"}, {EXTERNAL "audience", "audience"}, {INTERNAL "attempt", "attempt"}, {INTERNAL "node", "node"}};
    const struct run_envelope *result = chain->result, *lease = chain->lease;

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (!json_equal(run_member(result, members[i][0]), run_member(lease, members[i][1])))
            return failure(err, ERROR_DENIED, "result: its %s is not that of the lease", members[i][1]);
    TRY(chain_names(result, EXTERNAL "order", chain->order, err));
    TRY(chain_names(result, EXTERNAL "lease", lease, err));
    TRY(chain_names(result, EXTERNAL "certificate", chain->certificate, err));
    if (!chain_is_text(result, DETAILS "builder.id", FORM_RUNNER_URN, run_text(lease, "runner.id")))
        return failure(err, ERROR_DENIED, "result: its runner is not that of the lease");
    if (!chain_is_text(result, DETAILS "metadata.invocationId", FORM_RUN_URN, run_text(lease, "run")))
        return failure(err, ERROR_DENIED, "result: its invocation is not the run");
    return certificate_check_result(chain->certificate, result, err);
}

struct result chain_check_result(const struct run_chain *chain, struct error *err)
{
    const int64_t started_ms = run_time(chain->result, DETAILS "metadata.startedOn");
    const int64_t finished_ms = run_time(chain->result, DETAILS "metadata.finishedOn");

    if (chain->certificate == NULL) return failure(err, ERROR_DENIED, "result: it comes without the certificate of its key");
    TRY(check_binding(chain, err));
    TRY(check_dependencies(chain, err));
    TRY(check_outputs(chain, err));
    TRY(check_place(chain, err));
    if (started_ms + RUN_CLOCK_SKEW_MS < run_time(chain->lease, "not_before") || finished_ms < started_ms ||
        finished_ms > run_time(chain->lease, "expires") + RUN_CLOCK_SKEW_MS)
        return failure(err, ERROR_DENIED, "result: it did not start and end within the lease");
    if (started_ms + RUN_CLOCK_SKEW_MS >= run_time(chain->certificate, "not_before") &&
        finished_ms <= run_time(chain->certificate, "expires") + RUN_CLOCK_SKEW_MS)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "result: it did not start and end within the life of its certificate");
}

/* ---- the other nodes ---- */

static struct result check_peer(const struct run_chain *chain, size_t index, struct error *err)
{
    struct run_chain one = *chain;

    one.lease = chain->peers[index].lease;
    one.certificate = chain->peers[index].certificate;
    one.result = chain->peers[index].result;
    TRY(chain_check_lease(&one, err));
    if (run_integer(one.lease, "node") != (int64_t)index + 1)
        return failure(err, ERROR_DENIED, "lease: it is of node %lld", (long long)run_integer(one.lease, "node"));
    if (run_integer(one.lease, "attempt") != run_integer(chain->lease, "attempt"))
        return failure(err, ERROR_DENIED, "lease: it is of another attempt than that of node 0");
    if (one.certificate != NULL) TRY(run_chain_check_certificate(&one, err));
    return chain_check_result(&one, err);
}

struct result chain_check_peers(const struct run_chain *chain, struct error *err)
{
    const int64_t nodes = run_integer(chain->order, "spec.nodes");
    struct error why = {0};

    if (chain->peer_count == 0) return SUCCESS;
    if (run_integer(chain->lease, "node") != 0 || (int64_t)chain->peer_count + 1 != nodes)
        return failure(err, ERROR_DENIED, "peers: they are the nodes 1 to %lld, beside a result of node 0", (long long)nodes - 1);
    for (size_t i = 0; i < chain->peer_count; i++)
        if (!check_peer(chain, i, &why).ok) return failure(err, why.kind, "node %zu: %.230s", i + 1, why.message);
    return SUCCESS;
}

/* ---- admission ---- */

static bool is_attestation(const json_t *named, const struct run_envelope *envelope)
{
    const char *uri = json_text_of(named, "uri");
    const size_t length = strlen("urn:sijil:run-");

    return strncmp(uri, "urn:sijil:run-", length) == 0 && strcmp(uri + length, run_type_name(envelope->type)) == 0 &&
           strcmp(hex_of(named), envelope->digest + strlen("sha256:")) == 0;
}

static struct result check_attestations(const struct run_chain *chain, struct error *err)
{
    const json_t *named = run_member(chain->admission, "predicate.inputAttestations");
    const struct run_envelope *all[RUN_APPROVALS_MAX + 4 + 2 * RUN_PEERS_MAX] = {chain->request};
    size_t count = 1;

    for (size_t i = 0; i < chain->approval_count; i++) all[count++] = chain->approvals[i];
    all[count++] = chain->order;
    all[count++] = chain->lease;
    all[count++] = chain->result;
    for (size_t i = 0; i < chain->peer_count; i++) {
        all[count++] = chain->peers[i].lease;
        all[count++] = chain->peers[i].result;
    }
    if (json_array_size(named) != count)
        return failure(err, ERROR_DENIED, "admission: it names %zu envelopes, and there are %zu", json_array_size(named), count);
    for (size_t i = 0; i < count; i++)
        if (!is_attestation(json_array_get(named, i), all[i]))
            return failure(err, ERROR_DENIED, "admission: it names another %s", run_type_name(all[i]->type));
    return SUCCESS;
}

static struct result check_admitted(const struct run_chain *chain, struct error *err)
{
    const json_t *admitted = run_member(chain->admission, "subject"), *made = run_member(chain->result, "subject");

    if (json_array_size(admitted) + 1 != json_array_size(made))
        return failure(err, ERROR_DENIED, "admission: it admits more or fewer outputs than the result has");
    for (size_t i = 0; i < json_array_size(admitted); i++)
        if (!json_equal(json_array_get(admitted, i), json_array_get(made, i)))
            return failure(err, ERROR_DENIED, "admission: its output %zu is not that of the result", i + 1);
    return SUCCESS;
}

static struct result check_level(const struct run_chain *chain, struct error *err)
{
    const char *level = json_string_value(json_array_get(run_member(chain->admission, "predicate.verifiedLevels"), 0));
    const size_t length = strlen(RUN_LEVEL);

    if (strncmp(level, RUN_LEVEL, length) != 0 || level[length] < '1' || level[length] > '4')
        return failure(err, ERROR_DENIED, "admission: its level is SIJIL_ASSURANCE_ and 1 to 4");
    if (level[length] - '0' >= run_integer(chain->order, "spec.assurance")) return SUCCESS;
    return failure(err, ERROR_DENIED, "admission: its level is below the order's");
}

/* The set in force at the admission is the order's or a newer one. */
static struct result check_set(const struct run_chain *chain, struct error *err)
{
    const json_t *policy = run_member(chain->admission, "predicate.policy");
    const char *uri = json_text_of(policy, "uri");
    const int64_t ordered = run_integer(chain->order, "policy.epoch");
    const size_t length = strlen(POLICY_URN);
    uint64_t epoch = 0;

    if (strncmp(uri, POLICY_URN, length) != 0 || !text_to_u64(bytes_of_text(uri + length), RUN_INTEGER_MAX, &epoch))
        return failure(err, ERROR_DENIED, "admission: its policy set is " POLICY_URN " and an epoch");
    if (epoch < (uint64_t)ordered) return failure(err, ERROR_DENIED, "admission: its policy set is older than the order's");
    if (epoch > (uint64_t)ordered || strcmp(hex_of(policy), run_text(chain->order, "policy.digest") + strlen("sha256:")) == 0)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "admission: its policy set has the epoch of the order's, and another digest");
}

/* Each node's result succeeded, and ended before the admission. */
static struct result check_ended(const struct run_chain *chain, const struct run_envelope *result, struct error *err)
{
    if (!has_succeeded(result))
        return failure(err, ERROR_DENIED, "admission: the result did not succeed, so nothing is admitted");
    if (run_time(chain->admission, "predicate.timeVerified") + RUN_CLOCK_SKEW_MS >=
        run_time(result, DETAILS "metadata.finishedOn"))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "admission: it is older than the result");
}

static struct result check_nodes_ended(const struct run_chain *chain, struct error *err)
{
    const int64_t nodes = run_integer(chain->order, "spec.nodes");

    if (run_integer(chain->lease, "node") != 0)
        return failure(err, ERROR_DENIED, "admission: node 0 alone has outputs, and the lease is of another node");
    if ((int64_t)chain->peer_count + 1 != nodes)
        return failure(err, ERROR_DENIED, "admission: the order has %lld nodes, and there are results of %zu", (long long)nodes,
                       chain->peer_count + 1);
    TRY(check_ended(chain, chain->result, err));
    for (size_t i = 0; i < chain->peer_count; i++) TRY(check_ended(chain, chain->peers[i].result, err));
    return SUCCESS;
}

struct result chain_check_admission(const struct run_chain *chain, struct error *err)
{
    const struct run_envelope *admission = chain->admission;

    TRY(check_nodes_ended(chain, err));
    if (!chain_is_text(admission, "predicate.verifier.id", "urn:sijil:keyd:", run_text(chain->order, "audience")) ||
        !chain_is_text(admission, "predicate.resourceUri", FORM_RUN_URN, run_text(chain->order, "run")))
        return failure(err, ERROR_DENIED, "admission: it is of another registry or another run");
    TRY(check_admitted(chain, err));
    TRY(check_attestations(chain, err));
    TRY(check_level(chain, err));
    return check_set(chain, err);
}
